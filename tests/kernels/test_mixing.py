"""Features that a number of each row scales in some columns, and added to others."""

from __future__ import annotations

import copy
import pickle

import mlx.core as mx
import numpy as np
import pytest
from nestings import check_nestings

from mlpot import kernels

MASKS = {"some": np.array([1, 0, 0, 1, 1, 0]), "all": np.ones(6), "none": np.zeros(6)}


def mixed(mixing: kernels.Mixing):
    """All three inputs from one row each of 13 numbers."""
    return lambda x: mixing(x[:, :6], x[:, 6:7] ** 2, x[:, 7:])


@pytest.mark.parametrize("mask", MASKS)
def test_all_nestings_of_derivatives(mask):
    x = np.random.default_rng(1).normal(size=(3, 13))
    check_nestings(mixed(kernels.Mixing(MASKS[mask])), x, step=1e-3, tolerance=2e-6)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_values_also_of_copies(mask, copied):
    own, features = np.random.default_rng(2).normal(size=(2, 4, 6))
    factor = np.array([[0.5], [-2.0], [0.0], [3.0]])
    want = own + np.where(MASKS[mask] > 0, factor, 1.0) * features
    mixing = kernels.Mixing(MASKS[mask])
    with mx.stream(mx.cpu):
        arrays = [mx.array(a, dtype=mx.float64) for a in (own, factor, features)]
        mixing(*arrays)
        np.testing.assert_allclose(np.array(copied(mixing)(*arrays)), want, rtol=1e-15)
