"""Why kernels were not taken."""

from __future__ import annotations

from typing import Any


def refusals(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Why `mlpot-kernels` did not run on a backend, and which primitives that holds for."""
    found: dict[str, set[str]] = {}
    for row in rows:
        if row["implementation"].startswith("mlpot-kernels"):
            for path in row.get("paths", []):
                for backend, reason in path["refusals"]:
                    found.setdefault(f"{backend} ({reason})", set()).add(path["primitive"])
    return found
