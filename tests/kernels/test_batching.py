"""Functions applied to each item of a batch."""

from __future__ import annotations

from unittest import mock

import mlx.core as mx
import pytest

from mlpot import kernels
from mlpot.kernels import gpu


@pytest.mark.parametrize("refusal", [None, "there is no GPU"])
def test_each_item_is_computed(refusal):
    batch = mx.arange(6.0).reshape(3, 2)
    with mock.patch.object(gpu, "device_refusal", return_value=refusal):
        one = kernels.each(lambda v: v * v.sum())(batch)
        two = kernels.each(lambda v: (v + 1.0, v[0]))(batch)
    assert one.tolist() == [[0.0, 1.0], [10.0, 15.0], [36.0, 45.0]]
    assert two[0].tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert two[1].tolist() == [0.0, 2.0, 4.0]


def test_on_gpus_no_function_sees_a_batch():
    """Generated kernels cannot be vectorised: every call gets plain arrays."""
    seen = []
    with mock.patch.object(gpu, "device_refusal", return_value=None):
        kernels.each(lambda v: seen.append(v.tolist()) or v)(mx.array([[1.0], [2.0]]))
    assert seen == [[1.0], [2.0]]
