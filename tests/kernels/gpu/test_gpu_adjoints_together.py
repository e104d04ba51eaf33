"""Several adjoints of a convolution at once on an emulated GPU: at senders, or by messages."""

from __future__ import annotations

import importlib

import mlx.core as mx
import numpy as np
import pytest
from emulated_convolution import arrays_of, check
from random_convolutions import CASES, random_edges, random_spec

from mlpot.kernels.gpu import convolution_plan
from mlpot.kernels.gpu.convolution import Run
from mlpot.kernels.gpu.convolution_kernels import Tuning

module = importlib.import_module("mlpot.kernels.gpu.convolution")
pytestmark = pytest.mark.emulated

AT_SENDERS = ["convolution_xyw_at_senders"]
WITH_MESSAGES = ["convolution_xyw_at_edges", "convolution_messages"]
ALL = ("x", "y", "w")


@pytest.mark.parametrize("targets", [ALL, ("x", "w"), ("x", "y")], ids="".join)
def test_messages(monkeypatch, targets):
    """Where the rows of g do not stay in the cache; one channel, many edges in a warp."""
    monkeypatch.setattr(module, "GATHERED_BYTES", 0)
    spec = random_spec(CASES["one channel"], np.random.default_rng(1))
    assert check(spec, 7, 40, targets).kernels == WITH_MESSAGES


@pytest.mark.parametrize(("width", "channels", "gap"), [(1, 12, 4), (2, 32, 0), (4, 12, 0)])
def test_lanes_and_vectors(monkeypatch, width, channels, gap):
    """Lanes with a channel, and without; a column of x that no path reads."""
    monkeypatch.setattr(module, "TOGETHER", Tuning(width=width, ahead=width > 1))
    spec = random_spec([(0, 0, 0, channels), (1, 1, 1, channels)], np.random.default_rng(2), gap)
    assert check(spec, 6, 50, ALL).kernels == AT_SENDERS


def test_lanes_of_an_edge():
    """An edge has a whole warp where it has two channels a lane or more."""
    for channels, widths in ((256, [4]), (128, [4]), (64, [2]), (32, [2]), (6, [2]), (3, [1])):
        plan = convolution_plan.layout(
            random_spec([(0, 1, 1, channels)], np.random.default_rng(2)), 4, 0, 32
        )
        assert [shape.width for shape in plan.shapes] == widths


@pytest.mark.parametrize(("targets", "nodes"), [(ALL, 1), (ALL, 3), (("x",), 2), (("x", "y"), 5)])
def test_tiles_of_receivers(monkeypatch, targets, nodes):
    """Seven nodes in tiles of so many at most, one without edges; a column that no path reads."""
    spec = random_spec([(1, 1, 1, 4), (0, 1, 1, 4)], np.random.default_rng(2), 2)
    monkeypatch.setattr(module, "GATHERED_BYTES", nodes * 3 * 4 * 4)
    monkeypatch.setattr(module, "EDGES_IN_TILE", 0)
    monkeypatch.setattr(module, "FEW_WEIGHTS", 0)
    name = "convolution_x" if targets == ("x",) else f"convolution_{''.join(targets)}_at_senders"
    assert check(spec, 7, 60, targets).kernels == [f"{name}_tiled"]


def test_tiles_of_long_lists_of_short_numbers(monkeypatch):
    """Lists that a warp reads several times; parts of tiles are added in float32."""
    spec = random_spec([(0, 1, 1, 2)], np.random.default_rng(2))
    monkeypatch.setattr(module, "GATHERED_BYTES", 2 * 3 * 2 * 2)
    monkeypatch.setattr(module, "EDGES_IN_TILE", 0)
    assert check(spec, 3, 150, ALL, mx.float16, 2e-3).kernels == [f"{AT_SENDERS[0]}_tiled"]


def run_of(n_nodes: int, n_edges: int, dtype=mx.float32) -> Run:
    spec = random_spec([(0, 1, 1, 64)], np.random.default_rng(2))
    edges = random_edges(n_nodes, n_edges, np.random.default_rng(3))
    return Run(spec, dtype, arrays_of(spec, n_nodes, n_edges, dtype), edges)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16])
def test_bytes_gathered_at_a_time_decide(monkeypatch, dtype):
    """3 components of 64 channels at 5 nodes: all at once, in tiles, or messages."""
    row = 3 * 64 * dtype.size
    least = 4 * 5
    for limit, n_edges, wanted in (
        (5 * row, 1, 0),
        (5 * row - 1, 2 * least, 4),
        (5 * row - 1, 2 * least - 1, None),
        (3 * row, 2 * least, 3),
        (2 * row, 3 * least, 2),
        (2 * row, 3 * least - 1, None),
        (row - 1, 5 * least, 1),
        (row - 1, 5 * least - 1, None),
    ):
        monkeypatch.setattr(module, "GATHERED_BYTES", limit)
        monkeypatch.setattr(module, "EDGES_IN_TILE", None)
        assert run_of(5, n_edges, dtype).tile_nodes() == (0 if wanted == 0 else None)
        monkeypatch.setattr(module, "EDGES_IN_TILE", 4)
        assert run_of(5, n_edges, dtype).tile_nodes() == wanted


def test_tiles_need_a_grid(monkeypatch):
    run = run_of(5, 200)
    monkeypatch.setattr(module, "GATHERED_BYTES", 1)
    monkeypatch.setattr(module, "EDGES_IN_TILE", 4)
    assert run.tile_nodes() == 1
    monkeypatch.setattr(module, "grid_refusal", lambda *_: "too large")
    assert run.tile_nodes() is None


@pytest.mark.parametrize(("copies", "gap", "joined"), [(2, 0, False), (1, 2, False), (1, 0, True)])
def test_messages_need_one_warp_for_every_column(monkeypatch, copies, gap, joined):
    """A block of x that several warps read, or that none reads, is summed at the senders."""
    monkeypatch.setattr(module, "EDGE_WITH_MESSAGES", Tuning(width=2, components=6))
    monkeypatch.setattr(module, "GATHERED_BYTES", 0)
    spec = random_spec([(0, 1, 1, 2)] * copies, np.random.default_rng(9), gap)
    alone = ["convolution_x", "convolution_yw_at_edges"]
    assert check(spec, 3, 5, ALL).kernels == (WITH_MESSAGES if joined else alone)


def test_senders_need_no_warp_of_their_own_for_every_column():
    spec = random_spec([(0, 1, 1, 2)] * 2, np.random.default_rng(9), 2)
    assert check(spec, 3, 5, ALL).kernels == AT_SENDERS


@pytest.mark.parametrize("gathered", [0, 10**9])
@pytest.mark.parametrize(("few", "names"), [(40, "xyw"), (39, "xw")])
def test_two_of_three_adjoints_of_few_weights(monkeypatch, few, names, gathered):
    spec = random_spec([(0, 1, 1, 2)], np.random.default_rng(10))
    monkeypatch.setattr(module, "FEW_WEIGHTS", few)
    monkeypatch.setattr(module, "GATHERED_BYTES", gathered)
    kernels = [name.replace("xyw", names) for name in (AT_SENDERS if gathered else WITH_MESSAGES)]
    assert check(spec, 4, 20, ("x", "w")).kernels == kernels
