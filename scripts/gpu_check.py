"""Compares every small GPU kernel with float64 on the CPU, on the GPU at hand, and times it.

    python scripts/gpu_check.py [--json report.json] [--only silu] [--compilers]

For Apple's and NVIDIA's GPUs. Exit code 1 if anything differs. ``--compilers`` compares with
kernels that MLX compiles, on NVIDIA's GPUs: the bits have to be the same; it takes seconds for each
kernel. On a Mac, please send the report: the Metal kernels have run in an emulator only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import mlx.core as mx
import numpy as np

import mlpot
from mlpot import kernels
from mlpot.kernels import gpu
from mlpot.kernels.gpu import compilation
from mlpot.o3.solid_harmonics import solid_harmonics

REPEATS = 9
QUEUED = 20
N_ATOMS, N_EDGES = 2_000, 100_000


@dataclass(frozen=True)
class Case:
    """A function of arrays that kernels take part in.

    Args:
        name: in the report.
        function: computes the result; runs with kernels, without, and in float64.
        arrays: its floating-point arguments.
        tolerance: largest error divided by the largest number of the result.
        timed: whether it is timed.
    """

    name: str
    function: Callable[..., mx.array]
    arrays: list[mx.array]
    tolerance: float = 2e-6
    timed: bool = True


def normal(*shape: int) -> mx.array:
    rng = np.random.default_rng(list(shape))
    return mx.array(rng.normal(size=shape).astype(np.float32))


def edge_index() -> kernels.EdgeIndex:
    rng = np.random.default_rng(0)
    receivers = np.sort(rng.integers(0, N_ATOMS, N_EDGES))
    return kernels.EdgeIndex.from_pairs(rng.integers(0, N_ATOMS, N_EDGES), receivers, N_ATOMS)


def nth_derivative(function: Callable, order: int) -> Callable:
    for _ in range(order):
        function = lambda x, f=function: mx.grad(lambda q: f(q).sum())(x)  # noqa: E731
    return function


def activation_cases() -> list[Case]:
    x = normal(N_EDGES, 64)
    return [
        Case(f"{name}, order {order}", nth_derivative(getattr(kernels, name), order), [x])
        for name in ("silu", "sigmoid", "tanh")
        for order in range(5)
    ]


def segment_cases() -> list[Case]:
    edges = edge_index()
    cases = []
    for width in (1, 3, 64):
        rows, nodes = normal(N_EDGES, width), normal(N_ATOMS, width)
        index = {"receivers": edges.receivers, "senders": edges.senders}
        order = {"receivers": edges.by_receiver, "senders": edges.by_sender}
        for ends in ("receivers", "senders"):
            cases += [
                Case(
                    f"gather by {ends}, {width} columns",
                    lambda x, i=index[ends]: kernels.gather(x, i),
                    [nodes],
                    0.0,
                ),
                Case(
                    f"sum by {ends}, {width} columns",
                    lambda x, i=index[ends], o=order[ends]: kernels.segment_sum(x, i, N_ATOMS, o),
                    [rows],
                ),
            ]
        cases.append(
            Case(
                f"sum by senders after a sort, {width} columns",
                lambda x: kernels.segment_sum(x, edges.senders, N_ATOMS),
                [rows],
            )
        )
    for n_graphs in (1, 100):
        graph = mx.array(np.arange(N_EDGES) * n_graphs // N_EDGES)
        cases.append(
            Case(
                f"sum of {N_EDGES} rows over {n_graphs} graphs",
                lambda x, g=graph, n=n_graphs: kernels.segment_sum(x, g, n, kernels.SegmentOrder()),
                [mx.abs(normal(N_EDGES))],
            )
        )
    return cases


def linear_cases() -> list[Case]:
    """Layers of a network: 32 or 128 channels, even and odd, degrees 0 to 2; two species."""
    cases = []
    for n, mul in ((N_ATOMS // 4, 32), (N_ATOMS, 128)):
        blocks = [(1, mul), (1, mul), (3, mul), (3, mul), (5, mul), (5, mul)]
        starts = np.cumsum([0] + [d * m for d, m in blocks]).tolist()
        for n_y in (0, 2):
            size = max(n_y, 1) * mul * mul
            paths = tuple(
                kernels.LinearPath(start, mul, 0, max(n_y, 1), i * size, start, mul, d, mul**-0.5)
                for i, (start, (d, _)) in enumerate(zip(starts, blocks, strict=False))
            )
            spec = kernels.LinearSpec(starts[-1], n_y, len(paths) * size, starts[-1], paths)
            arrays = [normal(n, starts[-1]), normal(len(paths) * size)]
            arrays += [normal(n, n_y)] if n_y else []

            def layer(x, w, *y, spec=spec):
                return kernels.block_linear(spec, x, y[0] if y else None, w)

            def pulled(x, w, *y, layer=layer):
                return mx.grad(lambda q: (layer(q, w, *y) ** 2).sum())(x)

            def to_weights(x, w, *y, layer=layer):
                return mx.grad(lambda v: (layer(x, v, *y) ** 2).sum())(w)

            name = f"linear map, {n} x {starts[-1]}" + (f", {n_y} species" if n_y else "")
            cases += [
                Case(name, layer, arrays, 5e-6),
                Case(f"{name}, to x", pulled, arrays, 1e-5),
                Case(f"{name}, to weights", to_weights, arrays, 1e-5),
            ]
    return cases


def harmonics_cases() -> list[Case]:
    cases = []
    for lmax in (1, 2, 3, 4, 8, 11):
        x, v = normal(N_EDGES, 3), normal(N_EDGES, 3, 1)[:, :, 0]
        c = normal(N_EDGES, (lmax + 1) ** 2)
        values = lambda q, l=lmax: solid_harmonics(l, q)  # noqa: E731
        pulled = lambda q, c, f=values: mx.vjp(f, [q], [c])[1][0]  # noqa: E731
        cases += [
            Case(f"harmonics to degree {lmax}", values, [x]),
            Case(f"harmonics to degree {lmax}, vjp", pulled, [x, c]),
            Case(
                f"harmonics to degree {lmax}, jvp of vjp",
                lambda q, c, v, f=pulled: mx.jvp(lambda p: f(p, c), [q], [v])[1][0],
                [x, c, v],
            ),
        ]
    return cases


def nesting_cases() -> list[Case]:
    """Reverse over forward, third order, compiled, many at once: on few rows, not timed."""
    index = mx.array(np.random.default_rng(1).integers(0, 7, 40))
    x, v, many = normal(7, 3), normal(7, 3, 2)[:, :, 0], normal(4, 7, 3)

    def energy(q):
        rows = solid_harmonics(3, kernels.gather(q, index))
        return (kernels.segment_sum(kernels.silu(rows), index, 7) ** 2).sum()

    def hvp(q, v):
        return mx.jvp(mx.grad(energy), [q], [v])[1][0]

    def reverse_over_forward(q, v):
        return mx.grad(lambda p: mx.jvp(energy, [p], [v])[1][0])(q)

    def third(q, v):
        return mx.grad(lambda p: (hvp(p, v) * v).sum())(q)

    return [
        Case("gradient", mx.grad(energy), [x], 2e-5, False),
        Case("forward over reverse", hvp, [x, v], 2e-5, False),
        Case("reverse over forward", reverse_over_forward, [x, v], 2e-5, False),
        Case("third derivative", third, [x, v], 2e-5, False),
        Case("compiled", mx.compile(hvp), [x, v], 2e-5, False),
        Case("many", lambda q, m: kernels.each(lambda v: hvp(q, v))(m), [x, many], 2e-5, False),
    ]


def in_float64(case: Case) -> np.ndarray:
    with mx.stream(mx.cpu), kernels.use("reference"):
        arrays = [mx.array(np.array(a), dtype=mx.float64) for a in case.arrays]
        return np.array(case.function(*arrays))


def milliseconds(function: Callable[[], mx.array]) -> float:
    """Median of one call, many of them queued, so that asking and waiting do not count."""
    mx.eval(function())
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        mx.eval([function() for _ in range(QUEUED)])
        times.append((time.perf_counter() - start) / QUEUED)
    return 1e3 * statistics.median(times)


@dataclass(frozen=True)
class Result:
    """A row of the report; times in ms, None where it is not timed."""

    name: str
    error: float
    is_right: bool
    same_bits: bool
    compilers_agree: bool | None
    ran_on: str
    kernel_ms: float | None
    plain_ms: float | None


def run(case: Case, compilers: bool) -> Result:
    kernels.clear_report()
    with kernels.forced(True):
        found, again = (np.array(case.function(*case.arrays)) for _ in range(2))
    ran_on = ", ".join(sorted({choice.backend for choice in kernels.report()}))
    wanted = in_float64(case)
    error = float(np.abs(found - wanted).max() / (np.abs(wanted).max() or 1.0))
    kernel_ms = plain_ms = None
    if case.timed:
        with kernels.forced(True):
            kernel_ms = milliseconds(lambda: case.function(*case.arrays))
        with kernels.use("reference"):
            plain_ms = milliseconds(lambda: case.function(*case.arrays))
    same_bits = found.tobytes() == again.tobytes()
    agree = found.tobytes() == compiled_by_mlx(case).tobytes() if compilers else None
    is_right = error <= case.tolerance
    return Result(case.name, error, is_right, same_bits, agree, ran_on, kernel_ms, plain_ms)


def compiled_by_mlx(case: Case) -> np.ndarray:
    os.environ["MLPOT_NVRTC"] = "0"
    try:
        with kernels.forced(True):
            return np.array(case.function(*case.arrays))
    finally:
        del os.environ["MLPOT_NVRTC"]


def is_well(result: Result) -> bool:
    return result.is_right and result.same_bits and result.compilers_agree is not False


def row(result: Result) -> str:
    text = f"{result.name:44s} {result.error:9.1e} "
    text += "ok   " if is_well(result) else "WRONG"
    text += "" if result.same_bits else " not the same bits in two runs"
    text += " MLX's compilation gives others" if result.compilers_agree is False else ""
    if result.kernel_ms is not None and result.plain_ms is not None:
        text += f" {result.kernel_ms:9.4f} {result.plain_ms:9.4f}"
        text += f" {result.plain_ms / result.kernel_ms:7.2f}"
    return f"{text}  {result.ran_on}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the report to this file too")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--compilers", action="store_true", help="compare with MLX's compilation")
    options = parser.parse_args()
    refused = gpu.device_refusal()
    if refused:
        print(f"nothing to check: {refused}", file=sys.stderr)
        return 1
    device = mx.device_info(mx.gpu).get("device_name", "GPU")
    print(f"mlpot {mlpot.__version__}, MLX {mx.__version__}, {device}, {gpu.running_dialect()}")
    print(f"{N_EDGES} edges, {N_ATOMS} atoms; ms a call, {QUEUED} queued, median of {REPEATS}\n")
    print(f"{'':44s} {'error':>9s}       {'kernel':>9s} {'plain':>9s} {'ratio':>7s}")
    cases = [
        *activation_cases(),
        *segment_cases(),
        *linear_cases(),
        *harmonics_cases(),
        *nesting_cases(),
    ]
    results = []
    for case in cases:
        if options.only in case.name:
            results.append(run(case, options.compilers))
            print(row(results[-1]), flush=True)
    status = compilation.status()
    print(
        f"\nCUDA kernels: {status.compiled} compiled in {status.seconds:.1f} s, "
        f"{status.from_disk} from disk. {status.reason}"
    )
    if options.json:
        report = {"device": device, "cuda": asdict(status), "results": [asdict(r) for r in results]}
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    wrong = [r.name for r in results if not is_well(r)]
    print(
        f"\n{len(results) - len(wrong)} of {len(results)} right" + "".join(f"; {w}" for w in wrong)
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
