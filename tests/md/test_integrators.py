"""Integrators against exact solutions: oscillators, conserved quantities, reversal, constraints."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from analytic_forces import elastic_crystal, follow, springs

from mlpot import md
from mlpot.units import FS, KB

CELL = np.array([[9.0, 0.4, 0.0], [0.0, 8.0, 0.6], [0.5, 0.0, 10.0]])


def oscillators(n_graphs=3, per_graph=4, dtype=mx.float64, **named):
    rng = np.random.default_rng(2)
    n_atoms = n_graphs * per_graph
    system = md.System(
        np.full(n_atoms, 6),
        rng.uniform(5, 40, n_atoms),
        node_graph=np.repeat(np.arange(n_graphs), per_graph),
        dtype=dtype,
        **named,
    )
    anchors = rng.normal(size=(n_atoms, 3))
    forces = springs(system, anchors, rng.uniform(2, 9, n_atoms))
    state = md.initial_state(
        system,
        anchors + 0.05 * rng.normal(size=(n_atoms, 3)),
        0.05 * rng.normal(size=(n_atoms, 3)),
        kT=KB * np.linspace(200, 400, n_graphs),
        seed=4,
    )
    return system, forces, state


def crystal(dtype=mx.float64):
    rng = np.random.default_rng(5)
    system = md.System(
        np.full(24, 13),
        np.full(24, 26.98),
        node_graph=np.repeat([0, 1], 12),
        pbc=True,
        remove_com=False,
        dtype=dtype,
    )
    fractions = rng.uniform(size=(24, 3))
    forces = elastic_crystal(system, fractions, 4.0, CELL, bulk=0.1, shear=0.05)
    kT = KB * 400.0
    state = md.initial_state(
        system,
        fractions @ CELL + rng.normal(size=(24, 3)) * np.sqrt(kT / 4.0),
        rng.normal(size=(24, 3)) * np.sqrt(kT / 26.98),
        CELL,
        kT=kT,
        seed=1,
    )
    return system, forces, state


def deterministic(kind, system, timestep):
    if kind == "nve":
        return md.nve(system, timestep)
    if kind == "nose_hoover":
        return md.nose_hoover(system, timestep, tau=0.05)
    full_cell = kind == "npt_full"
    return md.npt(system, timestep, 0.5, tau=0.05, tau_pressure=0.4, full_cell=full_cell)


def conserved_of(integrator):
    return lambda state: (integrator.conserved(state),)


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def test_oscillator_follows_the_exact_solution_with_error_of_second_order():
    system = md.System([6], [12.0], remove_com=False, dtype=mx.float64)
    forces = springs(system, np.zeros((1, 3)), np.array([5.0]))
    errors = []
    for timestep in (0.4, 0.2, 0.1):
        state = md.initial_state(system, [[0.3, 0.0, -0.2]], [[0.0, 0.05, 0.0]])
        steps = round(20.0 / timestep)
        state, _ = follow(md.nve(system, timestep), forces, state, steps, lambda s: (s.energies,))
        omega, time = np.sqrt(5.0 / 12.0), 20.0 * FS
        exact = np.array([0.3, 0, -0.2]) * np.cos(omega * time) + np.array(
            [0, 0.05, 0]
        ) / omega * np.sin(omega * time)
        errors.append(np.abs(np.array(state.positions)[0] - exact).max())
    assert errors[2] < 2e-6
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 4.0, rtol=0.02)


@pytest.mark.parametrize("kind", ["nve", "nose_hoover", "npt", "npt_full"])
def test_conserved_quantity_fluctuates_as_the_step_squared_and_does_not_drift(kind):
    spread, drift = [], []
    for timestep in (4.0, 2.0):
        system, forces, state = crystal()
        integrator = deterministic(kind, system, timestep)
        steps = round(800 / timestep)
        observe = conserved_of(integrator)
        _, (values,) = follow(integrator, forces, state, steps, observe)
        spread.append(values.std(axis=0).max())
        slope = np.polyfit(np.linspace(0, 1, steps), values, 1)[0]
        drift.append(np.abs(slope).max())
    np.testing.assert_allclose(spread[0] / spread[1], 4.0, rtol=0.25)
    kinetic = 1.5 * 12 * KB * 400
    assert spread[1] < 1e-3 * kinetic
    assert drift[1] < 1e-3 * kinetic


@pytest.mark.parametrize("kind", ["nve", "nose_hoover", "npt", "npt_full"])
def test_reversal_leads_back(kind):
    system, forces, state = crystal()
    integrator = deterministic(kind, system, 2.0)
    there, _ = follow(integrator, forces, state, 100, lambda s: (s.energies,))
    assert np.abs(np.array(there.positions - state.positions)).max() > 0.05
    turned = {
        name: -value
        for name, value in there.extra.items()
        if name.endswith("velocity") or name == "strain_rate"
    }
    back = replace(there, velocities=-there.velocities).with_extra(**turned)
    back, _ = follow(integrator, forces, back, 100, lambda s: (s.energies,))
    np.testing.assert_allclose(np.array(back.positions), np.array(state.positions), atol=2e-10)
    np.testing.assert_allclose(np.array(back.cells), np.array(state.cells), atol=2e-10)


def test_bath_work_is_booked():
    for make in (
        lambda system: md.langevin(system, 1.0, friction=20.0),
        lambda system: md.bussi(system, 1.0, tau=0.02),
    ):
        system, forces, state = oscillators()
        integrator = make(system)
        _, (values, kinetic) = follow(
            integrator,
            forces,
            state,
            300,
            lambda s, i=integrator, y=system: (i.conserved(s), y.kinetic(s.velocities)),
        )
        assert kinetic.std(axis=0).min() > 0.02
        assert values.std(axis=0).max() < 0.03 * kinetic.std(axis=0).min()
    system, forces, state = crystal()
    integrator = md.cell_rescaling(system, 1.0, 0.5, tau=0.05, tau_pressure=0.2)
    _, (values, energies) = follow(
        integrator, forces, state, 500, lambda s: (integrator.conserved(s), s.energies)
    )
    assert values.std(axis=0).max() < 0.02 * energies.std(axis=0).min()


@pytest.mark.parametrize("kind", ["nve", "langevin", "bussi", "nose_hoover"])
def test_constraints_hold(kind):
    fixed = np.zeros(12, bool)
    fixed[[0, 5, 6]] = True
    system, forces, state = oscillators(fixed=fixed)
    np.testing.assert_array_equal(np.array(system.degrees), [9.0, 6.0, 9.0])
    integrator = getattr(md, kind)(system, 1.0)
    moved, _ = follow(integrator, forces, state, 50, lambda s: (s.energies,))
    change = np.abs(np.array(moved.positions - state.positions)).max(axis=1)
    assert np.all(change[fixed] == 0) and change[~fixed].min() > 1e-3
    # Structure 2 has no fixed atom; with `remove_com` its centre of mass stays.
    system, forces, state = oscillators()
    np.testing.assert_array_equal(np.array(system.degrees), [9.0, 9.0, 9.0])
    moved, _ = follow(getattr(md, kind)(system, 1.0), forces, state, 50, lambda s: (s.energies,))
    masses = np.array(system.masses)
    centre = (masses * np.array(moved.positions - state.positions)).reshape(3, 4, 3).sum(axis=1)
    assert np.abs(centre / masses.reshape(3, 4, 1).sum(axis=1)).max() < 1e-12


@pytest.mark.parametrize("kind", ["langevin", "bussi"])
def test_seeds_repeat_and_differ(kind):
    last = []
    for seed in (7, 7, 8):
        system, forces, state = oscillators(dtype=mx.float32)
        state = replace(state, key=mx.random.key(seed))
        moved, _ = follow(
            getattr(md, kind)(system, 1.0), forces, state, 40, lambda s: (s.energies,)
        )
        last.append(np.array(moved.positions))
    np.testing.assert_array_equal(last[0], last[1])
    assert np.abs(last[0] - last[2]).max() > 1e-4


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda s: md.nve(s, 0.0), "timestep is 0.0"),
        (lambda s: md.langevin(s, 1.0, friction=-1.0), "friction is -1.0"),
        (lambda s: md.bussi(s, 1.0, tau=0.0), "tau is 0.0"),
        (lambda s: md.nose_hoover(s, 1.0, chain=0), "chain of 0 thermostats"),
        (lambda s: md.npt(s, 1.0), "three periodic directions"),
        (lambda s: md.cell_rescaling(s, 1.0), "three periodic directions"),
    ],
)
def test_refusals(make, said):
    system, _, _ = oscillators()
    with pytest.raises(ValueError, match=said):
        make(system)


def test_systems_that_cannot_be():
    with pytest.raises(ValueError, match="atom 1 has mass 0"):
        md.System([1, 1], [1.0, 0.0])
    with pytest.raises(ValueError, match="in order"):
        md.System([1, 1], [1.0, 1.0], node_graph=[1, 0])
    with pytest.raises(ValueError, match="structure 0 has no atom that may move"):
        md.System([1, 1], [1.0, 1.0], fixed=[True, True])
    with pytest.raises(ValueError, match=r"positions have shape \(1, 3\)"):
        md.initial_state(md.System([1, 1], [1.0, 1.0]), [[0.0, 0, 0]], np.zeros((2, 3)))
