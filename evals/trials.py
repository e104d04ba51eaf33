"""Trains variations of a configuration one after another, and tabulates their validation errors.

    python evals/trials.py BASE.yaml --work runs/trials --record trials.json \\
        plain= 'rate={lr: 0.12}' 'wide={model: {channels: 64}, max_num_epochs: 40}'

Each NAME={keys} changes keys of BASE.yaml, nested ones by themselves; data files are found from the
folder of BASE.yaml. Test files are left alone. What is in the record already is not trained again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from benchmark.environment import describe

from mlpot.files import atomic_write
from mlpot.training.run_folder import read_rows

MLPOT = [sys.executable, "-c", "from mlpot.cli.app import main; main()"]
#: Errors that are kept, and their factor: eV to meV.
KEPT = [
    f"{part}_{term}_{kind}"
    for part in ("valid", "train")
    for term in ("energy", "forces", "stress")
    for kind in ("rmse", "mae")
]


def changed(keys: Mapping, changes: Mapping) -> dict:
    """A copy of a configuration in which nested keys are changed one by one."""
    found = dict(keys)
    for name, value in changes.items():
        own: Any = found.get(name)
        both = isinstance(own, Mapping) and isinstance(value, Mapping)
        found[name] = changed(own, value) if both else value
    return found


def train(keys: Mapping, folder: Path, beside: Path) -> dict:
    """Train and tell the errors.

    Args:
        keys: of the configuration.
        folder: of the run.
        beside: folder from which data files are found.
    """
    config = beside / f".{folder.name}.yaml"
    config.write_text(yaml.safe_dump({**keys, "out": str(folder.resolve())}, sort_keys=False))
    began = time.monotonic()
    try:
        subprocess.run([*MLPOT, "train", str(config), "--overwrite"], check=True)
    finally:
        config.unlink()
    rows = read_rows(folder / "metrics.csv")
    best = min(rows, key=lambda row: float(row["valid_loss"]))
    return {
        "seconds": round(time.monotonic() - began),
        "epochs": len(rows),
        "steps": int(rows[-1]["step"]),
        "best": errors(best),
        "last": errors(rows[-1]),
    }


def errors(row: Mapping[str, str]) -> dict:
    """What is kept of an epoch; errors in meV, Angstrom and meV/atom."""
    found = {name: round(1e3 * float(row[name]), 4) for name in KEPT if row[name]}
    return {"epoch": int(row["epoch"]), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("trials", nargs="+", metavar="NAME={KEYS}")
    parser.add_argument("--work", type=Path, default=Path("runs/trials"))
    parser.add_argument("--record", type=Path, required=True)
    arguments = parser.parse_args()
    base = yaml.safe_load(arguments.base.read_text())
    base.pop("test_file", None)
    record: dict = {"rows": []}
    if arguments.record.exists():
        record = json.loads(arguments.record.read_text())
    arguments.work.mkdir(parents=True, exist_ok=True)
    for trial in arguments.trials:
        name, _, text = trial.partition("=")
        if any(row["name"] == name for row in record["rows"]):
            continue
        changes = yaml.safe_load(text) or {}
        row = {"name": name, "base": arguments.base.name, "changes": changes}
        folder = arguments.work / name
        row |= train(changed(base, changes), folder, arguments.base.parent)
        record["rows"].append(row)
        record["about"] = describe(f"python evals/trials.py {arguments.base} NAME={{KEYS}} ...")
        record["threads"] = os.environ.get("MLPOT_NUM_THREADS")
        with atomic_write(arguments.record, "w") as file:
            json.dump(record, file, indent=1)
        print(name, json.dumps(row["last"]), flush=True)


if __name__ == "__main__":
    main()
