"""The fused convolution: gather, uvu tensor product with the edge harmonics, weights, sum.

With g the cotangent of the result, T(x, y, w, g) = <g, out> is linear in each argument, so every
derivative of any order is a gradient of T to one of them:

    conv(x, y, w) -> out      conv_x(y, w, g)      conv_y(x, w, g)      conv_w(x, y, g)

Gradients that are wanted together share a pass over the edges: those to y and w on CPUs, to x, y
and w on GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
from jaxtyping import Float

from . import dispatch, gpu, native
from .convolution_reference import Plan
from .convolution_spec import ConvolutionPath, ConvolutionSpec
from .edges import EdgeIndex, check_array
from .multilinear_form import Arrays, MultilinearForm

__all__ = ["ConvolutionPath", "ConvolutionSpec", "convolution"]

#: Gradients that one evaluation gives, on CPUs and on GPUs.
_JOINT = {"cpu": ("y", "w"), "gpu": ("x", "y", "w")}


def _reference(plan: Plan, target: str, a: Arrays, edges: EdgeIndex) -> mx.array:
    if target == "out":
        return plan.conv(a["x"], a["y"], a["w"], edges)
    if target == "x":
        return plan.conv_x(a["y"], a["w"], a["out"], edges)
    if target == "y":
        return plan.conv_y(a["x"], a["w"], a["out"], edges)
    return plan.conv_w(a["x"], a["y"], a["out"], edges)


def _native(
    spec: ConvolutionSpec, targets: tuple[str, ...], a: Arrays, edges: EdgeIndex
) -> list[mx.array]:
    name = "conv" if targets == ("out",) else "conv_" + "".join(targets)
    given = {**a, "g": a.get("out")}
    return native.convolution(spec, name, [given[r] for r in native.CONVOLUTION_MAPS[name]], edges)


def _form(spec: ConvolutionSpec) -> MultilinearForm:
    """The form T of a specification."""
    device = "cpu" if gpu.device_refusal() else "gpu"
    forms = spec.caches.setdefault("forms", {})
    if device in forms:
        return forms[device]
    plan = Plan(spec)

    def evaluate(targets: tuple[str, ...], a: Arrays, index: Sequence[mx.array]):
        edges = EdgeIndex(*index)
        arrays = a.values()
        offers = (
            *gpu.offers(lambda: gpu.convolution_refusal(spec, edges.n_nodes, *arrays)),
            ("native", lambda: native.refusal(*arrays)),
        )
        name = "conv" if targets == ("out",) else "conv_" + "".join(targets)
        backend = dispatch.choose(f"convolution.{name}", offers)
        if backend in ("cuda", "metal"):
            return gpu.convolution(spec, targets, a, edges)
        if backend == "native":
            return _native(spec, targets, a, edges)
        return [_reference(plan, target, a, edges) for target in targets]

    roles = ("x", "y", "w", "out")
    forms[device] = MultilinearForm(roles, evaluate, [_JOINT[device]], on_edges=("y", "w"))
    return forms[device]


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
        ValueError: an array does not have the width that the specification names, or not one row
            for each node or edge.
    """
    check_array("x", x, edges.n_nodes, "nodes", spec.dim_x)
    check_array("y", y, edges.n_edges, "edges", spec.dim_y)
    check_array("w", w, edges.n_edges, "edges", spec.n_weights)
    if edges.n_edges == 0 or not spec.paths:
        return mx.zeros((x.shape[0], spec.dim_out), dtype=x.dtype)
    index = edges.arrays().values()
    return _form(spec).gradient("out", {"x": x, "y": y, "w": w}, [*index])
