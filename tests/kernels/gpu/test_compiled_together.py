"""CUDA kernels that a graph needs are compiled side by side before it is built."""

from __future__ import annotations

import os
import threading
from unittest import mock

import mlx.core as mx
import numpy as np
import pytest
from imagined_gpu import call, imagined_gpu, scaled

from mlpot.kernels.gpu import (
    compilation,
    compiled_together,
    nvrtc,
)
from mlpot.kernels.replay import Replayed

pytestmark = pytest.mark.emulated


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with imagined_gpu(monkeypatch, tmp_path) as imagined:
        yield imagined


def test_missing_kernels_are_compiled_together(gpu):
    makers = [scaled(factor, long=True) for factor in (1.0, 2.0, 3.0)]
    threads, traces = set(), []
    real = nvrtc.compile_text
    both = threading.Barrier(2, timeout=30)

    def compile_text(*arguments):
        if len(threads) < 2:
            threads.add(threading.get_ident())
            both.wait()  # until another thread compiles too
        return real(*arguments)

    def total():
        traces.append(None)
        return sum((call(kernel) for kernel in makers), mx.zeros(()))

    with (
        mock.patch.object(nvrtc, "compile_text", compile_text),
        mock.patch.object(os, "cpu_count", return_value=2),
    ):
        found = compiled_together(total)
    assert np.array(found).tolist() == [3.0] * 5
    assert len(traces) == 2 and len(threads) == 2
    assert len(gpu.precompiled) == 3  # of the second time; at first MLX's were taken
    assert compilation.status().compiled == 3
    compilation.forget()
    compiled_together(total)
    assert len(traces) == 3 and compilation.status().from_disk == 3


def test_short_kernels_are_there_at_once(gpu):
    traces = []

    def function():
        traces.append(None)
        return call(scaled())

    compiled_together(function)
    assert len(traces) == 1 and len(gpu.precompiled) == 1


def test_within_another_the_outer_one_decides(gpu):
    kernel = scaled(long=True)
    traces = []

    def inner():
        traces.append(None)
        return call(kernel)

    compiled_together(lambda: compiled_together(inner))
    assert len(traces) == 2


def test_what_it_wraps_is_called_plainly_without_a_gpu():
    assert compiled_together(lambda a, b: a - b, 5, 3) == 2


def test_recorded_functions_compile_together(gpu):
    kernel = scaled(long=True)
    replayed = Replayed(lambda arrays: {"out": call(kernel) + arrays["x"]})
    for _ in range(2):
        found = replayed({"x": mx.ones((5,))})["out"]
        assert np.array(found).tolist() == [2.0] * 5
    assert replayed.n_traces == 1 and len(gpu.precompiled) == 1


def test_a_failure_in_the_function_leaves_nothing_behind(gpu):
    def wrong():
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        compiled_together(wrong)
    call(scaled(long=True))
    assert len(gpu.precompiled) == 1
