"""The calculator with features of 16 bits."""

from __future__ import annotations

import copy
import pickle

import mlx.core as mx
import numpy as np
import pytest
from small_potentials import make_crystal, make_potential

from mlpot.calculators import MLPotCalculator


def forces(calculator) -> np.ndarray:
    atoms = make_crystal()
    atoms.calc = calculator
    return atoms.get_forces()


def test_potentials_are_not_changed():
    potential = make_potential(1)
    exact = forces(MLPotCalculator(potential))
    short = MLPotCalculator(potential, feature_dtype="bfloat16")
    assert potential.feature_dtype == mx.float32
    assert short.potential.feature_dtype == mx.bfloat16
    found = forces(short)
    error = np.abs(found - exact).max() / np.abs(exact).max()
    assert 1e-5 < error < 0.05
    for twin in (copy.deepcopy(short), pickle.loads(pickle.dumps(short))):
        assert np.array_equal(forces(twin), found)
    # Without being asked for, a potential's own choice holds.
    potential.set_feature_dtype(mx.bfloat16)
    assert np.array_equal(forces(MLPotCalculator(potential)), found)
    assert np.array_equal(forces(MLPotCalculator(potential, feature_dtype="float32")), exact)


def test_double_precision_of_such_a_calculator_is_exact():
    potential = make_potential(2)
    short = MLPotCalculator(potential, feature_dtype="float16")
    wanted = forces(MLPotCalculator(potential, dtype="float64"))
    double = short.astype("float64")
    for one in (double, copy.deepcopy(double), pickle.loads(pickle.dumps(double))):
        assert np.array_equal(forces(one), wanted)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"feature_dtype": "float8"}, "choose one of 'float32', 'float16', 'bfloat16'"),
        ({"feature_dtype": "float64"}, "choose one of"),
        ({"feature_dtype": "float16", "dtype": "float64"}, "for potentials in float32"),
    ],
)
def test_refusals(options, said):
    with pytest.raises(ValueError, match=said):
        MLPotCalculator(make_potential(0), **options)
