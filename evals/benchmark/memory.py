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

#: Of the first system, and how the sizes grow.
FIRST, FACTOR = 1000, 2
#: About 14 neighbours in the bulk of the grid.
CUTOFF = 1.45 * SPACING
SETTINGS = {"mul": 32, "layers": 2, "lmax": 2}


def measure(
    machine: Machine, implementations: Sequence[Implementation], limit: float, versions: dict
) -> list[dict]:
    """Rows of growing systems for each implementation of the potential.

    The sizes double until one does not fit, or the limit (GiB) is passed. A fresh process each.
    """
    rows: list[dict] = []
    for implementation in implementations:
        case = Case("potential", "", SETTINGS, ("forces",), ())
        if not implementation.takes(case, "forces", machine.device):
            continue
        n, going = FIRST, True
        while going:
            row = one(machine, implementation, n, versions)
            rows.append(row)
            going = row["status"] == "ok" and row["peak_bytes"] < limit * 2**30
            n *= FACTOR
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
