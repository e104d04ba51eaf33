"""Times the kernels of the fused convolution on the GPU at hand, one by one, and checks them.

    python evals/convolution_gpu.py --out evals/results/convolution-gpu.json [--small]

Times are differences between 12 and 4 calls queued together, so what the host does once does not
count. Each kernel is checked by <g, out> = <dT/da, a> for each argument a of the form T. Beside a
time stands what its bytes take, each array read or written once at the speed of a copy.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import mlpot  # isort: skip  (before MLX, so that TF32 is off from the start)
import mlx.core as mx
import numpy as np

from mlpot import kernels, o3
from mlpot.kernels import ConvolutionPath, ConvolutionSpec, EdgeIndex, gpu

#: nodes, edges of each, channels, lmax
CASES = ((2000, 50, 128, 1), (2000, 50, 128, 2), (2000, 50, 64, 3), (20_000, 50, 64, 2))
SMALL = ((20, 5, 8, 1),)
INTERVALS = 152
COEFFICIENTS = 6
FEW, MANY, REPEATS = 4, 12, 3


@dataclass(frozen=True)
class Row:
    """A time.

    Args:
        case: what was computed on.
        kernel: gradients of T that were computed.
        ms: a call.
        floor_ms: its bytes at the speed of a copy.
        worst: largest relative error of the identities.
        first_s: the first call, compilation included.
    """

    case: str
    kernel: str
    ms: float
    floor_ms: float
    worst: float
    first_s: float


def specification(channels: int, lmax: int) -> ConvolutionSpec:
    """All paths of even total degree between natural parities up to lmax."""
    paths, width = [], 0
    out = 0
    for l1 in range(lmax + 1):
        for l2 in range(lmax + 1):
            for l3 in range(abs(l1 - l2), min(lmax, l1 + l2) + 1):
                if (l1 + l2 + l3) % 2:
                    continue
                d1, d2, d3 = 2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1
                coupling = o3.wigner_3j_numpy(l1, l2, l3) * math.sqrt(d3)
                block = (l1 * l1 * channels, channels, d1, l2 * l2, d2)
                paths.append(ConvolutionPath(*block, width, out, channels, d3, channels, coupling))
                width, out = width + channels, out + channels * d3
    dim = (lmax + 1) ** 2
    return ConvolutionSpec(dim * channels, dim, width, out, tuple(paths))


def seconds(function: Callable[[], list[mx.array]]) -> float:
    """Of one call among many that are queued together."""

    def queue(n: int) -> float:
        start = time.perf_counter()
        mx.eval([function() for _ in range(n)])
        mx.synchronize()
        return time.perf_counter() - start

    queue(FEW)
    queue(MANY)
    return float(np.median([(queue(MANY) - queue(FEW)) / (MANY - FEW) for _ in range(REPEATS)]))


class Bench:
    """Arrays of a case, and what is measured on them."""

    def __init__(self, case: tuple[int, int, int, int]) -> None:
        nodes, degree, channels, lmax = case
        self.label = f"N={nodes} E={nodes * degree} C={channels} l<={lmax}"
        self.spec, edges = specification(channels, lmax), nodes * degree
        rng = np.random.default_rng(0)
        receivers = np.repeat(np.arange(nodes), degree)
        self.edges = EdgeIndex.from_pairs(rng.integers(0, nodes, edges), receivers, nodes)
        n_rows = COEFFICIENTS * INTERVALS
        shapes = {
            "x": (nodes, self.spec.dim_x),
            "y": (edges, self.spec.dim_y),
            "w": (edges, self.spec.n_weights),
            "h": (edges, COEFFICIENTS),
            "table": (n_rows, self.spec.n_weights),
            "out": (nodes, self.spec.dim_out),
        }
        self.arrays = {k: mx.random.normal(shape) for k, shape in shapes.items()}
        # Lengths of edges lie dense at the cutoff: so do intervals at the end.
        interval = (INTERVALS * rng.beta(3.0, 1.2, edges)).astype(int).clip(0, INTERVALS - 1)
        self.rows = mx.array((COEFFICIENTS * interval).astype(np.int32))
        mx.eval(self.arrays, self.rows)

    def bytes_of(self, targets: tuple[str, ...], roles: tuple[str, ...]) -> int:
        """Read and written once."""
        used = {r for r in roles if len(targets) > 1 or r not in targets} | set(targets)
        size = sum(self.arrays[r].nbytes * (1 + (r in targets and len(targets) > 1)) for r in used)
        return size + 2 * self.arrays["y"].shape[0] * 4

    def measure(self, targets: tuple[str, ...], radial: bool, bytes_a_second: float) -> Row:
        """Time and check some gradients."""
        roles = ("x", "y", "h", "table", "out") if radial else ("x", "y", "w", "out")
        given = {r: self.arrays[r] for r in roles if len(targets) > 1 or r not in targets}

        def call() -> list[mx.array]:
            if not radial:
                return gpu.convolution(self.spec, targets, given, self.edges)
            sizes = (COEFFICIENTS, self.arrays["table"].shape[0])
            return gpu.radial_convolution(self.spec, targets, given, self.edges, self.rows, *sizes)

        start = time.perf_counter()
        mx.eval(call())
        first = time.perf_counter() - start
        value = self.form(radial)
        found = zip(targets, call(), strict=True)
        errors = [abs(float((a * self.arrays[t]).sum()) / value - 1.0) for t, a in found]
        floor = self.bytes_of(targets, roles) / bytes_a_second
        name = ("radial " if radial else "") + "_".join(targets)
        return Row(self.label, name, 1e3 * seconds(call), 1e3 * floor, max(errors), first)

    def form(self, radial: bool) -> float:
        """T, from the forward map."""
        a = self.arrays
        w = kernels.edge_weights(a["h"], a["table"], self.rows) if radial else a["w"]
        return float(
            (kernels.convolution(self.spec, a["x"], a["y"], w, self.edges) * a["out"]).sum()
        )


def copy_speed(n: int) -> float:
    """Bytes read and written a second by a large elementwise operation."""
    a = mx.random.normal((n,))
    mx.eval(a)
    return 2 * a.nbytes / seconds(lambda: [a + 1.0])


def main() -> None:
    """Measure every case and write the report."""
    parser = argparse.ArgumentParser(description="Times the GPU kernels of the convolution.")
    parser.add_argument("--out", type=Path, help="write the report to this file")
    parser.add_argument("--small", action="store_true", help="a tiny case only")
    arguments = parser.parse_args()
    refused = gpu.device_refusal()
    if refused:
        raise SystemExit(f"evals/convolution_gpu.py needs a GPU: {refused}")
    speed = copy_speed(10**4 if arguments.small else 10**8)
    print(f"mlpot {mlpot.__version__}, copy {speed / 1e12:.2f} TB/s")
    report = []
    for case in SMALL if arguments.small else CASES:
        bench = Bench(case)
        for radial, wanted in (
            (False, [("out",), ("x",), ("y", "w"), ("x", "y", "w")]),
            (True, [("out",), ("x", "y", "h"), ("table",)] if case[1] * case[0] < 10**6 else []),
        ):
            for targets in wanted:
                row = bench.measure(targets, radial, speed)
                report.append(asdict(row))
                print(
                    f"{row.case:32} {row.kernel:14} {row.ms:8.4f} ms, bytes alone "
                    f"{row.floor_ms:7.4f}, error {row.worst:.1e}, first {row.first_s:.1f} s",
                    flush=True,
                )
    if arguments.out:
        arguments.out.write_text(json.dumps({"copy": speed, "rows": report}, indent=1) + "\n")


if __name__ == "__main__":
    main()
