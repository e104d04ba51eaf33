"""The Bessel functions of distances by one kernel for each derivative on GPUs.

In plain MLX the functions take thirty operations and their second derivatives a hundred: in the
training of small systems a third of all launches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import mlx.core as mx
from jaxtyping import Float

from . import dispatch, gpu
from .bessel_spec import BesselSpec
from .row_map import RowMap

#: Highest derivative that has kernels.
LARGEST_ORDER = gpu.LARGEST_ORDER

Plain = Callable[[mx.array], mx.array]


def bessel_basis(
    spec: BesselSpec, length: Float[mx.array, " n_edges"], plain: Plain
) -> Float[mx.array, "n_edges n"]:
    """All functions of all distances, with every derivative.

    Args:
        spec: the functions.
        length: (n_edges,) distances.
        plain: the same in plain MLX, with every derivative; always the same function for a spec.

    Returns:
        (n_edges, n); zeros from the cutoff on.
    """
    offers = gpu.offers(lambda: gpu.bessel_refusal(0, length))
    if dispatch.choose("bessel", offers) not in gpu.DIALECTS:
        return plain(length)
    if "map" not in spec.caches:
        spec.caches["map"] = RowMap(
            partial(_values, spec, plain, "out"),
            partial(_values, spec, plain, "adjoint"),
            LARGEST_ORDER,
        )
    return spec.caches["map"](length)


def _values(
    spec: BesselSpec,
    plain: Plain,
    kind: str,
    order: int,
    arrays: Sequence[mx.array],
    _index: Sequence[mx.array],
) -> mx.array:
    if order > LARGEST_ORDER:
        return _plain(plain, kind, order, arrays)  # beyond the rules
    offers = gpu.offers(lambda: gpu.bessel_refusal(order, *arrays))
    if dispatch.choose(f"bessel.{kind}{order}", offers) in gpu.DIALECTS:
        return gpu.bessel_basis(spec, kind, order, arrays)
    return _plain(plain, kind, order, arrays)


def _plain(plain: Plain, kind: str, order: int, arrays: Sequence[mx.array]) -> mx.array:
    x, *others = arrays

    def derivative(k: int) -> Plain:
        if k == 0:
            return plain
        lower = derivative(k - 1)
        return lambda r: mx.jvp(lower, [r], [mx.ones_like(r)])[1][0]

    values = derivative(order)(x)
    if kind == "out":
        for direction in others:
            values = values * direction[:, None]
        return values
    g, *directions = others
    return math.prod(directions, start=mx.sum(g * values, axis=1))
