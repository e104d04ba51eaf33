"""The fused convolution of cuEquivariance on torch: one polynomial with indexed operands."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

warnings.filterwarnings("ignore")

import cuequivariance as cue  # noqa: E402
import cuequivariance_torch as cuet  # noqa: E402
import torch  # noqa: E402
from e3nn import o3  # noqa: E402

from . import e3nn_operations, for_e3nn, torch_worker  # noqa: E402
from .cases import Case  # noqa: E402
from .jobs import Job  # noqa: E402
from .random_numbers import normal  # noqa: E402
from .torch_worker import paths, peak, release  # noqa: E402, F401


def start(name: str) -> dict[str, str]:
    """Versions; its CUDA kernels have a package of their own."""
    if os.environ["BENCHMARK_DEVICE"] == "gpu":
        import cuequivariance_ops_torch  # noqa: F401
    return for_e3nn.start(name) | {"cuequivariance": version("cuequivariance")}


def prepare(case: Case, phase: str, arrays: dict[str, np.ndarray], compiled: bool) -> Job:
    """The job of a case."""
    assert not compiled
    device, settings = torch_worker.device(), case.settings
    product = e3nn_operations.uvu(settings)
    method = "uniform_1d" if device.type == "cuda" else "naive"
    module = cuet.SegmentedPolynomial(polynomial(product), method=method).to(device)
    ends = {k: torch.tensor(arrays[k], device=device) for k in ("senders", "receivers")}
    if method == "naive":
        ends = {k: a.long() for k, a in ends.items()}
    shape = torch.empty(settings["n"], product.irreps_out.dim, device=device)

    def function(x, y, weight):
        return module(
            [weight, x, y], input_indices={1: ends["senders"]},
            output_shapes={0: shape}, output_indices={0: ends["receivers"]},
        )[0]  # fmt: skip

    weight = normal(case.seed, "weight", (settings["edges"], product.weight_numel))
    layouts = {"x": product.irreps_in1, "out": product.irreps_out}
    numbers = {
        "x": component_major(arrays["x"], product.irreps_in1),
        "y": arrays["y"],
        "weight": weight,
    }
    inputs = {k: torch.tensor(a, device=device) for k, a in numbers.items()}
    cotangent = normal(case.seed, "cotangent", (settings["n"], product.irreps_out.dim))
    job = torch_worker.job(
        _phase(phase, function, inputs, component_major(cotangent, layouts["out"]))
    )

    def outputs(found) -> dict[str, np.ndarray]:
        return {
            k: _back(a, layouts.get(k.removeprefix("d_"))) for k, a in job.outputs(found).items()
        }

    return Job(job.begin, job.wait, outputs)


def _phase(phase: str, function: Callable, inputs: dict, cotangent: np.ndarray) -> Callable:
    if phase == "forward":

        def forward():
            with torch.no_grad():
                return {"out": function(*inputs.values())}

        return forward
    given = torch.tensor(cotangent, device=torch_worker.device())
    for x in inputs.values():
        x.requires_grad_()

    def adjoints():
        out = function(*inputs.values())
        gradients = torch.autograd.grad(out, list(inputs.values()), given)
        return {"out": out} | {f"d_{k}": g for k, g in zip(inputs, gradients, strict=True)}

    return adjoints


def polynomial(product: o3.TensorProduct) -> cue.SegmentedPolynomial:
    """The uvu product with one segment for each component: weights, x, y -> out."""
    stp = cue.SegmentedTensorProduct.from_subscripts("u,u,,u")
    places = {}
    for operand, irreps in (
        (1, product.irreps_in1),
        (2, product.irreps_in2),
        (3, product.irreps_out),
    ):
        for i, (mul, ir) in enumerate(irreps):
            shape = () if operand == 2 else (mul,)
            places[operand, i] = [stp.add_segment(operand, shape) for _ in range(ir.dim)]
    for ins in product.instructions:
        a, b, c = (irreps[i].ir for irreps, i in (
            (product.irreps_in1, ins.i_in1), (product.irreps_in2, ins.i_in2),
            (product.irreps_out, ins.i_out)))  # fmt: skip
        weight = stp.add_segment(0, (product.irreps_in1[ins.i_in1].mul,))
        coupling = o3.wigner_3j(a.l, b.l, c.l).double().numpy() * math.sqrt(c.dim)
        for i, j, k in zip(*np.nonzero(np.abs(coupling) > 1e-9), strict=True):
            stp.add_path(
                weight, places[1, ins.i_in1][i], places[2, ins.i_in2][j],
                places[3, ins.i_out][k], c=float(coupling[i, j, k]),
            )  # fmt: skip
    return cue.SegmentedPolynomial(
        stp.operands[:3], stp.operands[3:], [(cue.Operation([0, 1, 2, 3]), stp)]
    )


def component_major(x: np.ndarray, irreps: o3.Irreps) -> np.ndarray:
    """From (mul, 2l + 1) to (2l + 1, mul) in each block."""
    return _blocks(x, irreps, lambda mul, ir: (mul, ir.dim))


def _back(x: np.ndarray, irreps: o3.Irreps | None) -> np.ndarray:
    return x if irreps is None else _blocks(x, irreps, lambda mul, ir: (ir.dim, mul))


def _blocks(x: np.ndarray, irreps: o3.Irreps, shape: Callable) -> np.ndarray:
    parts = [
        x[:, part].reshape(len(x), *shape(mul, ir)).swapaxes(1, 2).reshape(len(x), -1)
        for (mul, ir), part in zip(irreps, irreps.slices(), strict=True)
    ]
    return np.concatenate(parts, axis=1)
