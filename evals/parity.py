"""Random operations in e3nn and in mlpot: values and derivatives have to agree.

    python evals/parity.py --cases 1000 --seed 0 --torch-python /path/to/python/with/e3nn
    python evals/parity.py --replay evals/results/failures/parity-0-17.npz

One process has torch and e3nn, another MLX and mlpot; this one has neither. See docs/evaluation.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from parity_report import machine, print_table, summary, write_report
from parity_worker import Worker, WorkerDiedError

HERE = Path(__file__).parent
TOLERANCES = {"float64": 1e-10, "float32": 2e-5}
# Below this a result counts as zero, and its error is taken relative to this.
SMALL = 1e-2


def error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Largest difference relative to the largest number wanted; infinite where shapes differ."""
    if found.shape != wanted.shape:
        return float("inf")
    if not wanted.size:
        return 0.0
    difference = np.abs(found - wanted).max()
    return float(difference / max(np.abs(wanted).max(), SMALL)) if difference >= 0 else float("inf")


def errors(found, wanted) -> dict[str, float]:
    """Error of value, vjp (largest over the inputs) and jvp."""
    scores = {"value": error(found["value"], wanted["value"])}
    n = sum(key.startswith("vjp_") for key in wanted)
    # The scale is that of the whole gradient, as it is for the gradient of one flat input.
    joined = [
        np.concatenate([np.ravel(arrays[f"vjp_{i}"]) for i in range(n)])
        for arrays in (found, wanted)
    ]
    same = all(found[f"vjp_{i}"].shape == wanted[f"vjp_{i}"].shape for i in range(n))
    return scores | {
        "vjp": error(*joined) if same else float("inf"),
        "jvp": error(found["jvp"], wanted["jvp"]),
    }


def stored(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """A case and e3nn's numbers for it."""
    with np.load(path) as file:
        case = json.loads(str(file["case"]))
        return case, {key[5:]: file[key] for key in file if key.startswith("e3nn_")}


def compare(worker: Worker, path: Path, dtype: str, out: Path) -> dict:
    """Errors of a worker's numbers in a precision against those stored in a file."""
    try:
        answer = worker.ask({"path": str(path), "dtype": dtype, "out": str(out)})
    except WorkerDiedError as end:
        answer = {"error": str(end)}
    if "error" in answer:
        return {"errors": dict.fromkeys(("value", "vjp", "jvp"), float("inf"))} | answer
    with np.load(out) as found:
        return {"errors": errors(dict(found), stored(path)[1])}


def judge(case: dict, results: dict[str, dict]) -> dict:
    """What a comparison has found, as one entry of the report."""
    failed = [d for d, r in results.items() if max(r["errors"].values()) > TOLERANCES[d]]
    entry = {key: case[key] for key in ("op", "spec", "lead", "seed", "number")}
    return entry | {"failed": failed, "results": results}


def run(arguments: argparse.Namespace) -> int:
    start, entries, refused = time.time(), [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        Worker(arguments.torch_python, HERE / "parity_e3nn.py") as e3nn,
        Worker(sys.executable, HERE / "parity_mlpot.py") as mlpot,
    ):
        path, out = Path(folder) / "case.npz", Path(folder) / "found.npz"
        for number in range(arguments.cases):
            request = {"seed": arguments.seed, "number": number, "path": str(path)}
            drawn = e3nn.ask(request)
            refused += drawn["refused"]
            results = {dtype: compare(mlpot, path, dtype, out) for dtype in TOLERANCES}
            entry = judge(drawn["case"], results)
            entries.append(entry)
            if entry["failed"]:
                failures = arguments.out / "failures"
                failures.mkdir(parents=True, exist_ok=True)
                entry["replay"] = f"parity-{arguments.seed}-{number}.npz"
                shutil.copyfile(path, failures / entry["replay"])
                entry["e3nn in float32"] = compare(e3nn, path, "float32", out)["errors"]
                print(f"case {number} fails: {describe(entry)}", flush=True)
            if (number + 1) % 100 == 0:
                print(f"{number + 1} cases, {time.time() - start:.0f} s", flush=True)
        versions = e3nn.versions | mlpot.versions
    report = {
        "command": f"python evals/parity.py --cases {arguments.cases} --seed {arguments.seed} "
        "--torch-python PYTHON",
        "machine": machine(),
        "versions": versions,
        "seconds": round(time.time() - start, 1),
        "tolerances": TOLERANCES,
    } | summary(entries, refused)
    write_report(arguments.out / f"parity-{arguments.seed}", report)
    print_table(report)
    return 1 if report["failures"] else 0


def describe(entry: dict) -> str:
    """Operation, settings and errors on one line."""
    scores = {
        d: {k: f"{e:.1e}" for k, e in r["errors"].items()} for d, r in entry["results"].items()
    }
    traces = [
        r["error"].strip().splitlines()[-1] for r in entry["results"].values() if "error" in r
    ]
    return f"{entry['op']} {entry['spec']} lead {entry['lead']}: {scores} {' '.join(traces[:1])}"


def replay(arguments: argparse.Namespace) -> int:
    """One stored case again: mlpot against e3nn's stored numbers, and e3nn too if it is at hand."""
    case, _ = stored(arguments.replay)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.npz"
        with Worker(sys.executable, HERE / "parity_mlpot.py") as mlpot:
            results = {d: compare(mlpot, arguments.replay, d, out) for d in TOLERANCES}
        entry = judge(case, results)
        print(describe(entry))
        for result in results.values():
            print(result.get("error", ""), end="")
        if arguments.torch_python:
            with Worker(arguments.torch_python, HERE / "parity_e3nn.py") as e3nn:
                for dtype in TOLERANCES:
                    again = compare(e3nn, arguments.replay, dtype, out)["errors"]
                    print(f"e3nn in {dtype}: { {k: f'{e:.1e}' for k, e in again.items()} }")
    print("fails in", ", ".join(entry["failed"])) if entry["failed"] else print("passes")
    return 1 if entry["failed"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--torch-python", help="a Python that has torch and e3nn 0.6.0")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the report")
    parser.add_argument("--replay", type=Path, help="file of a failed case")
    arguments = parser.parse_args()
    if arguments.replay:
        return replay(arguments)
    if not arguments.torch_python:
        parser.error("give --torch-python, a Python that has torch and e3nn 0.6.0")
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
