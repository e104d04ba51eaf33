"""Blocks of steps against single ones, ASE, and lists made anew for every force."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from ase import units
from ase.md.verlet import VelocityVerlet
from embedded_atoms import EmbeddedAtoms
from sample_potentials import copper

from mlpot import md
from mlpot.calculators import MLPotCalculator
from mlpot.md.engine import Engine, make_pairs
from mlpot.units import KB


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def potential(dtype=mx.float64):
    found = EmbeddedAtoms(numbers=(13, 29), cutoff=4.0)
    found.set_dtype(dtype)
    return found


def prepare(atoms, temperature=400.0, dtype=mx.float64, replicas=1, seed=0, **named):
    n = len(atoms)
    system = md.System(
        np.tile(atoms.numbers, replicas),
        np.tile(atoms.get_masses(), replicas),
        node_graph=np.repeat(np.arange(replicas), n),
        pbc=np.tile(atoms.pbc, (replicas, 1)),
        dtype=dtype,
        **named,
    )
    velocities = []
    for replica in range(replicas):
        momenta = md.maxwell_boltzmann(
            atoms.get_masses(),
            atoms.positions,
            temperature,
            np.random.default_rng(seed + replica),
            rotation=not atoms.pbc.any(),
        )
        velocities.append(momenta / atoms.get_masses()[:, None])
    state = md.initial_state(
        system,
        np.tile(atoms.positions, (replicas, 1)),
        np.concatenate(velocities),
        np.array(atoms.cell),
        kT=KB * temperature,
        seed=seed,
    )
    return system, state


def run(system, state, integrator, steps, *, skin, block=20, where="host", dtype=mx.float64):
    engine = Engine(system, potential(dtype), integrator, make_pairs(system, 4.0, skin, where))
    state = engine.start(state)
    for _ in range(steps // block):
        state, _ = engine.block(state, block)
    return unwrapped(state), engine, state


def unwrapped(state) -> np.ndarray:
    cells = np.array(state.cells)
    images = np.array(state.extra["images"]).reshape(len(cells), -1, 3)
    return (np.array(state.positions).reshape(images.shape) + images @ cells).reshape(-1, 3)


def test_skin_on_and_off_give_the_same_trajectory_in_float64():
    atoms = copper(1)
    results = []
    for skin, block in ((0.6, 25), (0.0, 25)):
        system, state = prepare(atoms)
        found, engine, _ = run(system, state, md.nve(system, 2.0), 1000, skin=skin, block=block)
        results.append(found)
        builds = engine.search.n_builds
        assert builds > 1000 if skin == 0 else builds < 300
    np.testing.assert_allclose(results[1], results[0], atol=1e-8, rtol=0)


def test_same_trajectory_as_ase():
    atoms = copper(2)
    system, state = prepare(atoms)
    atoms.calc = MLPotCalculator(potential(), dtype="float64")
    atoms.set_velocities(np.array(state.velocities))
    dynamics = VelocityVerlet(atoms, 2.0 * units.fs)
    dynamics.run(100)
    found, _, last = run(system, state, md.nve(system, 2.0), 100, skin=0.5)
    np.testing.assert_allclose(found, atoms.positions, atol=1e-7)
    np.testing.assert_allclose(np.array(last.velocities), atoms.get_velocities(), atol=1e-7)
    assert float(last.energies) == pytest.approx(atoms.get_potential_energy(), abs=1e-8)


@pytest.mark.parametrize("full_cell", [False, True])
def test_device_lists_under_changing_cells(full_cell):
    results = []
    for where in ("host", "device"):
        system, state = prepare(copper(1), temperature=600.0)
        integrator = md.npt(system, 2.0, 4.0, tau=0.05, tau_pressure=0.2, full_cell=full_cell)
        found, engine, last = run(system, state, integrator, 80, skin=0.6, block=8, where=where)
        results.append((found, np.array(last.cells)))
        assert abs(np.linalg.det(results[-1][1][0]) / copper(1).get_volume() - 1) > 0.003
        assert 1 < engine.search.n_builds < 60
    for first, second in zip(*results, strict=True):
        np.testing.assert_allclose(second, first, atol=1e-8)


def test_replicas_move_as_single_ones():
    atoms = copper(1, cubic=True)
    system, state = prepare(atoms, replicas=3)
    together, _, _ = run(system, state, md.nve(system, 2.0), 100, skin=0.5)
    for replica in range(3):
        system, state = prepare(atoms, seed=replica)
        alone, _, _ = run(system, state, md.nve(system, 2.0), 100, skin=0.5)
        np.testing.assert_allclose(together[4 * replica : 4 * replica + 4], alone, atol=1e-9)


def test_atoms_that_outrun_the_skin_get_shorter_blocks():
    system, state = prepare(copper(1), temperature=3000.0)
    reference, _, _ = run(system, state, md.nve(system, 1.0), 120, skin=0.0)
    found, engine, _ = run(system, state, md.nve(system, 1.0), 120, skin=0.05, block=40)
    assert engine.n_repeated > 3
    np.testing.assert_allclose(found, reference, atol=1e-8)


def test_traces_do_not_grow_with_the_run():
    system, state = prepare(copper(1), temperature=1500.0, dtype=mx.float32)
    integrator = md.npt(system, 2.0, 0.0, tau=0.05, tau_pressure=0.2)
    engine = Engine(system, potential(mx.float32), integrator, make_pairs(system, 4.0, 0.4, "host"))
    state = engine.start(state)
    for number in range(50):
        state, _ = engine.block(state, 8)
        if number == 10:
            traces, memory = engine.n_traces, mx.get_active_memory()
    assert engine.search.n_builds > 10
    assert engine.n_traces <= traces + 2 <= 12
    assert mx.get_active_memory() < 1.2 * memory + 1e6


def test_observables():
    atoms = copper(2)
    system, state = prepare(atoms)
    integrator = md.npt(system, 2.0, 0.0)
    engine = Engine(system, potential(), integrator, make_pairs(system, 4.0, 0.5))
    state = engine.start(state)
    state, seen = engine.block(state, 7, lambda step: step % 3 == 0)
    assert list(seen) == [3, 6, 7]
    found, last = seen[7]
    assert last.positions is state.positions
    values = {name: float(array[0]) for name, array in found.items()}
    atoms.set_cell(np.array(state.cells)[0])
    atoms.positions = np.array(state.positions)
    atoms.calc = MLPotCalculator(potential(), dtype="float64")
    atoms.set_velocities(np.array(state.velocities))
    stress = atoms.get_stress(include_ideal_gas=True)
    assert values["potential"] == pytest.approx(atoms.get_potential_energy(), abs=1e-8)
    assert values["kinetic"] == pytest.approx(atoms.get_kinetic_energy(), abs=1e-8)
    assert values["pressure"] == pytest.approx(-stress[:3].mean() / units.GPa, abs=1e-5)
    assert values["volume"] == pytest.approx(atoms.get_volume())
    distances = atoms.get_all_distances(mic=True)[np.triu_indices(len(atoms), 1)]
    assert values["closest"] == pytest.approx(distances.min())
    degrees = 3 * len(atoms) - 3
    assert values["temperature"] == pytest.approx(2 * values["kinetic"] / degrees / KB)
