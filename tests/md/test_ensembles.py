"""Distributions against exact ones: many replicas that begin in the ensemble and must stay there.

A replica's start is drawn from the exact distribution. An integrator that samples another one
leads away from it within its relaxation times, whether it is ergodic or not. Error bars come from
the spread of the replicas; a deviation of more than four of them fails.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from analytic_forces import elastic_crystal, follow, ideal_gas, mean_error, quartic, springs

from mlpot import md
from mlpot.units import GPA, KB, PS


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def agrees(samples: np.ndarray, expected: float, precision: float = 0.05) -> None:
    """(n_samples, n_replicas) values have this mean within four (small) error bars."""
    mean, error = mean_error(samples)
    assert error < precision * abs(expected)
    assert abs(mean - expected) < 4 * error, f"{mean} +- {error}, expected {expected}"


def many(n_graphs: int, per_graph: int, **named) -> md.System:
    return md.System(
        np.full(n_graphs * per_graph, 18),
        np.tile(np.linspace(20.0, 60.0, per_graph), n_graphs),
        node_graph=np.repeat(np.arange(n_graphs), per_graph),
        **named,
    )


@pytest.mark.parametrize("kind", ["langevin", "bussi", "nose_hoover"])
@pytest.mark.parametrize("remove_com", [True, False])
def test_canonical_distributions_of_springs(kind, remove_com):
    n_graphs, n = 160, 4
    system = many(n_graphs, n, remove_com=remove_com)
    rng = np.random.default_rng(3)
    # Two temperatures in one batch.
    kT = KB * np.repeat([150.0, 600.0], n_graphs // 2)
    each = np.repeat(kT, n)[:, None]
    masses = system.host_masses[:, None]
    # One frequency: springs then leave the centre of mass where it is.
    k = 0.2 * system.host_masses
    positions = rng.normal(size=(n * n_graphs, 3)) * np.sqrt(each / k[:, None])
    velocities = rng.normal(size=(n * n_graphs, 3)) * np.sqrt(each / masses)
    if remove_com:
        shares = masses.reshape(n_graphs, n, 1) / masses[:n].sum()
        positions -= np.repeat((shares * positions.reshape(n_graphs, n, 3)).sum(axis=1), n, axis=0)
    state = md.initial_state(system, positions, velocities, kT=kT, seed=11)
    integrator = {
        "langevin": lambda: md.langevin(system, 3.0, friction=10.0),
        "bussi": lambda: md.bussi(system, 3.0, tau=0.05),
        "nose_hoover": lambda: md.nose_hoover(system, 3.0, tau=0.05),
    }[kind]()

    def observe(s):
        kinetic = system.kinetic(s.velocities)
        each_one = (system.masses * s.velocities * s.velocities).reshape(n_graphs, 3 * n)
        return s.energies, kinetic, each_one

    forces = springs(system, np.zeros((n * n_graphs, 3)), k)
    _, (potential, kinetic, each_one) = follow(integrator, forces, state, 600, observe, every=5)
    degrees = 3 * n - 3 * remove_com
    np.testing.assert_array_equal(np.array(system.degrees), degrees)
    for values in (potential / kT, kinetic / kT):
        agrees(values, degrees / 2)
        agrees((values - degrees / 2) ** 2, degrees / 2)  # of a chi-squared distribution
        # Its third moment too: a shape, not only a width.
        agrees(values**3, degrees / 2 * (degrees / 2 + 1) * (degrees / 2 + 2))
    # Equipartition, degree by degree: heavy atoms hold more where the centre of mass is held.
    share = 1.0 - remove_com * np.tile(np.linspace(20, 60, n) / np.linspace(20, 60, n).sum(), 1)
    for component in range(3 * n):
        agrees(each_one[:, :, component] / kT, share[component // 3], 0.1)


@pytest.mark.parametrize("kind", ["langevin", "bussi"])
def test_relaxation_to_the_temperature(kind):
    system = many(200, 4)
    rng = np.random.default_rng(0)
    k = 0.2 * system.host_masses
    state = md.initial_state(system, 0.01 * rng.normal(size=(800, 3)), np.zeros((800, 3)) + 1e-4)
    state = md.initial_state(
        system,
        np.array(state.positions),
        0.01 * rng.normal(size=(800, 3)),
        kT=KB * np.full(200, 400.0),
        seed=2,
    )
    named = {"friction": 20.0} if kind == "langevin" else {"tau": 0.05}
    integrator = getattr(md, kind)(system, 3.0, **named)
    forces = springs(system, np.zeros((800, 3)), k)
    _, (kinetic,) = follow(
        integrator, forces, state, 500, lambda s: (system.kinetic(s.velocities),), every=5
    )
    assert kinetic[0].mean() < 0.6 * 4.5 * KB * 400
    agrees(kinetic[40:] / (KB * 400), 4.5)


def test_heat_capacity_by_fluctuation_is_the_derivative_of_the_energy():
    temperatures = np.repeat([280.0, 300.0, 320.0], 200)
    system = many(600, 4, remove_com=False)
    rng = np.random.default_rng(1)
    state = md.initial_state(
        system,
        0.2 * rng.normal(size=(2400, 3)),
        0.05 * rng.normal(size=(2400, 3)),
        kT=KB * temperatures,
        seed=3,
    )
    integrator = md.langevin(system, 2.0, friction=15.0)
    _, (energy,) = follow(
        integrator,
        quartic(system, 4.0),
        state,
        1500,
        lambda s: (s.energies + system.kinetic(s.velocities),),
        every=10,
    )
    energy = energy[60:]
    cold, middle, hot = (energy[:, 200 * i : 200 * (i + 1)] for i in range(3))
    exact = 12 * (0.5 + 0.25)  # in k: half from each velocity, a quarter from each x^4
    fluctuation = (middle - exact * KB * 300) ** 2 / (KB * 300) ** 2
    agrees(fluctuation, exact)
    derivative = (hot.mean(axis=0) - cold.mean(axis=0)) / (40 * KB)
    agrees(derivative[None], exact, 0.1)


@pytest.mark.parametrize("kind", ["npt", "npt_full", "cell_rescaling"])
def test_volume_of_an_ideal_gas(kind):
    """P(V) is proportional to V^N exp(-P V / kT): a gamma distribution of N + 1."""
    n_graphs, n = 240, 6
    kT, pressure = KB * 300.0, 0.5
    system = many(n_graphs, n, remove_com=False, pbc=True)
    rng = np.random.default_rng(6)
    # A full cell of no stiffness is sampled with det(h)^(N - 2) instead, in nine dimensions;
    # that of a gas would fold flat, so there only its first motion from a cube is looked at.
    volumes = rng.gamma(n + 1, kT / (pressure * GPA), n_graphs)
    cells = np.cbrt(volumes)[:, None, None] * np.eye(3)
    masses = system.host_masses[:, None]
    velocities = rng.normal(size=(n * n_graphs, 3)) * np.sqrt(kT / masses)
    fractions = rng.uniform(size=(n * n_graphs, 3))
    positions = np.einsum("ni,nij->nj", fractions, np.repeat(cells, n, axis=0))
    state = md.initial_state(system, positions, velocities, cells, kT=kT, seed=9)
    if kind == "cell_rescaling":
        integrator = md.cell_rescaling(
            system, 4.0, pressure, tau=0.05, tau_pressure=0.2, compressibility=1 / pressure
        )
    else:
        integrator = md.npt(
            system, 4.0, pressure, tau=0.1, tau_pressure=0.3, full_cell=kind == "npt_full"
        )
    steps = 60 if kind == "npt_full" else 800
    last, (volume, kinetic, stress) = follow(
        integrator,
        ideal_gas(system),
        state,
        steps,
        lambda s: (
            md.volumes(s.cells),
            system.kinetic(s.velocities),
            md.pressure(system, s) * md.volumes(s.cells),
        ),
        every=5,
    )
    agrees(kinetic / kT, 1.5 * n)
    agrees(stress / kT, n)
    if kind == "npt_full":
        moved = np.array(last.cells)
        assert np.abs(moved[:, 0, 1]).mean() > 0.1  # it shears
        np.testing.assert_allclose(moved, moved.swapaxes(1, 2), atol=1e-4)  # and does not turn
        return
    reduced = volume * pressure * GPA / kT
    assert np.corrcoef(reduced[0], reduced[-1])[0, 1] < 0.5  # it has forgotten its start
    agrees(reduced, n + 1)
    agrees((reduced - n - 1) ** 2, n + 1)


@pytest.mark.parametrize("kind", ["npt", "npt_full", "cell_rescaling"])
def test_volume_and_shape_of_an_elastic_crystal(kind):
    n_graphs, n = 192, 4
    kT, pressure, bulk, shear = KB * 400.0, 1.0, 0.12, 0.06
    cell = np.array([[7.0, 0.3, 0.0], [0.3, 6.5, 0.2], [0.0, 0.2, 7.5]])
    v0 = np.linalg.det(cell)
    system = many(n_graphs, n, remove_com=False, pbc=True)
    rng = np.random.default_rng(8)
    fractions = rng.uniform(size=(n * n_graphs, 3))
    forces = elastic_crystal(system, fractions, 3.0, cell, bulk, shear)
    # x = ln(V / V_0) has the energy V_0 (bulk/2 x^2 + P e^x) - a kT x: to the order of its small
    # width a Gaussian about the minimum. dV = V dx gives a = 1, and the five shears, whose energy
    # is proportional to exp(4x/3), take away 5/2 times 4/3.
    a = 1 - 10 / 3 if kind == "npt_full" else 1
    centre = 0.0
    for _ in range(50):
        centre = (a * kT / v0 - pressure * GPA * np.exp(centre)) / bulk
    stiffness = v0 * (bulk + pressure * GPA * np.exp(centre)) / kT
    width = 1 / np.sqrt(stiffness)
    strain = centre + width * rng.normal(size=n_graphs)
    cells = np.exp(strain / 3)[:, None, None] * cell
    if kind == "npt_full":
        strains = rng.normal(size=(n_graphs, 3, 3)) * np.sqrt(kT / (2 * v0 * shear))
        symmetric = (strains + strains.swapaxes(1, 2)) / 2
        symmetric -= np.trace(symmetric, axis1=1, axis2=2)[:, None, None] / 3 * np.eye(3)
        cells = cells @ (np.eye(3) + symmetric)
    masses = system.host_masses[:, None]
    anchors = np.einsum("ni,nij->nj", fractions, np.repeat(cells, n, axis=0))
    state = md.initial_state(
        system,
        anchors + rng.normal(size=anchors.shape) * np.sqrt(kT / 3.0),
        rng.normal(size=anchors.shape) * np.sqrt(kT / masses),
        cells,
        kT=kT,
        seed=4,
    )
    if kind == "cell_rescaling":
        integrator = md.cell_rescaling(
            system, 2.0, pressure, tau=0.05, tau_pressure=0.2, compressibility=GPA / bulk
        )
    else:
        integrator = md.npt(
            system, 2.0, pressure, tau=0.05, tau_pressure=0.4, full_cell=kind == "npt_full"
        )
        # The velocities of cell and thermostats, too, from their distribution.
        w = (3 * n + 3) * kT * (0.4 * PS) ** 2 / 3
        rates = rng.normal(size=(n_graphs, 3, 3)) * np.sqrt(kT / w)
        rates = (rates + rates.swapaxes(1, 2)) / 2
        rates[:, range(3), range(3)] = rng.normal(size=(n_graphs, 3)) * np.sqrt(kT / w)
        if kind == "npt":
            rates = rng.normal(size=(n_graphs, 1, 1)) * np.sqrt(kT / (3 * w)) * np.eye(3)
        state = state.with_extra(strain_rate=mx.array(rates, dtype=system.dtype))
        cell_degrees = 6 if kind == "npt_full" else 1
        for name, degrees, tau in (("chain", 3 * n, 0.05), ("cell_chain", cell_degrees, 0.4)):
            speeds = rng.normal(size=(n_graphs, 3)) / (tau * PS)
            speeds[:, 0] /= np.sqrt(degrees)
            chain = {f"{name}_velocity": speeds, f"{name}_position": np.zeros((n_graphs, 3))}
            state = state.with_extra(
                **{key: mx.array(value, dtype=system.dtype) for key, value in chain.items()}
            )
    inverse = np.linalg.inv(cell)

    def observe(s):
        return (
            s.cells,
            system.kinetic(s.velocities),
            md.pressure(system, s),
        )

    _, (seen, kinetic, pressures) = follow(integrator, forces, state, 900, observe, every=5)
    logs = np.log(np.linalg.det(seen) / v0)
    agrees(kinetic / kT, 1.5 * n)
    agrees(pressures / GPA, pressure)
    agrees((logs - logs.mean()) ** 2, 1 / stiffness, 0.1)
    agrees(logs, centre)
    if kind == "npt_full":
        deformed = inverse @ seen
        metric = np.swapaxes(deformed, -1, -2) @ deformed
        agrees((metric[..., 0, 1] / 2) ** 2, kT / (4 * v0 * shear), 0.1)
        agrees((metric[..., 1, 2] / 2) ** 2, kT / (4 * v0 * shear), 0.1)
