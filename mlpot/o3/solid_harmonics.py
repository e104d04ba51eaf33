"""Real harmonic polynomials of a vector, a primitive closed under differentiation.

The derivative of a harmonic polynomial of degree l is a combination of those of degree l - 1,

    d Y_l / d x_k = G_l[:, k, :] Y_(l-1),    G_l proportional to the 3j symbols (l, 1, l-1),

and Euler's theorem on homogeneous functions gives the values from the same tables,

    Y_l = 1/l sum_k x_k G_l[:, k, :] Y_(l-1).

So the values are a chain of small products, and derivatives of any order are gradients of

    T(y, c, t) = sum_l sum_(m,k,j) G_l[m, k, j] c_l[m] t[k] y_(l-1)[j],

linear in each argument: to t, the pull-back of a cotangent c at the values y; to c, the change of
the values along t; to y, what the next order needs. Polynomials: finite everywhere, zero included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import sqrt

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot.kernels import Constant, dispatch, gpu, native
from mlpot.kernels.gpu.harmonics import HarmonicKernels, harmonics_refusal
from mlpot.kernels.item_product_spec import ItemBlock, ItemPath, ItemProductSpec
from mlpot.kernels.multilinear_form import Arrays, MultilinearForm
from mlpot.kernels.primitive import CustomFunction, as_tuple, fixed

from .wigner3j import wigner_3j_numpy

# Degrees up to this one share one dense table of derivatives: one product instead of several
# small ones. Beyond it the zeros between degrees would cost more than the calls.
_LARGEST_SHARED_DEGREE = 3

# The C++ kernels are offered up to this degree; their tables grow with its fourth power.
_LARGEST_NATIVE_DEGREE = 16

# Entries of a table that are zero but for rounding.
_ZERO = 1e-12


def solid_harmonics(
    lmax: int, x: Float[mx.array, "n_vectors 3"], use_custom_kernel: bool | None = None
) -> Float[mx.array, "n_vectors components"]:
    """Harmonic polynomials of all degrees 0..lmax, in component normalisation.

    |Y_l|^2 = (2l+1) |x|^(2l); order m = -l..l, polar axis y, Y_1 = sqrt(3) (x, y, z).

    Args:
        lmax: largest degree.
        x: (n_vectors, 3).
        use_custom_kernel: None takes kernels where they are faster, True always, False never;
            derivatives keep the choice.

    Returns:
        (n_vectors, (lmax + 1)^2), the components of degree l at l^2..(l+1)^2 - 1.
    """
    return _solid_harmonics(lmax, use_custom_kernel)(x)


@cache
def _solid_harmonics(lmax: int, use: bool | None) -> Callable[[mx.array], mx.array]:
    @CustomFunction
    def function(x):
        x = fixed(x)
        backend = dispatch.choose("harmonics", _offers(lmax, x), use)
        if backend in _GPU:
            return _gpu_kernels(lmax).values(x)
        if backend == "native":
            return _native_values(lmax)(x)
        return _values(lmax, x)

    @function.vjp
    def _(x, cotangent, output):
        (x,), (cotangent,), (output,) = as_tuple(x), as_tuple(cotangent), as_tuple(output)
        if lmax == 0:
            return mx.zeros_like(x)
        return _form(lmax, use).gradient("t", {"y": output, "c": cotangent})

    @function.jvp
    def _(x, tangent):
        (x,), (tangent,) = as_tuple(x), as_tuple(tangent)
        if lmax == 0:
            return mx.zeros((x.shape[0], 1), dtype=x.dtype)
        return _form(lmax, use).gradient("c", {"y": function(x), "t": tangent})

    return function


def _offers(lmax: int, *arrays: mx.array) -> list[tuple[str, dispatch.Check]]:
    """Backends, fastest first."""

    def native_refusal() -> str | None:
        if lmax > _LARGEST_NATIVE_DEGREE:
            return f"harmonics of degree {lmax} (the kernels end at {_LARGEST_NATIVE_DEGREE})"
        return native.refusal(*arrays)

    offers: list[tuple[str, dispatch.Check]] = [
        *gpu.offers(lambda: harmonics_refusal(lmax, *arrays))
    ]
    return [*offers, ("native", native_refusal)]


@cache
def _form(lmax: int, use: bool | None) -> MultilinearForm:
    """T(y, c, t): y and c (n_vectors, components), t (n_vectors, 3)."""

    def evaluate(targets: tuple[str, ...], arrays: Arrays, _index) -> Sequence[mx.array]:
        name = f"harmonics.{''.join(targets)}"
        backend = dispatch.choose(name, _offers(lmax, *arrays.values()), use)
        if backend in _GPU:
            return _gpu_kernels(lmax).gradients(targets, arrays)
        if backend == "native":
            return [_native_gradient(lmax, target, arrays) for target in targets]
        return [_GRADIENTS[target](lmax, arrays) for target in targets]

    return MultilinearForm(["y", "c", "t"], evaluate, joint=[["y", "c", "t"]])


@cache
def _native_values(lmax: int) -> native.HarmonicValues:
    return native.HarmonicValues([_gradient(l) for l in range(1, lmax + 1)])


@cache
def _as_product(lmax: int) -> ItemProductSpec:
    """T as a tensor product of the harmonics below with a vector, whose cotangent is c."""
    vector = ItemBlock(0, 3, 1, 1, 3)
    paths = []
    for l in range(1, lmax + 1):
        below = ItemBlock((l - 1) ** 2, 2 * l - 1, 1, 1, 2 * l - 1)
        own = ItemBlock(l * l, 2 * l + 1, 1, 1, 2 * l + 1)
        table = _gradient(l).transpose(2, 1, 0)
        paths.append(ItemPath(below, vector, own, "uvu", "none", 0, table))
    dim = (lmax + 1) ** 2
    return ItemProductSpec(dim, 3, dim, 0, tuple(paths))


def _native_gradient(lmax: int, target: str, arrays: Arrays) -> mx.array:
    names = {"y": "x", "t": "y", "c": "g"}
    given = [arrays[role] for role in names if role != target]
    return native.item_product(_as_product(lmax), names[target], True, given)


@cache
def _gpu_kernels(lmax: int) -> HarmonicKernels:
    return HarmonicKernels([_gradient(l) for l in range(1, lmax + 1)])


def _values(lmax: int, x: mx.array) -> mx.array:
    # Vectors run along the last axis: products with small tables are then long rows.
    rows = x.T
    values = [mx.ones((1, x.shape[0]), dtype=x.dtype)]
    for l in range(1, lmax + 1):
        terms = rows[:, None, :] * values[-1]
        table = _step(l)(x.dtype)
        values.append(table @ terms.reshape(3 * (2 * l - 1), -1))
    return mx.concatenate(values, axis=0).T


def _lower(lmax: int, y: mx.array) -> list[mx.array]:
    """Rows of y below each group of degrees."""
    # Slices: two equal splits of one array break mx.compile, see kernels/splitting.py.
    return [y.T[(low - 1) ** 2 : high * high] for low, high in _groups(lmax)]


def _contracted(lmax: int, c: mx.array) -> list[mx.array]:
    """sum_m G[m, k, j] c[m] as (3, components below, n_vectors), for each group of degrees."""
    groups = _groups(lmax)
    upper = [c.T[low * low : (high + 1) ** 2] for low, high in groups]
    return [
        (_derivative_table(low, high, False)(c.dtype) @ part).reshape(
            3, high * high - (low - 1) ** 2, -1
        )
        for (low, high), part in zip(groups, upper, strict=True)
    ]


def _to_t(lmax: int, arrays: Arrays) -> mx.array:
    """(n_vectors, 3): derivative of sum(c * Y) from the values of Y."""
    total = None
    for part, below in zip(_contracted(lmax, arrays["c"]), _lower(lmax, arrays["y"]), strict=True):
        term = mx.sum(part * below, axis=1)
        total = term if total is None else total + term
    assert total is not None
    return total.T


def _to_c(lmax: int, arrays: Arrays) -> mx.array:
    """(n_vectors, components): change of Y along t from the values of Y."""
    y, t = arrays["y"], arrays["t"]
    rows = t.T[:, None, :]
    parts = [mx.zeros((1, y.shape[0]), dtype=y.dtype)]
    for (low, high), below in zip(_groups(lmax), _lower(lmax, y), strict=True):
        table = _derivative_table(low, high, True)(y.dtype)
        parts.append(table @ (rows * below).reshape(table.shape[1], -1))
    return mx.concatenate(parts, axis=0).T


def _to_y(lmax: int, arrays: Arrays) -> mx.array:
    """(n_vectors, components); nothing depends on those of the largest degree."""
    c, t = arrays["c"], arrays["t"]
    rows = t.T[:, None, :]
    parts = [mx.sum(part * rows, axis=0) for part in _contracted(lmax, c)]
    parts.append(mx.zeros((2 * lmax + 1, c.shape[0]), dtype=c.dtype))
    return mx.concatenate(parts, axis=0).T


_GRADIENTS = {"y": _to_y, "c": _to_c, "t": _to_t}
_GPU = gpu.DIALECTS


def _groups(lmax: int) -> list[tuple[int, int]]:
    """Ranges of degrees (first, last) that share a table of derivatives."""
    shared = min(lmax, _LARGEST_SHARED_DEGREE)
    return [(1, shared), *((l, l) for l in range(shared + 1, lmax + 1))]


@cache
def _gradient(l: int) -> np.ndarray:
    """(2l+1, 3, 2l-1) table G_l, scaled to the values sqrt(2l+1) at the pole (0, 1, 0)."""
    symbols = wigner_3j_numpy(l, 1, l - 1)
    symbols = np.where(np.abs(symbols) < _ZERO, 0.0, symbols)
    return symbols * (l * sqrt((2 * l + 1) / (2 * l - 1)) / symbols[l, 1, l - 1])


@cache
def _step(l: int) -> Constant:
    return Constant(_gradient(l).reshape(2 * l + 1, -1) / l)


@cache
def _derivative_table(low: int, high: int, forward: bool) -> Constant:
    """G of degrees low..high as (components, 3 lower components), transposed if not forward."""
    n_lower = high * high - (low - 1) ** 2
    table = np.zeros(((high + 1) ** 2 - low * low, 3, n_lower))
    for l in range(low, high + 1):
        rows = slice(l * l - low * low, (l + 1) ** 2 - low * low)
        columns = slice((l - 1) ** 2 - (low - 1) ** 2, l * l - (low - 1) ** 2)
        table[rows, :, columns] = _gradient(l)
    table = table.reshape(table.shape[0], -1)
    return Constant(table if forward else np.ascontiguousarray(table.T))
