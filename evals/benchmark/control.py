"""The control: what has no kernel must take the same time and give the same bits with them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CASE = "linear"
#: The ratio's 10th to 90th percentile has to meet this range.
RANGE = (0.9, 1.1)
PAIR = ("mlpot-reference", "mlpot-kernels")


def check(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each phase of the control case that both sides have run."""
    found = []
    for row in rows:
        ratio = row.get("faster_than", {}).get(PAIR[0])
        if row["case"] != CASE or row["implementation"] != PAIR[1] or ratio is None:
            continue
        ran = {path["backend"] for path in row["paths"]} - {"reference"}
        meets = ratio["high"] >= RANGE[0] and ratio["low"] <= RANGE[1]
        found.append(
            {
                "label": row["label"],
                "phase": row["phase"],
                "ratio": ratio,
                "backends": sorted(ran),
                "coincides": meets and not ran,
            }
        )
    return found
