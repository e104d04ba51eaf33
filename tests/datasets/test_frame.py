"""Frames: checks of what they hold, and the way to ASE's Atoms and back."""

import numpy as np
import pytest
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms

from mlpot.datasets import Frame

STRESS = np.array([[1.0, 6, 5], [6, 2, 4], [5, 4, 3]])
WATER = {"numbers": [8, 1, 1], "positions": [[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]]}


def test_defaults_and_types():
    frame = Frame(**WATER, energy=np.float32(-3), source="a.xyz:4")
    assert frame.n_atoms == 3
    assert frame.formula == "H2O"
    assert isinstance(frame.energy, float)
    assert (frame.forces, frame.stress, frame.volume) == (None, None, None)
    assert frame.positions.dtype == np.float64
    assert not frame.cell.any()
    assert not frame.pbc.any()
    assert not frame.is_isolated_atom


@pytest.mark.parametrize("given", [STRESS, STRESS.ravel(), [1, 2, 3, 4, 5, 6]])
def test_stress_in_any_shape(given):
    frame = Frame(**WATER, cell=np.eye(3) * 5, pbc=True, stress=given)
    assert np.array_equal(frame.stress, STRESS)
    assert frame.volume == pytest.approx(125)


def test_a_stress_is_symmetric():
    skew = np.zeros((3, 3))
    skew[0, 1] = 1.0
    assert Frame(**WATER, stress=skew).stress[1, 0] == 0.5


@pytest.mark.parametrize(
    ("changes", "isolated"),
    [
        ({}, True),
        ({"config_type": "isolated_atom", "pbc": True, "cell": np.eye(3) * 20}, True),
        ({"config_type": "IsolatedAtom", "pbc": True, "cell": np.eye(3) * 20}, True),
        ({"pbc": True, "cell": np.eye(3) * 3}, False),
        ({"pbc": [True, False, False], "cell": np.eye(3) * 3}, False),
    ],
)
def test_isolated_atoms_are_recognised(changes, isolated):
    frame = Frame(numbers=[29], positions=np.zeros((1, 3)), **changes)
    assert frame.is_isolated_atom is isolated


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"numbers": [], "positions": np.zeros((0, 3))}, "has no atoms"),
        ({"numbers": [8, 1, 0]}, "unknown atomic number"),
        ({"numbers": [8, 1, 130]}, "unknown atomic number"),
        ({"positions": np.zeros((2, 3))}, r"positions has shape \(2, 3\); expected \(3, 3\)"),
        ({"positions": [[0, 0, 0], [1, np.nan, 0], [0, 1, 0]]}, r"nan at index \[1, 1\]"),
        ({"energy": np.nan}, "energy is nan"),
        ({"energy": np.inf}, "energy is inf"),
        ({"energy": "low"}, "energy is not made of numbers"),
        ({"energy": [1.0, 2.0]}, "energy has shape"),
        ({"forces": np.zeros((3, 2))}, r"forces has shape \(3, 2\)"),
        ({"forces": np.full((3, 3), np.nan)}, r"forces is nan at index \[0, 0\]"),
        ({"stress": np.zeros(5)}, "stress has shape"),
        ({"stress": np.full(6, np.inf)}, "stress is inf"),
        ({"cell": np.eye(2)}, "cell has shape"),
        ({"pbc": [True, False]}, "pbc must be"),
        ({"weight": -1.0}, "weight is -1.0"),
        ({"forces_weight": np.nan}, "forces_weight is nan"),
    ],
)
def test_what_is_wrong_is_named_with_its_source(changes, message):
    with pytest.raises(ValueError, match=f"^run.xyz:7: .*{message}"):
        Frame(**({**WATER, "source": "run.xyz:7"} | changes))


def test_round_trip_through_atoms():
    frame = Frame(
        **WATER,
        cell=np.diag([5.0, 6, 7]),
        pbc=True,
        energy=-3.5,
        forces=np.arange(9.0).reshape(3, 3),
        stress=STRESS,
        config_type="liquid",
        weight=2.0,
        forces_weight=0.5,
    )
    atoms = frame.to_atoms()
    assert atoms.get_potential_energy() == -3.5
    assert atoms.get_stress().tolist() == [1, 2, 3, 4, 5, 6]
    back = Frame.from_atoms(atoms)
    for name, value in vars(frame).items():
        assert np.array_equal(getattr(back, name), value), name


def test_from_atoms_takes_keys_and_units_and_leaves_the_atoms_alone():
    atoms = Atoms("He", positions=[[1.0, 0, 0]], info={"dft": 1.0})
    frame = Frame.from_atoms(atoms, energy_key="dft", energy_unit="Hartree", length_unit="Bohr")
    assert frame.energy == pytest.approx(27.211386, rel=1e-7)
    assert frame.positions[0, 0] == pytest.approx(0.52917721, rel=1e-7)
    assert atoms.positions[0, 0] == 1.0


def test_constraints_do_not_touch_forces():
    atoms = Atoms("H2", positions=[[0, 0, 0], [0, 0, 0.8]])
    atoms.calc = SinglePointCalculator(atoms, energy=0.0, forces=[[0, 0, 1.0], [0, 0, -1.0]])
    atoms.set_constraint(FixAtoms([0]))
    assert not atoms.get_forces()[0].any()
    assert Frame.from_atoms(atoms).forces[0].tolist() == [0, 0, 1]


def test_replace_checks_again():
    frame = Frame(**WATER, source="x:0")
    assert frame.replace(energy=1.0).energy == 1.0
    with pytest.raises(ValueError, match="x:0: energy is nan"):
        frame.replace(energy=float("nan"))
