"""Times energy and forces and Hessian-vector products of v2106, built anew and replayed.

    python evals/replayed_device.py --out replayed.json

One random structure of 0.1 atoms a cubic Angstrom, a cutoff of 3.5 Angstrom (14 neighbours), 32
channels, two layers, l <= 2, edge weights from tables or from the radial networks. *waiting*: each
call is waited for; *queued*: twenty calls are, as in dynamics.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import mlpot  # isort: skip  (before MLX, so that TF32 is off from the start)
import mlx.core as mx
import numpy as np
from benchmark.environment import this_run
from mlx.utils import tree_map

from mlpot import graph, models
from mlpot.kernels.replay import Replayed

Arrays = dict[str, mx.array]


def waiting(call: Callable[[], Arrays], n: int) -> float:
    """Median of the times of single calls, ms."""
    times = []
    for _ in range(n):
        begun = time.perf_counter()
        mx.eval(call())
        times.append(1e3 * (time.perf_counter() - begun))
    return statistics.median(times)


def queued(call: Callable[[], Arrays], n: int = 20) -> float:
    """Time of each of some calls that are waited for together, ms."""
    begun = time.perf_counter()
    for _ in range(n):
        last = call()
        mx.async_eval(last)
    mx.eval(last)
    return 1e3 * (time.perf_counter() - begun) / n


def functions(n_atoms: int, radial: str) -> tuple[dict[str, Callable[[Arrays], Arrays]], Arrays]:
    """Energy with forces and a Hessian-vector product of a network, and their arrays."""
    rng = np.random.default_rng(n_atoms)
    network = models.v2106.SimpleNetwork(
        "1x0e", "1x0e", 3.5, 14.2, float(n_atoms), mul=32, layers=2, lmax=2, radial=radial
    )
    network.update(tree_map(lambda a: mx.random.normal(a.shape), network.parameters()))
    positions = rng.random((n_atoms, 3)) * (n_atoms / 0.1) ** (1 / 3)
    senders, receivers, _ = graph.neighbor_list(positions, np.zeros((3, 3)), False, 3.5)
    data = {
        "x": mx.ones((n_atoms, 1)),
        "batch": mx.zeros((n_atoms,), dtype=mx.int32),
        "edge_index": mx.array(np.stack([senders, receivers]).astype(np.int32)),
    }
    arrays = {
        "positions": mx.array(positions.astype(np.float32)),
        "vector": mx.array(rng.normal(size=(n_atoms, 3)).astype(np.float32)),
    }
    mx.eval(data, arrays, network.parameters())

    def energy(positions: mx.array) -> mx.array:
        return network({**data, "pos": positions}).sum()

    def forces(a: Arrays) -> Arrays:
        value, slope = mx.value_and_grad(energy)(a["positions"])
        return {"energy": value, "gradient": slope}

    def product(a: Arrays) -> Arrays:
        return {"product": mx.jvp(mx.grad(energy), [a["positions"]], [a["vector"]])[1][0]}

    return {"energy and forces": forces, "Hessian-vector product": product}, arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--atoms", type=int, nargs="+", default=[64, 512, 4096])
    parser.add_argument("--out", help="JSON file")
    arguments = parser.parse_args()
    rows = []
    for n_atoms in arguments.atoms:
        for radial in ("table", "exact"):
            wanted, arrays = functions(n_atoms, radial)
            for name, function in wanted.items():
                begun = time.perf_counter()
                plain = function(arrays)
                mx.eval(plain)
                first = time.perf_counter() - begun
                record = Replayed(function)
                found = record(arrays)
                mx.eval(found)
                last = list(plain)[-1]
                rows.append(
                    {
                        "atoms": n_atoms,
                        "weights": radial,
                        "what": name,
                        "first_s": first,
                        "built_ms": waiting(lambda f=function, a=arrays: f(a), 7),
                        "waiting_ms": waiting(lambda r=record, a=arrays: r(a), 25),
                        "queued_ms": queued(lambda r=record, a=arrays: r(a)),
                        "difference": float(mx.abs(plain[last] - found[last]).max()),
                    }
                )
                print(rows[-1], flush=True)
    if arguments.out:
        about = this_run() | {"mlpot": mlpot.__version__, "device": str(mx.default_device())}
        with open(arguments.out, "w") as file:
            json.dump({"about": about, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
