"""The printed summary: counts, ranges, and suspicions that must and must not be raised."""

import numpy as np
import pytest
from ase.build import bulk

from mlpot.datasets import Census, Frame, HDF5Dataset, fingerprint, summary, write_hdf5

RNG = np.random.default_rng(4)
WATER = np.array([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])


def water(**fields):
    forces = RNG.normal(size=(3, 3))
    positions = WATER + 0.05 * RNG.normal(size=(3, 3))
    base = {"energy": -14.0 + RNG.normal(), "forces": forces - forces.mean(axis=0)}
    return Frame(**({"numbers": [8, 1, 1], "positions": positions} | base | fields))


def copper(**fields):
    atoms = bulk("Cu", a=3.6, cubic=True)
    base = {
        "numbers": atoms.numbers,
        "positions": atoms.positions + 0.05 * RNG.normal(size=(4, 3)),
        "cell": atoms.cell.array,
        "pbc": True,
    }
    return Frame(**(base | fields))


def test_counts_and_ranges():
    frames = [
        water(energy=-12.0, forces=[[3.0, 0, 0], [-3.0, 0, 0], [0, 0, 0.0]], config_type="hot"),
        water(energy=None, forces=None),
        copper(energy=-16.0, stress=-0.01 * np.eye(3), config_type="hot"),
        Frame(numbers=[29], positions=[[0, 0, 0]], energy=0.5, config_type="IsolatedAtom"),
    ]
    found = summary(frames)
    assert (found.n_frames, found.n_atoms, found.atoms_range) == (4, 11, (1, 4))
    assert found.elements == (1, 8, 29)
    assert found.isolated == (29,)
    assert found.labels == {"energy": 3, "forces": 1, "stress": 1}
    assert found.config_types == {"hot": 2, "Default": 1, "IsolatedAtom": 1}
    text = str(found)
    assert "4 frames, 11 atoms (1 to 4 a frame): H, O, Cu" in text
    assert "energy: -4.0000 to -4.0000 eV/atom" in text
    assert "RMS 1.4142, largest component 3.000" in text
    # -0.01 eV/Angstrom^3 is compression by 1.602 GPa.
    assert "pressure: 1.602 to 1.602 GPa" in text
    assert "isolated atoms: Cu" in text


def test_ordinary_data_raise_no_suspicion():
    frames = [water() for _ in range(50)] + [copper(energy=-4.0 * 4) for _ in range(3)]
    assert summary(frames).warnings == ()
    assert "suspicious" not in str(summary(frames))


SUSPECT = {
    "kcal/mol": lambda: [water(forces=30 * water().forces) for _ in range(5)],
    "all forces are zero": lambda: [water(forces=np.zeros((3, 3))) for _ in range(2)],
    "removed by constraints": lambda: [
        copper(forces=[[1, 0, 0], [-1, 0, 0], [0, 0, 0], [0, 0, 0.0]]) for _ in range(2)
    ],
    "do not sum to zero": lambda: [water(forces=water().forces + 1.0) for _ in range(3)],
    "is it in kbar or GPa": lambda: [copper(stress=20 * np.eye(3))],
    "atoms as close as 0.096 ": lambda: [water(positions=WATER / 10)],
    "as dense as a crystal but pbc is off": lambda: [copper(pbc=False)],
    "2 frames repeat another one": lambda: [water(positions=WATER) for _ in range(3)],
    "are they per atom": lambda: [
        Frame(
            numbers=np.repeat([8, 1], [n, 2 * n]),
            positions=3.0 * np.arange(9 * n).reshape(-1, 3),
            energy=-4.7 + 0.01 * RNG.normal(),
        )
        for n in (1, 2, 5, 9)
    ],
    "not used (1 frames)": lambda: [water(notes=("stress without volume: not used",))],
}


@pytest.mark.parametrize("text", list(SUSPECT))
def test_suspicions(text):
    found = summary(SUSPECT[text]())
    assert any(text in warning for warning in found.warnings), found.warnings
    assert f"suspicious: {found.warnings[0]}" in str(found)


def test_total_energies_of_growing_systems_are_ordinary():
    frames = [
        Frame(
            numbers=np.repeat([8, 1], [n, 2 * n]),
            positions=3.0 * np.arange(9 * n).reshape(-1, 3),
            energy=n * (-14.0 + 0.1 * RNG.normal()),
        )
        for n in (1, 2, 5, 9)
    ]
    assert summary(frames).warnings == ()


def test_many_config_types_are_cut_off():
    text = str(summary([water(config_type=f"t{k}") for k in range(20)]))
    assert "and 8 more" in text


def test_a_census_watches_a_stream(tmp_path):
    frames = [water() for _ in range(6)]
    census = Census()
    write_hdf5(tmp_path / "a.h5", census.watch(iter(frames)))
    with HDF5Dataset(tmp_path / "a.h5") as stored:
        assert str(summary(stored)) == str(census.summary()) == str(summary(frames))


def test_nothing_cannot_be_summarised():
    with pytest.raises(ValueError, match="no frames"):
        summary([])


def test_fingerprints_tell_structures_apart():
    frame = copper()
    assert fingerprint(frame) == fingerprint(frame.replace(energy=3.0))
    different = [
        frame.replace(positions=frame.positions + 1e-4),
        frame.replace(cell=frame.cell * 1.001),
        frame.replace(pbc=[True, True, False]),
        frame.replace(numbers=[28, 29, 29, 29]),
    ]
    assert len({fingerprint(f) for f in [frame, *different]}) == 5
