"""The data in the top-level ``datasets/``: what they claim, checked against their method."""

from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from ase.calculators.emt import EMT

from mlpot.datasets import HDF5Dataset, average_neighbors, isolated_atom_energies, summary

FOLDER = Path(__file__).parents[2] / "datasets"


@pytest.mark.parametrize("name", ["ethanol.h5", "ethanol_distorted.h5", "water.h5", "copper.h5"])
def test_files_are_whole_small_and_say_where_they_come_from(name):
    with HDF5Dataset(FOLDER / name) as stored:
        stored.verify()
        provenance = stored.provenance
        assert summary(stored).warnings == ()
    assert {"method", "versions", "script", "seed", "units", "licence"} <= set(provenance)
    assert (FOLDER / Path(provenance["script"]).name).is_file()
    assert sum(file.stat().st_size for file in FOLDER.glob("*.h5")) < 3e6


def test_ethanol_is_what_it_says():
    with HDF5Dataset(FOLDER / "ethanol.h5") as stored:
        frames = list(stored)
    assert Counter(f.config_type for f in frames) == {
        "MD_300K": 600,
        "MD_600K": 600,
        "IsolatedAtom": 3,
    }
    molecules = [f for f in frames if not f.is_isolated_atom]
    assert {f.formula for f in molecules} == {"H6C2O"}
    assert all(f.forces is not None and f.stress is None for f in molecules)
    assert sorted(isolated_atom_energies(frames)) == [1, 6, 8]
    assert average_neighbors(molecules, 8.0) == 8
    # 3N - 6 = 21 vibrations: raising kT from 300 to 600 K adds about 21/2 kT of potential energy.
    energy = {
        t: np.mean([f.energy for f in molecules if f.config_type == t])
        for t in ("MD_300K", "MD_600K")
    }
    added = (energy["MD_600K"] - energy["MD_300K"]) / (8.617333e-5 * 300)
    assert 9.0 < added < 12.5


def test_water_is_distorted_about_its_minimum():
    with HDF5Dataset(FOLDER / "water.h5") as stored:
        frames = list(stored)
    molecules = [f for f in frames if not f.is_isolated_atom]
    assert len(molecules) == 600 and {f.formula for f in molecules} == {"H2O"}
    assert sorted(isolated_atom_energies(frames)) == [1, 8]
    lowest = min(f.energy for f in molecules)
    for scatter in (0.02, 0.035, 0.05):
        of = [f for f in molecules if f.config_type == f"scatter_{scatter:g}A"]
        lengths = [np.linalg.norm(f.positions[k] - f.positions[0]) for f in of for k in (1, 2)]
        # Of two atoms that move on their own, along one axis each.
        assert np.std(lengths) == pytest.approx(2**0.5 * scatter, rel=0.12)
        assert np.mean(lengths) == pytest.approx(0.96, abs=0.01)
        # Three vibrations: half the stiffness of each (some 40 eV/Angstrom^2) times the square.
        assert 0.5 < np.mean([f.energy - lowest for f in of]) / (80 * scatter**2) < 2


def test_distorted_ethanol_is_of_both_conformers():
    with HDF5Dataset(FOLDER / "ethanol_distorted.h5") as stored:
        frames = list(stored)
    assert Counter(f.config_type for f in frames) == {
        f"scatter_{scatter:g}A": 100 for scatter in (0.02, 0.035, 0.05)
    }
    torsions = [f.to_atoms().get_dihedral(0, 1, 2, 3) for f in frames[::3]]  # of 0.02 Angstrom
    trans = np.sum(np.abs(np.array(torsions) - 180) < 20)
    assert trans == 50 and np.all(np.abs(np.array(torsions[1::2]) - 60) < 20)
    with HDF5Dataset(FOLDER / "ethanol.h5") as stored:
        dynamics = [f.energy for f in stored if f.config_type == "MD_600K"]
    assert min(f.energy for f in frames) > min(dynamics) - 0.5
    # 27 coordinates moved at once by 0.05 Angstrom: more than 600 K gives.
    assert max(f.energy for f in frames) > max(dynamics)


@pytest.mark.parametrize("which", [1, 60, 180, 300, 420, 470, -1])
def test_copper_labels_are_those_of_emt(which):
    with HDF5Dataset(FOLDER / "copper.h5") as stored:
        frame = stored[which]
    atoms = frame.to_atoms()
    atoms.calc = EMT()
    assert atoms.get_potential_energy() == pytest.approx(frame.energy, abs=1e-8)
    np.testing.assert_allclose(atoms.get_forces(), frame.forces, atol=1e-8)
    np.testing.assert_allclose(atoms.get_stress(voigt=False), frame.stress, atol=1e-9)


def test_copper_covers_what_phonons_and_vacancies_need():
    with HDF5Dataset(FOLDER / "copper.h5") as stored:
        sizes = Counter(stored.atom_counts.tolist())
        isolated = isolated_atom_energies(stored)
        assert {f.config_type for f in stored} >= {"phonon", "strained", "vacancy_300K", "MD_900K"}
        labelled = [f for f in stored if f.stress is not None]
    assert isolated == {29: pytest.approx(3.51)}
    assert {1, 4, 8, 31, 32, 107, 108} <= set(sizes)
    assert len(labelled) == 500


def test_copper_is_made_again():
    """The first frames, whose numbers do not depend on a trajectory."""
    spec = spec_from_file_location("make_copper", FOLDER / "make_copper.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    with HDF5Dataset(FOLDER / "copper.h5") as stored:
        shipped = [stored[i] for i in range(len(stored)) if stored[i].n_atoms < 9]
        seed = stored.provenance["seed"]
    made = script.frames(script.lattice_constant(), np.random.default_rng(seed))
    for new, old in zip(islice(made, 261), shipped, strict=True):
        assert new.config_type == old.config_type
        np.testing.assert_allclose(new.positions, old.positions, atol=1e-6)
        np.testing.assert_allclose(new.forces, old.forces, atol=1e-5)
        assert new.energy == pytest.approx(old.energy, abs=1e-5)
