"""Linear maps between blocks of features, weighted by scalars of each item.

    out[n, k, c] = sum over paths of factor sum_{u, v} y[n, v] W[u, v, c] x[n, k, u]

These are the linear layers and the fully connected products with scalars (species) of equivariant
networks: the components k of an irrep are mapped alike. Without y there is one v, and y = 1.

T = <g, out> is linear in x, y, the weights and g, so every derivative is one of four maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx
from jaxtyping import Float

from . import dispatch, gpu, native
from .gpu.block_linear import block_linear as gpu_block_linear
from .gpu.block_linear import block_linear_refusal as gpu_refusal
from .multilinear_form import Arrays, MultilinearForm


@dataclass(frozen=True)
class LinearPath:
    """A block of x mapped to a block of the output.

    Element (k, u) of a block lies in column ``offset + k * mul + u``.

    Args:
        x_offset: first column of the block of x.
        mul_in: its channels u.
        y_offset: first column of the scalars y; 0 without y.
        n_y: their number; 1 without y.
        w_offset: first weight; W[u, v, c] lies at ``w_offset + (u * n_y + v) * mul_out + c``.
        out_offset: first column of the block of the output.
        mul_out: its channels c.
        d: components k of both blocks.
        factor: normalisation.
    """

    x_offset: int
    mul_in: int
    y_offset: int
    n_y: int
    w_offset: int
    out_offset: int
    mul_out: int
    d: int
    factor: float


@dataclass(frozen=True, eq=False)
class LinearSpec:
    """All paths of a map and the sizes of its arrays.

    Args:
        dim_x: columns of x.
        dim_y: columns of y; 0: there is no y.
        n_weights: length of the flat weights.
        dim_out: columns of the result; those that no path leads to are zero.
        paths: those that share a block see it in the same shape.

    Raises:
        ValueError: a path reaches outside its arrays.
    """

    dim_x: int
    dim_y: int
    n_weights: int
    dim_out: int
    paths: tuple[LinearPath, ...]
    caches: dict = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for p in self.paths:
            ends = {
                "x": (p.x_offset + p.d * p.mul_in, self.dim_x),
                "y": (p.y_offset + p.n_y, max(self.dim_y, 1)),
                "weights": (p.w_offset + p.mul_in * p.n_y * p.mul_out, self.n_weights),
                "out": (p.out_offset + p.d * p.mul_out, self.dim_out),
            }
            for name, (end, size) in ends.items():
                if end > size:
                    raise ValueError(f"{p} ends at {end} of {name}, which has {size} columns")

    def __getstate__(self) -> dict:
        """Copies and pickles make their own caches: plans cannot be copied."""
        return self.__dict__ | {"caches": {}}


class _Reference:
    """Values in plain MLX."""

    def __init__(self, spec: LinearSpec) -> None:
        self.spec = spec

    def out(self, a: Arrays) -> mx.array:
        blocks: dict[int, mx.array] = {}
        for p in self.spec.paths:
            t = self._x(p, a["x"]) @ self._matrix(p, a["w"])
            blocks[p.out_offset] = self._over_y(p, a, t) + blocks.get(p.out_offset, 0.0)
        return _joined(blocks, self.spec.dim_out, a["x"])

    def x(self, a: Arrays) -> mx.array:
        blocks: dict[int, mx.array] = {}
        for p in self.spec.paths:
            t = self._spread(p, a) @ self._matrix(p, a["w"]).T
            blocks[p.x_offset] = t + blocks.get(p.x_offset, 0.0)
        return _joined(blocks, self.spec.dim_x, a["out"])

    def w(self, a: Arrays) -> mx.array:
        blocks: dict[int, mx.array] = {}
        for p in self.spec.paths:
            x = self._x(p, a["x"]).reshape(-1, p.mul_in)
            g = self._spread(p, a).reshape(-1, p.n_y * p.mul_out)
            blocks[p.w_offset] = (p.factor * (x.T @ g)).reshape(1, 1, -1)
        like = mx.zeros((1, 1), dtype=a["x"].dtype)
        return _joined(blocks, self.spec.n_weights, like).reshape(-1)

    def y(self, a: Arrays) -> mx.array:
        blocks: dict[int, mx.array] = {}
        for p in self.spec.paths:
            t = self._x(p, a["x"]) @ self._matrix(p, a["w"])
            t = t.reshape(-1, p.d, p.n_y, p.mul_out) * self._out(p, a["out"])[:, :, None, :]
            blocks[p.y_offset] = t.sum(axis=(1, 3))[:, None, :] + blocks.get(p.y_offset, 0.0)
        return _joined(blocks, self.spec.dim_y, a["x"])

    @staticmethod
    def _x(p: LinearPath, x: mx.array) -> mx.array:
        return x[:, p.x_offset : p.x_offset + p.d * p.mul_in].reshape(-1, p.d, p.mul_in)

    @staticmethod
    def _out(p: LinearPath, g: mx.array) -> mx.array:
        return g[:, p.out_offset : p.out_offset + p.d * p.mul_out].reshape(-1, p.d, p.mul_out)

    @staticmethod
    def _matrix(p: LinearPath, w: mx.array) -> mx.array:
        size = p.mul_in * p.n_y * p.mul_out
        return p.factor * w[p.w_offset : p.w_offset + size].reshape(p.mul_in, -1)

    def _y(self, p: LinearPath, a: Arrays) -> mx.array:
        return a["y"][:, None, p.y_offset : p.y_offset + p.n_y, None]

    def _over_y(self, p: LinearPath, a: Arrays, t: mx.array) -> mx.array:
        """(n, d, n_y mul_out) -> (n, d, mul_out)."""
        if not self.spec.dim_y:
            return t
        return (t.reshape(-1, p.d, p.n_y, p.mul_out) * self._y(p, a)).sum(axis=2)

    def _spread(self, p: LinearPath, a: Arrays) -> mx.array:
        """(n, d, n_y mul_out): the transpose of `_over_y` on the block of g."""
        g = self._out(p, a["out"])
        if not self.spec.dim_y:
            return g
        return (g[:, :, None, :] * self._y(p, a)).reshape(-1, p.d, p.n_y * p.mul_out)


def _joined(blocks: dict[int, mx.array], width: int, like: mx.array) -> mx.array:
    """(n, width) from blocks by their first column; zero where there is none."""
    n, at, parts = like.shape[0], 0, []
    for offset, block in sorted(blocks.items()):
        if offset > at:
            parts.append(mx.zeros((n, offset - at), dtype=like.dtype))
        parts.append(block.reshape(n, -1))
        at = offset + parts[-1].shape[1]
    if at < width:
        parts.append(mx.zeros((n, width - at), dtype=like.dtype))
    return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=1)


def block_linear_pays(spec: LinearSpec, *arrays: mx.array) -> bool:
    """Whether a kernel takes these arrays; in plain MLX layers have faster ways of their own.

    Args:
        spec: the map.
        arrays: x, y if there is one, and the weights.
    """
    return (
        dispatch.choose("block_linear", _offers(spec, "out", arrays[0].shape[0], arrays))
        != "reference"
    )


def _offers(spec: LinearSpec, target: str, n: int, arrays: Sequence[mx.array]):
    """Backends for these arrays, fastest first."""
    return (
        *gpu.offers(lambda: gpu_refusal(spec, target, n, arrays)),
        ("native", lambda: native.refusal(*arrays)),
    )


def _form(spec: LinearSpec) -> MultilinearForm:
    if "form" in spec.caches:
        return spec.caches["form"]
    reference = _Reference(spec)
    roles = ("x", "y", "w", "out") if spec.dim_y else ("x", "w", "out")

    def evaluate(targets: tuple[str, ...], a: Arrays, _index: Sequence[mx.array]):
        (target,) = targets
        n = a["out" if target == "x" else "x"].shape[0]
        offers = _offers(spec, target, n, [a[role] for role in roles if role in a])
        backend = dispatch.choose(f"block_linear.{target}", offers)
        if backend == "native":
            return [native.block_linear(spec, target, a)]
        if backend in gpu.DIALECTS:
            return [gpu_block_linear(spec, target, a)]
        return [getattr(reference, target)(a)]

    spec.caches["form"] = MultilinearForm(roles, evaluate)
    return spec.caches["form"]


def block_linear(
    spec: LinearSpec,
    x: Float[mx.array, "n _"],
    y: Float[mx.array, "n _"] | None,
    w: Float[mx.array, " _"],
) -> Float[mx.array, "n dim_out"]:
    """The map of a specification, with every derivative to x, y and the weights.

    Args:
        spec: the paths.
        x: (n, dim_x), each block component-major.
        y: (n, dim_y) scalars; None if the specification has none.
        w: (n_weights,) flat weights.

    Returns:
        (n, dim_out).

    Raises:
        ValueError: an array does not have the width that the specification names.
    """
    widths = {"x": (x.shape[-1], spec.dim_x), "w": (w.shape[-1], spec.n_weights)}
    widths["y"] = (0 if y is None else y.shape[-1], spec.dim_y)
    for name, (width, wanted) in widths.items():
        if width != wanted:
            raise ValueError(f"{name} has {width} columns, the linear map needs {wanted}")
    if x.shape[0] == 0 or not spec.paths:
        return mx.zeros((x.shape[0], spec.dim_out), dtype=x.dtype)
    arrays = {"x": x, "w": w} if y is None else {"x": x, "y": y, "w": w}
    return _form(spec).gradient("out", arrays)
