"""Third-order force constants against phono3py's displacements and differences of Hessians."""

from __future__ import annotations

import warnings

import numpy as np
import phono3py
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from embedded_atoms import EmbeddedAtoms
from rich.console import Console
from small_potentials import make_crystal, make_potential

from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.workflows.phonopy_bridge import make_phono3py, to_ase

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def calc() -> MLPotCalculator:
    return MLPotCalculator(EmbeddedAtoms(cutoff=5.0), dtype="float64")


@pytest.fixture(scope="module")
def copper(calc, tmp_path_factory):
    out = tmp_path_factory.mktemp("anharmonic")
    unit = bulk("Cu", a=3.55)
    found = workflows.anharmonic(
        unit, calc, (3, 3, 3), mesh=(5, 5, 5), temperatures=[200.0, 400.0], out=out, console=QUIET
    )
    return found, out


def displaced_fc3(found, calc, distance: float) -> np.ndarray:
    """phono3py's own third order, from forces in supercells with pairs of displaced atoms."""
    other = make_phono3py(found.atoms, 3 * np.eye(3, dtype=int))
    other.generate_displacements(distance=distance, is_plusminus=True)
    forces = []
    for cell in other.supercells_with_displacements:
        atoms = to_ase(cell)
        atoms.calc = calc
        forces.append(atoms.get_forces())
    other.forces = np.array(forces)
    other.produce_fc3(is_compact_fc=True)
    other.symmetrize_fc3()
    return np.array(other.fc3)


def test_the_same_as_by_displacements(copper, calc):
    found, _ = copper
    errors = [
        np.abs(displaced_fc3(found, calc, distance) - found.phono3py.fc3).max()
        for distance in (0.04, 0.02)
    ]
    scale = np.abs(found.fc3).max()
    assert scale > 1.0
    # Displacements are off by the square of their size.
    assert errors[1] < 5e-3 * scale
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


def test_sum_rule_and_permutations(copper):
    fc3 = copper[0].fc3
    assert not np.shares_memory(fc3, copper[0].phono3py.fc3)  # that one is symmetrised
    scale = np.abs(fc3).max()
    assert copper[0].drift < 1e-10 * scale
    swapped = fc3[0].transpose(1, 0, 2, 4, 3)
    np.testing.assert_allclose(fc3[0], swapped, atol=1e-10 * scale)


def test_symmetry_gives_what_is_not_computed():
    """In a crystal of two like atoms the second row follows from the first by symmetry."""
    potential = EmbeddedAtoms(numbers=(29,), cutoff=3.4)
    calc = MLPotCalculator(potential, dtype="float64")
    unit = bulk("Cu", "hcp", a=2.5, c=4.1)
    found = workflows.anharmonic(unit, calc, (1, 1, 1), relax=False, console=QUIET)
    large = to_ase(found.phono3py.supercell)
    atom = int(found.phono3py.primitive.p2s_map[1])
    step, hessians = 1e-4, []
    for sign in (1, -1):
        moved = large.copy()
        moved.positions[atom, 0] += sign * step
        hessians.append(calc.get_hessian(moved))
    slope = ((hessians[0] - hessians[1]) / (2 * step)).reshape(2, 3, 2, 3).swapaxes(1, 2)
    np.testing.assert_allclose(found.fc3[1][:, :, 0], slope, atol=1e-6 * np.abs(slope).max())


def test_phono3py_reads_the_files(copper):
    found, out = copper
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = phono3py.load(
            out / "Cu-phono3py.yaml",
            fc2_filename=out / "Cu-fc2.hdf5",
            fc3_filename=out / "Cu-fc3.hdf5",
            log_level=0,
        )
    np.testing.assert_allclose(again.fc3, found.phono3py.fc3, atol=1e-14)
    np.testing.assert_allclose(again.fc2, found.phono3py.fc2, atol=1e-14)
    assert np.all(found.conductivity[:, :3] > 0)
    np.testing.assert_allclose(found.conductivity[:, 0], found.conductivity[:, 2], rtol=1e-6)
    # Scattering grows with temperature.
    assert found.conductivity[0, 0] > 1.5 * found.conductivity[1, 0]
    lines = (out / "Cu-kappa.csv").read_text().splitlines()
    assert len(lines) == 3 and lines[0].startswith("temperature_K,kappa_xx")
    assert (out / "Cu-kappa.png").stat().st_size > 10_000
    with pytest.raises(ValueError, match="exists already"):
        found.write(out, "Cu")


def test_products_of_a_network_against_differences_of_the_hessian():
    calc = MLPotCalculator(make_potential(5, radial="exact"), dtype="float64")
    atoms = make_crystal(3)
    u = np.random.default_rng(1).normal(size=(5, 3))
    found = calc.get_third_order(atoms, u, np.eye(15).reshape(15, 5, 3), chunk=4)
    step, hessians = 1e-4, {}
    for factor in (-2, -1, 1, 2):
        moved = atoms.copy()
        moved.positions += factor * step * u
        hessians[factor] = calc.get_hessian(moved)
    slope = 8 * (hessians[1] - hessians[-1]) - (hessians[2] - hessians[-2])
    slope /= 12 * step
    np.testing.assert_allclose(found.reshape(15, 15), slope, atol=1e-7 * np.abs(slope).max())
    with pytest.raises(ValueError, match=r"u has shape \(2, 3\)"):
        calc.get_third_order(atoms, u[:2], np.ones((1, 5, 3)))
    with pytest.raises(ValueError, match="chunk is 0"):
        calc.get_third_order(atoms, u, np.ones((1, 5, 3)), chunk=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mesh": (3, 3)}, "three numbers"),
        ({"temperatures": [0.0]}, "above 0 K"),
        ({"calc": EMT()}, "EMT gives no third derivatives"),
        ({"atoms": bulk("Au")}, "Au"),
    ],
)
def test_refusals(calc, change, message):
    given = {"atoms": bulk("Cu"), "calc": calc, "console": QUIET} | change
    with pytest.raises(ValueError, match=message):
        workflows.anharmonic(**given)
    slab = bulk("Cu")
    slab.pbc[2] = False
    with pytest.raises(ValueError, match="periodic in three directions"):
        workflows.anharmonic(slab, calc, console=QUIET)


def test_cells_in_which_everything_cancels_are_refused(calc):
    """In 2 x 2 x 2 primitive cells of fcc each neighbour is its own mirror image."""

    class Silent(MLPotCalculator):
        def calculate(self, *_args, **_kwargs):
            raise AssertionError("refused only after work was done")

    silent = Silent(EmbeddedAtoms(cutoff=5.0), dtype="float64")
    with pytest.raises(ValueError, match="vanish in a supercell of 8 atoms"):
        workflows.anharmonic(bulk("Cu", a=3.55), silent, (2, 2, 2), relax=False, console=QUIET)
    with pytest.raises(ValueError, match="vanish in a supercell of 8 atoms"):
        workflows.anharmonic(bulk("Cu", a=3.55), calc, (2, 2, 2), relax=False, console=QUIET)


def test_tables_are_not_differentiated_three_times():
    """A potential with radial tables gives what the same weights without tables give."""
    unit, found = make_crystal(3), {}
    for radial in ("table", "exact"):
        calc = MLPotCalculator(make_potential(5, radial=radial), dtype="float64")
        result = workflows.anharmonic(unit, calc, (1, 1, 1), relax=False, console=QUIET)
        found[radial] = result.fc3
        assert calc.potential.network.radial_strategy == radial
    scale = np.abs(found["exact"]).max()
    np.testing.assert_allclose(found["table"], found["exact"], atol=1e-10 * scale)
