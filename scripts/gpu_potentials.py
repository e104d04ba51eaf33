"""Checks whole potentials: the physics of mlpot.testing, and the GPU in float32 against float64.

    python scripts/gpu_potentials.py [--json report.json] [--quick]

Small random potentials of every kind. Without a GPU, float32 runs on the CPU. Exit code 1 if
anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys

import mlx.core as mx
import numpy as np

from mlpot import derivatives, graph, kernels
from mlpot.models import Potential, PotentialConfig
from mlpot.testing import available_backends, run_battery

#: Largest error of float32 over the largest number of a result.
TOLERANCES = {"energies": 1e-5, "forces": 2e-5, "stress": 2e-5, "HVP": 1e-4}
QUICK = ("forces", "rotation", "HVP")


def potential(model: str) -> Potential:
    """A random one of a few channels for carbon and oxygen."""
    mx.random.seed(0)
    network = {"name": model, "channels": 8, "layers": 2}
    return Potential(
        PotentialConfig.model_validate({"numbers": [6, 8], "cutoff": 4.0, "model": network})
    )


def results(made: Potential, dtype: mx.Dtype) -> dict[str, np.ndarray]:
    """Energies of atoms, forces, stress and a Hessian-vector product of a rattled crystal."""
    rng = np.random.default_rng(1)
    grid = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    xyz = 2.0 * grid + rng.normal(scale=0.1, size=grid.shape)
    numbers = np.where(grid.sum(axis=1) % 2, 6, 8)
    atoms = graph.build(numbers, xyz, 8.0 * np.eye(3), True, cutoff=made.cutoff, dtype=dtype)
    direction = mx.array(rng.normal(size=xyz.shape), dtype=dtype)
    found = derivatives.energy_forces_stress(made, atoms)
    product = derivatives.hvp(made, atoms, direction)
    assert found.stress is not None
    arrays = (found.node_energies, found.forces, found.stress, product)
    return {
        name: np.array(array).astype(np.float64)
        for name, array in zip(TOLERANCES, arrays, strict=True)
    }


def compare(model: str) -> list[dict]:
    """Errors of float32 on the default device, with kernels and without."""
    made = potential(model)
    found = {}
    for way in (None, "reference"):
        kernels.clear_report()
        if way is None:
            found["kernels"] = results(made, mx.float32)
            ran_on = sorted({choice.backend for choice in kernels.report()})
        else:
            with kernels.use(way):
                found[way] = results(made, mx.float32)
    with mx.stream(mx.cpu):
        made.set_dtype(mx.float64)
        exact = results(made, mx.float64)
    rows = []
    for way, values in found.items():
        for name, allowed in TOLERANCES.items():
            error = float(np.abs(values[name] - exact[name]).max() / np.abs(exact[name]).max())
            rows.append(
                {"model": model, "way": way, "what": name, "error": error, "allowed": allowed,
                 "passed": error <= allowed, "ran_on": ran_on if way == "kernels" else [way]}
            )  # fmt: skip
    return rows


def main() -> int:
    """Run all checks and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", help="write the results to this file too")
    parser.add_argument("--quick", action="store_true", help="one model, a few checks")
    options = parser.parse_args()
    models = ["v2106"] if options.quick else ["v2106", "gate_points", "nequip"]
    checks = QUICK if options.quick else None
    backends = ["reference"] if options.quick else available_backends()
    report: dict = {"device": str(mx.default_device()), "float32": [], "battery": []}
    for model in models:
        for row in compare(model):
            report["float32"].append(row)
            state = "ok" if row["passed"] else "WRONG"
            told = f"{row['way']:10s} {row['what']:20s} {row['error']:.1e} {state}"
            print(f"{model:12s} {told}  {', '.join(row['ran_on'])}", flush=True)
        for result in run_battery(potential(model), checks, backends):
            report["battery"].append({"model": model, **vars(result)})
            state = "ok" if result.passed else f"WRONG: {result.message}"
            print(f"{model:12s} {result.backend:10s} {result.check:20s} {state}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    rows = [*report["float32"], *report["battery"]]
    wrong = sum(not row["passed"] for row in rows)
    print(f"\n{len(rows) - wrong} of {len(rows)} right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
