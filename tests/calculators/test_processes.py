"""Eight spawned processes, threads beside each other: everyone gets the right numbers."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import mlx.core as mx
import numpy as np
import pytest
from ase import Atoms
from ase.optimize import BFGS
from in_processes import compute
from sample_potentials import small_network, triclinic

import mlpot
from mlpot.calculators import MLPotCalculator


def structures(calc: MLPotCalculator, n: int) -> list[Atoms]:
    found = []
    for seed in range(n):
        atoms = triclinic()
        atoms.rattle(0.05, seed=seed)
        atoms.calc = calc
        found.append(atoms)
    return found


def test_eight_spawned_processes(tmp_path):
    mlpot.save(tmp_path / "model.safetensors", small_network())
    calc = MLPotCalculator(tmp_path / "model.safetensors", dtype="float64")
    expected = [compute(atoms) for atoms in structures(calc, 8)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(8, mp_context=context) as pool:
        found = list(pool.map(compute, structures(calc, 8)))
    for one, other in zip(found, expected, strict=True):
        assert one[0] == pytest.approx(other[0], rel=1e-12)
        np.testing.assert_allclose(one[1], other[1], atol=1e-10)
        np.testing.assert_allclose(one[2], other[2], atol=1e-10)
    energies = [one[0] for one in found]
    assert len(set(energies)) == 8


def test_threads_with_a_calculator_each():
    """Different structures, sizes and precisions at once; relaxations of ASE in each thread."""
    potential = small_network()

    def work(seed: int) -> tuple[float, float]:
        atoms = triclinic().repeat((1 + seed % 2, 1, 1))
        atoms.rattle(0.05, seed=seed)
        atoms.calc = MLPotCalculator(potential, dtype="float64" if seed % 3 else "float32")
        before = atoms.get_potential_energy()
        BFGS(atoms, logfile=None).run(fmax=1e-9, steps=4)
        return before, atoms.get_potential_energy()

    one_by_one = [work(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(work, range(6)))
    np.testing.assert_allclose(together, one_by_one, rtol=1e-6)


def test_nothing_global_is_touched():
    state = [np.array(one).tolist() for one in mx.random.state]
    device, cwd, environment = mx.default_device(), os.getcwd(), dict(os.environ)
    errors, generator = np.geterr(), np.random.get_state()[1].tolist()  # noqa: NPY002
    calc = MLPotCalculator(small_network(), dtype="float64")
    mx.random.seed(3)
    seeded = [np.array(one).tolist() for one in mx.random.state]
    atoms = triclinic()
    for name in ("energy", "forces", "stress", "stresses"):
        calc.get_property(name, atoms)
    calc.get_hvp(atoms, np.ones((4, 3)))
    calc.get_hessian(atoms)
    calc.get_descriptors(atoms)
    calc.get_strain_derivatives(atoms)
    assert [np.array(one).tolist() for one in mx.random.state] == seeded != state
    assert mx.default_device() == device and os.getcwd() == cwd
    assert dict(os.environ) == environment and np.geterr() == errors
    assert np.random.get_state()[1].tolist() == generator  # noqa: NPY002
