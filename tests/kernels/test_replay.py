"""Recorded functions: the same numbers, one trace for each shape, fusing on again afterwards."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from sample_potentials import small_network, triclinic

from mlpot import derivatives, graph
from mlpot.kernels import replay
from mlpot.kernels.replay import Replayed


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def sums(arrays):
    return {"sum": (arrays["x"] * 2.0 + 1.0).sum(), "x": arrays["x"]}


def test_one_trace_for_each_shape_and_precision():
    function = Replayed(sums)
    for n in (3, 4, 3, 4, 3):
        assert function({"x": mx.arange(n, dtype=mx.float32)})["sum"].item() == n * n
    assert function.n_traces == 2
    function({"x": mx.zeros((3,), dtype=mx.float64)})
    assert function.n_traces == 3


def test_without_the_mode_functions_run_as_they_are(monkeypatch):
    monkeypatch.setattr(replay, "available", lambda: False)
    function = Replayed(sums)
    for n in (3, 4, 3):
        assert function({"x": mx.arange(n, dtype=mx.float32)})["sum"].item() == n * n
    assert function.n_traces == 2


def test_forces_of_a_network_are_bit_for_bit_the_same():
    atoms, potential = triclinic(), small_network()
    built = graph.build(atoms.numbers, atoms.positions, atoms.cell.array, True, cutoff=4.0)

    def forces(arrays):
        found = derivatives.energy_forces_stress(potential, graph.Graph.from_arrays(arrays))
        return {"energy": found.interaction_energy, "forces": found.forces, "stress": found.stress}

    function = Replayed(forces)
    for shift in (0.0, 0.01, 0.02):
        arrays = built.arrays() | {"positions": built.positions * (1.0 + shift)}
        plain, recorded = forces(arrays), function(arrays)
        for name in plain:
            np.testing.assert_array_equal(np.array(recorded[name]), np.array(plain[name]))
    assert function.n_traces == 1


def test_fusing_is_on_again_afterwards():
    Replayed(sums)({"x": mx.ones((5,))})
    traced = []

    def chain(x):
        traced.append(1)
        return mx.sqrt(x * 2.0 + 1.0) * x

    compiled = mx.compile(chain)
    x = mx.array([1.0, 4.0])
    np.testing.assert_allclose(np.array(compiled(x)), np.sqrt(2 * np.array(x) + 1) * np.array(x))
    compiled(x)
    assert len(traced) == 1
    # A fused chain is one node of the graph that an export shows.
    import io

    screen = io.StringIO()
    mx.export_to_dot(screen, compiled(x))
    assert "Compiled" in screen.getvalue()


def test_a_user_who_switches_compilation_off_finds_it_off():
    calls = []

    def counted(x):
        calls.append(x)
        return x + 1

    mx.disable_compile()
    try:
        function = Replayed(sums)
        for _ in range(2):
            assert function({"x": mx.arange(3, dtype=mx.float32)})["sum"].item() == 9
        plain = mx.compile(counted)
        plain(mx.ones((2,)))
        plain(mx.ones((2,)))
    finally:
        mx.enable_compile()
    assert function.n_traces == 2
    assert len(calls) == 2
    function({"x": mx.arange(3, dtype=mx.float32)})
    function({"x": mx.arange(3, dtype=mx.float32)})
    assert function.n_traces == 3
