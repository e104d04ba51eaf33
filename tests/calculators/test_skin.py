"""Neighbour lists that are kept between steps give what fresh ones give."""

from __future__ import annotations

import numpy as np
import pytest
from small_potentials import make_crystal

from mlpot import derivatives
from mlpot.calculators import MLPotCalculator
from mlpot.calculators.evaluation import to_voigt


def builds(calculator: MLPotCalculator) -> int:
    return calculator._pairs.n_builds


@pytest.mark.parametrize(
    ("pbc", "on_gpu"),
    [(True, False), (True, True), ([True, False, True], True), (False, False)],
)
def test_a_random_path_with_and_without_skin(potential, monkeypatch, pbc, on_gpu):
    kept = MLPotCalculator(potential, dtype="float64", skin=0.5)
    fresh = MLPotCalculator(potential, dtype="float64", skin=0.0)
    # The padded arrays of a GPU, on the CPU.
    monkeypatch.setattr(kept, "_on_gpu", lambda: on_gpu)
    atoms, rng = make_crystal(2), np.random.default_rng(4)
    atoms.pbc = pbc
    n_steps = 12
    for step in range(n_steps):
        atoms.positions += rng.normal(scale=0.02, size=(5, 3))
        if step % 6 == 5:
            atoms.wrap()
        scale = max(1.0, np.abs(fresh.get_forces(atoms)).max())
        tolerance = 1e-10 * scale
        difference = kept.get_potential_energy(atoms) - fresh.get_potential_energy(atoms)
        assert abs(difference) < tolerance
        np.testing.assert_allclose(
            kept.get_forces(atoms), fresh.get_forces(atoms), rtol=0, atol=tolerance
        )
        if pbc is True:
            np.testing.assert_allclose(
                kept.get_stress(atoms), fresh.get_stress(atoms), rtol=0, atol=tolerance
            )
    v = rng.normal(size=(5, 3))
    np.testing.assert_allclose(
        kept.get_hvp(atoms, v), fresh.get_hvp(atoms, v), rtol=0, atol=1e-10 * scale * 100
    )
    assert builds(kept) < n_steps / 2
    # The Hessian-vector product uses the list once more, which without skin is made anew.
    assert builds(fresh) == n_steps + 1


def test_a_pair_that_comes_within_the_cutoff_is_not_missed(potential):
    kept = MLPotCalculator(potential, dtype="float64", skin=0.4)
    fresh = MLPotCalculator(potential, dtype="float64", skin=0.0)
    atoms = make_crystal(3)[:2]
    atoms.pbc = False
    atoms.positions[:] = [[0, 0, 0], [0, 0, 3.45]]
    alone = kept.get_potential_energy(atoms)
    for length in np.arange(3.45, 2.0, -0.1):
        atoms.positions[1, 2] = length
        wanted = fresh.get_potential_energy(atoms)
        assert kept.get_potential_energy(atoms) == pytest.approx(wanted, abs=1e-10)
    assert abs(kept.get_potential_energy(atoms) - alone) > 1e-4
    assert builds(kept) < 15


def test_large_steps_other_species_and_periodicity_rebuild(potential):
    calculator = MLPotCalculator(potential, skin=0.5)
    atoms = make_crystal(0)
    calculator.get_forces(atoms)
    atoms.positions[0] += [0.2, 0.0, 0.0]
    calculator.get_forces(atoms)
    assert builds(calculator) == 1
    for number, edit in enumerate(
        (
            lambda: atoms.positions.__setitem__(0, atoms.positions[0] + [0.6, 0.0, 0.0]),
            lambda: atoms.numbers.__setitem__(0, 1),
            lambda: atoms.set_pbc([True, True, False]),
            lambda: atoms.set_cell(1.3 * atoms.cell.array, scale_atoms=True),
        )
    ):
        edit()
        calculator.get_forces(atoms)
        assert builds(calculator) == 2 + number


@pytest.mark.parametrize("on_gpu", [False, True])
def test_padding_changes_nothing(potential, crystal, monkeypatch, on_gpu):
    padded = MLPotCalculator(potential, dtype="float64")
    monkeypatch.setattr(padded, "_on_gpu", lambda: on_gpu)
    assert padded._graph(crystal).n_graphs == 2
    alone = padded._graph(crystal, padded=False)
    assert alone.n_graphs == 1
    plain = derivatives.energy_forces_stress(padded.potential, alone)
    stress = to_voigt(np.array(plain.stress)[0])
    for name, wanted in (("forces", np.array(plain.forces)), ("stress", stress)):
        found = padded.get_property(name, crystal)
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
        assert len(found) == len(wanted)
    assert padded.get_potential_energy(crystal) == pytest.approx(plain.energy[0], rel=1e-12)
