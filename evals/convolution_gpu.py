"""Times the kernels of the fused convolution on the GPU at hand, one by one, and checks them.

    python evals/convolution_gpu.py --out evals/results/convolution-gpu.json [--small]

Times are differences between 12 and 4 calls queued together, whose graphs are built before the
clock starts; what that building takes stands beside them. Each kernel is checked by
<g, out> = <dT/da, a> for each argument a of the form T, and for the same bits in two runs. Beside
a time stands what its bytes take, each array read or written once at the speed of a copy. Several
adjoints are computed in each way that there is: at the senders, at the senders with the receivers
in tiles, by messages.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import mlpot  # isort: skip  (before MLX, so that TF32 is off from the start)
import mlx.core as mx
import numpy as np
from benchmark.environment import this_run

from mlpot import kernels, o3
from mlpot.kernels import ConvolutionPath, ConvolutionSpec, EdgeIndex, gpu

gpu_convolution = importlib.import_module("mlpot.kernels.gpu.convolution")

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
        host_ms: what the host takes to build its graph.
        floor_ms: its bytes at the speed of a copy.
        worst: largest relative error of the identities.
        same_bits: whether a second run gives the same bits.
        first_s: the first call, compilation included.
    """

    case: str
    kernel: str
    ms: float
    host_ms: float
    floor_ms: float
    worst: float
    same_bits: bool
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


def seconds(function: Callable[[], list[mx.array]]) -> tuple[float, float]:
    """Of one call among many that are queued together, on the device and to build its graph."""

    def queue(n: int) -> tuple[float, float]:
        begin = time.perf_counter()
        graphs = [function() for _ in range(n)]
        built = time.perf_counter()
        mx.eval(graphs)
        mx.synchronize()
        return time.perf_counter() - built, built - begin

    queue(FEW)
    queue(MANY)
    pairs = [(queue(MANY), queue(FEW)) for _ in range(REPEATS)]
    differences = [(np.array(many) - np.array(few)) / (MANY - FEW) for many, few in pairs]
    device, host = np.median(differences, axis=0)
    return float(device), float(host)


@contextmanager
def way(name: str, n_nodes: int, row_bytes: int) -> Iterator[None]:
    """Within the block several adjoints are computed so.

    Args:
        name: "" for the way that is chosen by itself, "senders", "messages", or "tiles N".
        n_nodes: number of nodes.
        row_bytes: most bytes of a row of g that a sender gathers at a time.
    """
    limits: dict[str, Any] = {}
    if name == "senders":
        limits = {"GATHERED_BYTES": n_nodes * row_bytes}
    elif name == "messages":
        limits = {"GATHERED_BYTES": 0, "EDGES_IN_TILE": None}
    elif name:
        nodes = -(-n_nodes // int(name.split()[1]))
        limits = {"GATHERED_BYTES": nodes * row_bytes, "EDGES_IN_TILE": 0}
    with ExitStack() as stack:
        for key, value in limits.items():
            stack.enter_context(mock.patch.object(gpu_convolution, key, value))
        yield


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

    def measure(
        self, targets: tuple[str, ...], radial: bool, bytes_a_second: float, how: str = ""
    ) -> Row:
        """Time and check some gradients, several adjoints in a certain `way`."""
        row = gpu_convolution.Run(
            self.spec, mx.float32, {}, self.edges, COEFFICIENTS if radial else 0
        ).gathered_row()
        with way(how, self.edges.n_nodes, row):
            found = self._measure(targets, radial, bytes_a_second)
        return replace(found, kernel=f"{found.kernel}, {how}") if how else found

    def _measure(self, targets: tuple[str, ...], radial: bool, bytes_a_second: float) -> Row:
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
        found, again = call(), call()
        pairs = zip(targets, found, strict=True)
        errors = [abs(float((a * self.arrays[t]).sum()) / value - 1.0) for t, a in pairs]
        same = all(bool(mx.array_equal(a, b)) for a, b in zip(found, again, strict=True))
        del found, again
        floor = self.bytes_of(targets, roles) / bytes_a_second
        name = ("radial " if radial else "") + "_".join(targets)
        device, host = (1e3 * s for s in seconds(call))
        return Row(self.label, name, device, host, 1e3 * floor, max(errors), same, first)

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
    return 2 * a.nbytes / seconds(lambda: [a + 1.0])[0]


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
        plain: list[tuple[tuple[str, ...], str]] = [
            (t, "") for t in (("out",), ("x",), ("y", "w"), ("x", "y", "w"))
        ]
        plain += [(("x", "y", "w"), how) for how in ("senders", "messages", "tiles 3")]
        table = [("out",), ("x", "y", "h"), ("table",), ("x", "y", "h", "table")]
        small = case[1] * case[0] < 10**6
        for radial, wanted in ((False, plain), (True, [(t, "") for t in table] if small else [])):
            for targets, how in wanted:
                row = bench.measure(targets, radial, speed, how)
                report.append(asdict(row))
                print(
                    f"{row.case:32} {row.kernel:22} {row.ms:8.4f} ms, bytes alone "
                    f"{row.floor_ms:7.4f}, to build {row.host_ms:.4f}, error {row.worst:.1e}"
                    f"{'' if row.same_bits else ', OTHER BITS'}, first {row.first_s:.1f} s",
                    flush=True,
                )
    if arguments.out:
        arguments.out.write_text(
            json.dumps({"about": this_run(), "copy": speed, "rows": report}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
