"""The fused convolution: gather, uvu tensor product with the edge harmonics, weights, sum.

With g the cotangent of the result, T(x, y, w, g) = <g, out> is linear in each argument, so every
derivative of any order is one of four maps, written here as each other's rules:

    conv(x, y, w) -> out      conv_x(y, w, g)      conv_y(x, w, g)      conv_w(x, y, g)
"""

from __future__ import annotations

import mlx.core as mx
from jaxtyping import Float

from . import dispatch, native
from .convolution_reference import Plan
from .convolution_spec import ConvolutionPath, ConvolutionSpec
from .edges import EdgeIndex
from .primitive import multilinear

__all__ = ["ConvolutionPath", "ConvolutionSpec", "convolution"]


def _family(spec: ConvolutionSpec) -> dict:
    """The four maps of a specification, each differentiable in terms of the four."""
    if "family" in spec.caches:
        return spec.caches["family"]
    plan = Plan(spec)
    maps: dict = {}

    def values(name: str):
        def evaluate(a, b, c, *index):
            edges = EdgeIndex(*index)
            offers = (("native", lambda: native.refusal(a, b, c)),)
            if dispatch.choose(f"convolution.{name}", offers) == "native":
                return native.convolution(spec, name, (a, b, c), edges)[0]
            return getattr(plan, name)(a, b, c, edges)

        return evaluate

    # Argument orders: conv (x, y, w), conv_x (g, y, w), conv_y (x, g, w), conv_w (x, y, g):
    # the cotangent takes the place of the argument that it belongs to. The adjoint of conv_x to
    # y is then conv_y with x replaced by the cotangent of conv_x, and so on.
    maps["conv"] = multilinear(
        values("conv"), [lambda: maps["x"], lambda: maps["y"], lambda: maps["w"]]
    )
    maps["x"] = multilinear(
        lambda g, y, w, *i: values("conv_x")(y, w, g, *i),
        [
            lambda: maps["conv"],
            lambda: lambda g, c, w, *i: maps["y"](c, g, w, *i),
            lambda: lambda g, y, c, *i: maps["w"](c, y, g, *i),
        ],
    )
    maps["y"] = multilinear(
        lambda x, g, w, *i: values("conv_y")(x, w, g, *i),
        [
            lambda: lambda c, g, w, *i: maps["x"](g, c, w, *i),
            lambda: maps["conv"],
            lambda: lambda x, g, c, *i: maps["w"](x, c, g, *i),
        ],
    )
    maps["w"] = multilinear(
        values("conv_w"),
        [
            lambda: lambda c, y, g, *i: maps["x"](g, y, c, *i),
            lambda: lambda x, c, g, *i: maps["y"](x, g, c, *i),
            lambda: maps["conv"],
        ],
    )
    spec.caches["family"] = maps
    return maps


def convolution(
    spec: ConvolutionSpec,
    x: Float[mx.array, "n_nodes dim_x"],
    y: Float[mx.array, "n_edges dim_y"],
    w: Float[mx.array, "n_edges n_weights"],
    edges: EdgeIndex,
) -> Float[mx.array, "n_nodes dim_out"]:
    """Sum over incoming edges of the weighted uvu product of sender features and harmonics.

        out[n, k, c] = sum_{e into n} sum_{p, i, j} C_p[i, j, k] w[e, p, c] x[s(e), i, c] y[e, j]

    Args:
        spec: the paths.
        x: (n_nodes, dim_x) component-major node features.
        y: (n_edges, dim_y) edge harmonics.
        w: (n_edges, n_weights) weights of each edge.
        edges: edge list sorted by receiver.

    Returns:
        (n_nodes, dim_out) component-major.

    Raises:
        ValueError: an array does not have the width that the specification names.
    """
    wanted = {"x": (x, spec.dim_x), "y": (y, spec.dim_y), "w": (w, spec.n_weights)}
    for name, (array, width) in wanted.items():
        if array.shape[1] != width:
            raise ValueError(f"{name} has {array.shape[1]} columns, the convolution needs {width}")
    if edges.n_edges == 0 or not spec.paths:
        return mx.zeros((x.shape[0], spec.dim_out), dtype=x.dtype)
    index = edges.arrays().values()
    return _family(spec)["conv"](x, y, w, *index)
