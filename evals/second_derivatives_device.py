"""Times Hessian-vector products against energy and forces on a GPU.

    python evals/second_derivatives_device.py --models nequix-mp-1.safetensors --out products.json

Silicon (copper for a potential that knows no silicon) of several sizes in float32, all replayed
from a record but products of eight vectors. *near*: eight vectors that move two atoms only. What is
compared is called in turns; the median of each counts. Products are compared with those in float64
on the CPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import mlpot  # isort: skip  (before MLX, so that TF32 is off from the start)
import mlx.core as mx
import numpy as np
from ase.build import bulk
from benchmark.environment import this_run

from mlpot import derivatives
from mlpot.calculators import MLPotCalculator


def row(model: str, repeat: int, seconds: float) -> dict:
    """Times in ms of one potential and size, and how far products are from float64."""
    calc = MLPotCalculator(model, dtype="float32")
    potential = calc.potential
    silicon = 14 in potential.numbers
    atoms = (bulk("Si", cubic=True) if silicon else bulk("Cu", cubic=True)).repeat(repeat)
    atoms.rattle(0.02, seed=1)
    graph = calc._graph(atoms)
    given = np.random.default_rng(0).normal(size=(8, graph.n_atoms, 3))
    given[:, len(atoms) :] = 0.0  # padding
    near = np.zeros_like(given)
    near[:, :2] = given[:, :2]
    forces = derivatives.ReplayedForces(potential)
    product = derivatives.ReplayedProducts(potential)
    one = mx.array(given[0], dtype=graph.positions.dtype)
    calls = {
        "forces": lambda: mx.eval(forces(graph, False)[:2]),
        "product": lambda: mx.eval(product(graph, one)),
        "eight": lambda: derivatives.hvps(potential, graph, given, chunk=8),
        "eight near": lambda: derivatives.hvps(potential, graph, near, chunk=8),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    begun = time.perf_counter()
    rounds = 0
    while rounds < 4 or (time.perf_counter() - begun < seconds and rounds < 40):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - start))
        rounds += 1
    found = {name: statistics.median(values[3:]) for name, values in times.items()}
    errors = {}
    if len(atoms) < 100:
        exact = calc.astype("float64")
        for name, vectors in (("product", given), ("near", near)):
            got = derivatives.hvps(potential, graph, vectors[:1], chunk=1)[0, : len(atoms)]
            want = exact.get_hvp(atoms, vectors[0, : len(atoms)])
            errors[name] = float(np.abs(got - want).max() / np.abs(want).max())
    return {
        "model": Path(model).stem,
        "atoms": len(atoms),
        "edges": graph.n_edges,
        "ms": found,
        "ratio": found["product"] / found["forces"],
        "ratio_of_eight": found["eight"] / 8 / found["forces"],
        "ratio_of_eight_near": found["eight near"] / 8 / found["forces"],
        "relative_errors": errors,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--repeat", type=int, nargs="+", default=[1, 3, 5], help="cubic cells")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row, about")
    parser.add_argument("--out", help="JSON file")
    arguments = parser.parse_args()
    rows = []
    for model in arguments.models:
        for repeat in arguments.repeat:
            rows.append(row(model, repeat, arguments.seconds))
            print(json.dumps(rows[-1]), flush=True)
    if arguments.out:
        about = this_run() | {"mlpot": mlpot.__version__, "device": str(mx.default_device())}
        with open(arguments.out, "w") as file:
            json.dump({"about": about, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
