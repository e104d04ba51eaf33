"""Steps by GPU kernels, on an emulated GPU, against those of plain MLX in float64."""

from __future__ import annotations

import contextlib

import mlx.core as mx
import numpy as np
import pytest
from analytic_forces import elastic_crystal
from emulated_gpu import emulated_gpu

from mlpot import md
from mlpot.units import KB

pytestmark = [pytest.mark.emulated, pytest.mark.usefixtures("unmeasured_kernels")]

CELL = np.array([[9.0, 0.4, 0.0], [0.0, 8.0, 0.6], [0.5, 0.0, 10.0]])
SIZES = {"one": [12], "equal": [5, 5], "unequal": [4, 1, 7]}
#: Names of kernels but those of the forces and of sums over structures of different sizes.
OWN = ("md_", "npt_", "verlet_", "rescale", "breathe", "langevin_")


def crystal(sizes, dtype):
    """Structures in elastic cells, far from equilibrium: every term of a step matters."""
    rng = np.random.default_rng(5)
    n_atoms, kT = sum(sizes), KB * np.linspace(400.0, 900.0, len(sizes))
    masses = rng.uniform(5.0, 40.0, n_atoms)
    system = md.System(
        np.full(n_atoms, 13),
        masses,
        node_graph=np.repeat(np.arange(len(sizes)), sizes),
        pbc=True,
        dtype=dtype,
    )
    fractions = rng.uniform(size=(n_atoms, 3))
    forces = elastic_crystal(system, fractions, 4.0, CELL, bulk=0.1, shear=0.05)
    strained = CELL @ (np.eye(3) + 0.05 * rng.normal(size=(3, 3)))
    state = md.initial_state(
        system,
        fractions @ strained + 0.1 * rng.normal(size=(n_atoms, 3)),
        rng.normal(size=(n_atoms, 3)) * np.sqrt(0.05 / masses)[:, None],
        strained,
        kT=kT,
        seed=1,
    )
    return system, forces, state


def followed(integrator, forces, state, steps):
    state = integrator.init(state, forces)
    for _ in range(steps):
        state = integrator.step(state, forces)
    return state


def compare(kind, sizes, kernels, steps=2, **options):
    """No farther from float64 than plain float32 is, but for a few roundings."""
    ends, conserved = {}, {}
    for way in ("exact", "plain", "fused"):
        system, forces, start = crystal(sizes, mx.float64 if way == "exact" else mx.float32)
        integrator = kind(system, 2.0, **options)
        with emulated_gpu() if way == "fused" else contextlib.nullcontext() as gpu:
            state = followed(integrator, forces, start, steps)
        if gpu is not None:
            ran = [name for name in gpu.kernels if name.startswith(OWN)]
            assert ran == kernels * steps
        ends[way] = {name: np.array(array) for name, array in state.arrays().items()}
        conserved[way] = np.array(integrator.conserved(state))
    assert np.array_equal(ends["fused"].pop("key"), ends["exact"].pop("key"))
    for name, wanted in ends["exact"].items():
        scale = np.abs(wanted).max() + 1e-30
        plain, fused = (
            np.abs(ends[way][name] - wanted).max() / scale for way in ("plain", "fused")
        )
        assert fused <= 4 * plain + 2e-6, f"{name}: {fused:.2g}, plain MLX {plain:.2g}"
        moved = np.abs(np.array(start.arrays().get(name, 0.0)) - wanted).max()
        still = ("kT", "excess") if integrator.stress else ("kT", "excess", "cells")
        assert name in still or moved > 1e-4 * scale
    np.testing.assert_allclose(conserved["fused"], conserved["exact"], rtol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "full_cell", "chain"),
    [("unequal", True, 3), ("equal", False, 1)],
)
def test_martyna_tobias_klein(sizes, full_cell, chain):
    kind = f"{'full' if full_cell else 'volume'}_{chain}"
    kernels = ["md_sums", f"npt_before_{kind}", "md_advance"]
    kernels += ["md_kick", f"npt_after_{kind}", "md_finish"]
    options = {"tau": 0.02, "tau_pressure": 0.05, "full_cell": full_cell, "chain": chain}
    compare(md.npt, SIZES[sizes], kernels, pressure=2.0, **options)


VERLET = ["md_sums", "verlet_before_0", "md_advance"]
END = {"nve": ["md_kick", "verlet_after_0"], "bussi": ["md_kick", "rescale"]}


@pytest.mark.parametrize(("kind", "sizes"), [("nve", "one"), ("bussi", "unequal")])
def test_velocity_verlet_alone_and_with_rescaling(kind, sizes):
    compare(getattr(md, kind), SIZES[sizes], [*VERLET, *END[kind], "md_finish"])


def test_nose_hoover_chain():
    first = ["md_sums", "verlet_before_3", "md_advance"]
    second = ["md_kick", "verlet_after_3", "md_finish"]
    compare(md.nose_hoover, SIZES["unequal"], [*first, *second], tau=0.02)


def test_stochastic_cell_rescaling():
    kernels = ["md_kick", "breathe", "md_advance", "md_kick", "rescale_cell", "md_finish"]
    options = {"pressure": 2.0, "tau": 0.02, "tau_pressure": 0.05}
    compare(md.cell_rescaling, SIZES["unequal"], kernels, **options)


def test_langevin():
    first = ["md_kick", "langevin_before", "md_shake", "langevin_after", "md_advance"]
    second = ["md_kick", "verlet_after_0", "md_finish"]
    compare(md.langevin, SIZES["unequal"], [*first, *second], friction=20.0)


@pytest.mark.parametrize("kind", ["bussi", "langevin"])
def test_fixed_atoms_stay(kind):
    system, forces, state = crystal(SIZES["one"], mx.float32)
    fixed = np.arange(12) < 4
    system = md.System(system.numbers, system.host_masses, pbc=True, fixed=fixed)
    state = md.initial_state(system, state.positions, state.velocities, CELL, kT=0.03)
    plain = followed(getattr(md, kind)(system, 2.0), forces, state, 2)
    with emulated_gpu() as gpu:
        fused = followed(getattr(md, kind)(system, 2.0), forces, state, 2)
    assert "md_finish" in gpu.kernels
    assert np.array_equal(np.array(fused.positions)[:4], np.array(state.positions)[:4])
    assert np.array_equal(np.array(fused.velocities)[:4], np.zeros((4, 3)))
    np.testing.assert_allclose(np.array(fused.positions), np.array(plain.positions), atol=3e-6)
