"""From nothing to the first forces: a fresh process each time, with empty caches."""

from __future__ import annotations

import dataclasses
import shutil
import time
from pathlib import Path

import numpy as np

from .cases import Case
from .crew import Crew
from .process import WorkerFailedError
from .timing import Row, compare, new_row, rank

REPEATS = 3


def measure(crew: Crew, case: Case, phase: str, inputs: Path, limit: float) -> list[Row]:
    """Rows with the seconds from the start of the process to the forces.

    Compiled pieces that libraries keep in the temporary folder are gone each time. The native
    kernels, compiled once for a machine, are kept.
    """
    rows: dict[str, Row] = {}
    outputs: dict[str, dict] = {}
    taking = [i for i in crew.implementations if i.takes(case, phase, crew.machine.device)]
    for implementation in taking:
        name = implementation.name
        rows[name] = new_row(case, phase, name, implementation.compiled, crew)
        if name in crew.absent:
            rows[name]["status"] = crew.absent[name]
    for repeat in range(REPEATS):
        for implementation in taking:
            name = implementation.name
            if rows[name]["status"] != "ok":
                continue
            folder = crew.machine.folder / f"cold-{name}"
            shutil.rmtree(folder, ignore_errors=True)
            began, process = time.time(), crew.machine.start(implementation, folder)
            out = crew.machine.folder / f"cold-{name}.npz"
            request = {"do": "prepare", "case": dataclasses.asdict(case), "phase": phase}
            request |= {"inputs": str(inputs), "out": str(out), "warm": False}
            try:
                hello = process.hello()
                facts = process.ask(request, limit)
                rows[name].setdefault("seconds", []).append(facts["done_at"] - began)
                rows[name] |= {key: facts[key] for key in ("build_s", "first_s", "paths")}
                rows[name]["import_s"] = hello["import_s"]
                if not repeat:
                    with np.load(out) as file:
                        outputs[name] = dict(file)
            except WorkerFailedError as error:
                rows[name]["status"] = f"failed: {error}"
            finally:
                process.end()
    compare(rows, outputs, case, phase)
    for row in rows.values():
        if row["status"] != "ok":
            row.pop("seconds", None)
    rank(rows)
    return list(rows.values())
