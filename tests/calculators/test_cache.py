"""Never a stale value: edits, sharing, copies, processes, and nothing global changed."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings

import mlx.core as mx
import numpy as np
import pytest
from ase import Atoms, units
from ase.constraints import FixAtoms
from ase.md.verlet import VelocityVerlet
from embedded_atoms import EmbeddedAtoms
from mlx.utils import tree_map
from sample_potentials import E0S, copper, small_network, triclinic

import mlpot
from mlpot.calculators import MLPotCalculator


def metal() -> EmbeddedAtoms:
    return EmbeddedAtoms(numbers=(13, 29), cutoff=4.0, E0s=E0S)


def edit(atoms: Atoms, rng: np.random.Generator) -> Atoms:
    """One random change, of a kind that does or does not change the energy."""
    n_atoms = len(atoms)
    kind = rng.integers(15)
    if kind == 0:
        atoms.positions[rng.integers(n_atoms), rng.integers(3)] += rng.normal(scale=0.1)
    elif kind == 1:
        atoms.rattle(0.02, rng=rng)
    elif kind == 2:
        atoms.set_cell(
            atoms.cell @ (np.eye(3) + rng.normal(scale=0.02, size=(3, 3))), scale_atoms=True
        )
    elif kind == 3:
        atoms.cell[rng.integers(3), rng.integers(3)] += 0.05
    elif kind == 4:
        atoms.pbc[rng.integers(3)] = rng.random() < 0.7
    elif kind == 5:
        atoms.numbers[rng.integers(n_atoms)] = rng.choice([13, 29])
    elif kind == 6:
        atoms.positions[rng.integers(n_atoms)] += atoms.cell[rng.integers(3)]
    elif kind == 7:
        atoms.wrap()
    elif kind == 8:
        atoms.set_constraint(FixAtoms([0]) if rng.random() < 0.5 else None)
    elif kind == 9:
        atoms.info["remark"] = int(rng.integers(100))
    elif kind == 10:
        atoms.set_initial_charges(rng.normal(size=n_atoms))
    elif kind == 11 and n_atoms > 3:
        del atoms[int(rng.integers(n_atoms))]
    elif kind == 12 and n_atoms < 7:
        atoms.append("Cu")
        atoms.positions[-1] = atoms.positions[0] + rng.normal(size=3) + 1.5
    elif kind == 13:
        atoms = atoms[rng.permutation(n_atoms)]
    else:
        atoms.rotate(20.0, "z", rotate_cell=True)
    return atoms


@pytest.mark.parametrize("seed", range(10))
def test_random_edits_never_give_a_stale_value(seed):
    rng = np.random.default_rng(seed)
    potential = metal()
    kept = MLPotCalculator(potential, dtype="float64", skin=0.6)
    atoms = triclinic()
    n_values = set()
    for _ in range(100):
        atoms = edit(atoms, rng)
        atoms.calc = kept
        fresh = MLPotCalculator(potential, dtype="float64", skin=0.0)
        names = ["energy", "forces", "energies"] + (["stress"] if atoms.pbc.all() else [])
        for name in rng.permutation(names):
            expected = fresh.get_property(name, atoms)
            scale = max(1.0, np.abs(expected).max())
            np.testing.assert_allclose(
                kept.get_property(name, atoms), expected, atol=1e-10 * scale, err_msg=name
            )
        n_values.add(round(atoms.get_potential_energy(), 6))
    assert len(n_values) > 30


@pytest.mark.parametrize("change", ["positions", "cell", "pbc", "numbers", "charges", "magmoms"])
def test_what_invalidates_the_cache(change):
    calculator = MLPotCalculator(metal())
    atoms = triclinic()
    atoms.calc = calculator
    atoms.get_forces()
    before = calculator.results
    atoms.get_potential_energy()
    atoms.info["note"] = 1
    atoms.set_tags([1] * 4)
    atoms.get_stress()
    assert calculator.results is before
    {
        "positions": lambda: atoms.positions.__setitem__((0, 0), 0.01),
        "cell": lambda: atoms.cell.__setitem__((0, 0), 4.21),
        "pbc": lambda: atoms.set_pbc([True, True, False]),
        "numbers": lambda: atoms.numbers.__setitem__(0, 29),
        "charges": lambda: atoms.set_initial_charges([0.1] * 4),
        "magmoms": lambda: atoms.set_initial_magnetic_moments([1.0] * 4),
    }[change]()
    atoms.get_forces()
    assert calculator.results is not before


def test_a_failed_calculation_leaves_no_old_results():
    atoms = triclinic()
    atoms.calc = MLPotCalculator(metal())
    atoms.get_potential_energy()
    atoms.numbers[0] = 79
    for _ in range(2):
        with pytest.raises(ValueError, match="Au"):
            atoms.get_potential_energy()
    assert atoms.calc.results == {}


def test_calculators_and_structures_interleaved():
    one, two = metal(), small_network()
    expected = {}
    structures = [triclinic(), copper(1), copper(2)]
    for index, atoms in enumerate(structures):
        for potential in (one, two):
            fresh = MLPotCalculator(potential, dtype="float64")
            expected[index, id(potential)] = fresh.get_property("forces", atoms)
    calculators = [
        (potential, MLPotCalculator(potential, dtype=dtype), tolerance)
        for potential in (one, two)
        for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-4))
    ]
    rng = np.random.default_rng(0)
    for _ in range(30):
        index = int(rng.integers(len(structures)))
        potential, calculator, tolerance = calculators[rng.integers(len(calculators))]
        wanted = expected[index, id(potential)]
        found = calculator.get_property("forces", structures[index])
        np.testing.assert_allclose(found, wanted, atol=tolerance * max(1.0, np.abs(wanted).max()))


def test_nothing_global_and_no_potential_is_changed():
    potential = small_network()
    weights = [np.array(array) for array in _flat(potential)]
    device, stream = mx.default_device(), mx.default_stream(mx.default_device())
    mx.random.seed(5)
    wanted = mx.random.normal((3,)).tolist()
    mx.random.seed(5)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    filters = list(warnings.filters)
    for dtype in ("float64", "float32"):
        calculator = MLPotCalculator(potential, dtype=dtype)
        calculator.get_property("stress", triclinic())
        calculator.get_hessian(triclinic())
    assert mx.default_device() == device
    assert mx.default_stream(device) == stream
    assert mx.random.normal((3,)).tolist() == wanted
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert list(warnings.filters) == filters
    assert potential.dtype == mx.float32
    for old, new in zip(weights, _flat(potential), strict=True):
        assert np.array_equal(old, np.array(new))


def _flat(potential) -> list[mx.array]:
    from mlx.utils import tree_flatten

    return [array for _, array in tree_flatten(potential.parameters())]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_astype_and_deepcopy_share_no_results(dtype):
    atoms = triclinic()
    atoms.calc = MLPotCalculator(metal(), dtype=dtype)
    energy = atoms.get_potential_energy()
    twin = copy.deepcopy(atoms.calc)
    assert twin.results["energy"] == energy
    other = atoms.copy()
    other.rattle(0.1, seed=1)
    assert twin.get_property("energy", other) != energy
    assert atoms.calc.results["energy"] == energy
    assert atoms.calc.astype("float64").dtype == "float64"
    assert atoms.calc.dtype == dtype


def test_pickled_by_path(tmp_path, monkeypatch):
    potential = small_network()
    mlpot.save(tmp_path / "model.safetensors", potential)
    monkeypatch.chdir(tmp_path)
    atoms = triclinic()
    atoms.calc = MLPotCalculator("model.safetensors", skin=0.3)
    energy = atoms.get_potential_energy()
    text = pickle.dumps(atoms)
    assert len(text) < 5000
    monkeypatch.chdir("/")
    again = pickle.loads(text)
    assert again.calc.results["energy"] == energy
    assert (again.calc.skin, again.calc.dtype) == (0.3, "float32")
    again.positions[0] += 0.1
    atoms.positions[0] += 0.1
    assert again.get_potential_energy() == pytest.approx(atoms.get_potential_energy(), abs=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pickled_with_its_potential(dtype):
    calculator = MLPotCalculator(small_network(), dtype=dtype)
    expected = calculator.get_property("energy", triclinic())
    again = pickle.loads(pickle.dumps(calculator))
    again.reset()
    assert again.get_property("energy", triclinic()) == expected


def test_works_in_threads():
    potential, atoms = metal(), triclinic()
    expected = MLPotCalculator(potential, dtype="float64").get_property("energy", atoms)
    found = []

    def work(dtype: str) -> None:
        found.append(MLPotCalculator(potential, dtype=dtype).get_property("energy", atoms))

    threads = [threading.Thread(target=work, args=(d,)) for d in ("float64", "float32") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == pytest.approx([expected] * 4, rel=1e-7)


def test_trajectory_is_the_same_with_and_without_skin():
    ends, builds = [], []
    for skin in (0.0, 0.5):
        atoms = copper(2, 0.0)
        rng = np.random.default_rng(2)
        atoms.set_velocities(rng.normal(scale=0.03, size=(32, 3)))
        atoms.calc = MLPotCalculator(metal(), dtype="float64", skin=skin)
        VelocityVerlet(atoms, 2 * units.fs).run(150)
        ends.append(atoms.positions)
        builds.append(atoms.calc._pairs.n_builds)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-9)
    assert builds[0] == 151
    assert 1 <= builds[1] < 40


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_are_those_that_were_given(dtype):
    """Cached, recorded and pickled results are of one potential, whatever becomes of it later."""
    potential, atoms = small_network(), triclinic()
    calc = MLPotCalculator(potential, dtype=dtype)
    twin = copy.deepcopy(calc)
    energies = []
    for turn in range(6):  # enough for a record
        atoms.rattle(0.01, seed=turn)
        energies.append(calc.get_potential_energy(atoms))
    potential.update(tree_map(lambda x: 1.1 * x, potential.parameters()))
    assert MLPotCalculator(potential, dtype=dtype).get_potential_energy(atoms) != energies[-1]
    for one in (calc, twin, pickle.loads(pickle.dumps(calc))):
        found = one.get_potential_energy(atoms)
        assert abs(found - energies[-1]) < (1e-5 if dtype == "float32" else 1e-10)
