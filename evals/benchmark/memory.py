"""Peak memory of energy and forces against the number of atoms, up to what fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from .cases import Case
from .crew import Machine
from .implementations import Implementation
from .process import WorkerFailedError
from .structures import SPACING, large_cluster

#: Atoms of the first system.
FIRST = {"cpu": 1000, "gpu": 32_000}
#: Steps of bisection between the last system that fits and the first that does not.
REFINEMENTS = 2
#: About 14 neighbours in the bulk of the grid.
CUTOFF = 1.45 * SPACING
SETTINGS = {"mul": 32, "layers": 2, "lmax": 2}


def measure(
    machine: Machine, implementations: Sequence[Implementation], limit: float, versions: dict
) -> list[dict]:
    """Rows of growing systems for each implementation of the potential, a fresh process each.

    The sizes double until the peak passes the limit (GiB) or a system does not fit; then the
    largest that fits is narrowed down.
    """
    rows: list[dict] = []
    for implementation in implementations:
        case = Case("potential", "", SETTINGS, ("forces",), ())
        if implementation.takes(case, "forces", machine.device):
            rows += grow(
                lambda n, i=implementation: one(machine, i, n, versions),
                FIRST[machine.device],
                limit * 2**30,
            )
    return rows


def grow(run, first: int, limit: float) -> list[dict]:
    """Rows of ``run(n_atoms)`` for n_atoms as `measure` says; ``limit`` in bytes."""
    rows = [run(first)]
    while rows[-1]["status"] == "ok" and rows[-1]["peak_bytes"] < limit:
        rows.append(run(2 * rows[-1]["n_atoms"]))
    fits = [row["n_atoms"] for row in rows if row["status"] == "ok"]
    if rows[-1]["status"] == "ok" or not fits:
        return rows
    good, bad = max(fits), rows[-1]["n_atoms"]
    for _ in range(REFINEMENTS):
        rows.append(run((good + bad) // 2))
        if rows[-1]["status"] == "ok":
            good = rows[-1]["n_atoms"]
        else:
            bad = rows[-1]["n_atoms"]
    return rows


def one(machine: Machine, implementation: Implementation, n_atoms: int, versions: dict) -> dict:
    """Peak memory of one system."""
    row = {"implementation": implementation.name, "n_atoms": n_atoms}
    if implementation.python not in machine.pythons:
        return row | {"status": "not installed"}
    arrays = large_cluster(n_atoms, CUTOFF, seed=0)
    row["n_edges"] = len(arrays["senders"])
    case = Case(
        "potential", "", SETTINGS, ("forces",), (),
        structure={"n_atoms": n_atoms, "n_edges": row["n_edges"]},
    )  # fmt: skip
    inputs, out = machine.folder / "inputs.npz", machine.folder / "out.npz"
    np.savez(inputs, **arrays)
    process = machine.start(implementation, machine.folder / implementation.name)
    request = {"do": "prepare", "case": dataclasses.asdict(case), "phase": "forces", "warm": False}
    try:
        hello = process.hello()
        if "not_installed" in hello:
            return row | {"status": f"not installed: {hello['not_installed']}"}
        versions |= hello["versions"]
        process.ask(request | {"inputs": str(inputs), "out": str(out)})
        peak = process.ask({"do": "memory"})["peak"]
    except WorkerFailedError as error:
        return row | {"status": f"failed: {error}"}
    finally:
        process.end()
    return row | {"peak_bytes": peak, "bytes_per_atom": round(peak / n_atoms), "status": "ok"}
