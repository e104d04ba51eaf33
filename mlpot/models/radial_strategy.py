"""Where edge weights come from a table and where from the network itself: the one place to choose.

A table of K intervals costs 6 K evaluations of the last layer, however many edges there are; with
fixed parameters it is computed once. It needs kernels that combine its rows within the
convolution: plain MLX reads six rows for each edge one after the other, which takes longer than
the network.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import mlx.core as mx
from pydantic import Field

from mlpot.kernels import native

Strategy = Literal["auto", "table", "exact"]

#: Key of configurations.
RadialKey = Annotated[
    Strategy,
    Field(
        description="edge weights from tables of the distance (table), from the radial network at "
        "each edge (exact), or as is faster (auto)"
    ),
]
#: Interpolated weights may differ from the network's by this much, relative to the largest:
#: value, slope, curvature. Energies then differ by at most 1e-7, forces by 1e-6 and
#: Hessian-vector products by 1e-5.
TOLERANCES = (1e-8, 2e-7, 2e-5)

#: Backends on which tables are faster than the network at each edge with fixed parameters, and from
#: how many edges on, by measurement; None: never. On an H200 at 100,000 edges, 128 channels and 256
#: intervals the convolution and its adjoints take 1.05 ms with tables, against 1.6 ms with matrix
#: products, and no array of weights; small systems wait for the host, which has fewer operations to
#: start with tables (v2106, two layers, 7,300 edges: 1.6 against 2.1 ms; 65,000 edges: 2.2, 3.6).
LEAST_EDGES = {"native": 0, "cuda": 0, "metal": None, "reference": None}

#: Largest table in bytes that is used without being asked for: on GPUs it has to stay in the cache
#: beside the features.
LARGEST_TABLE = {"native": 512 * 2**20, "cuda": 32 * 2**20}

#: Backends on which that holds in training too, where the table is made anew at each step.
IN_TRAINING = ("native",)

#: In training, where the table is made anew at each step: edges for each interval and kind of
#: edge from which on that is faster than the network at each edge. By measurement on a CPU with two
#: threads, 728 intervals: 81 ms against 62 at 2,776 edges, 103 against 103 at 4,784.
EDGES_PER_INTERVAL = 6.0


def check_strategy(radial: str) -> Strategy:
    """The strategy itself if it is one.

    Raises:
        ValueError: it is not.
    """
    for strategy in get_args(Strategy):
        if radial == strategy:
            return strategy
    raise ValueError(f"radial is {radial!r}; choose one of {', '.join(get_args(Strategy))}")


def takes_table(
    asked: Strategy, n_rows: int, n_weights: int, n_edges: int, dtype: mx.Dtype, traced: bool
) -> bool:
    """Whether the weights of a layer come from a table.

    Args:
        asked: what the configuration says.
        n_rows: of the table, 6 for each interval and kind of edge.
        n_weights: of the layer.
        n_edges: in this call.
        dtype: of the computation.
        traced: whether the table belongs to this call alone, as in training.
    """
    if asked != "auto":
        return asked == "table"
    backend = _backend()
    least = LEAST_EDGES[backend]
    if least is None or n_edges < least:
        return False
    if n_rows * n_weights * dtype.size > LARGEST_TABLE[backend]:
        return False
    if not traced:
        return True
    return backend in IN_TRAINING and n_edges >= EDGES_PER_INTERVAL * n_rows / 6


def trains_with_tables(asked: Strategy) -> bool:
    """Whether weights can come from tables while parameters are traced, as in training, here."""
    return asked == "table" or (asked == "auto" and _backend() in IN_TRAINING)


def _backend() -> str:
    """The kernels of this machine and device, whatever is asked for in `kernels.use`.

    The results of a potential do not depend on that choice.
    """
    if mx.default_device().type == mx.DeviceType.gpu:
        return "metal" if mx.metal.is_available() else "cuda"
    return "reference" if native.why_not() else "native"
