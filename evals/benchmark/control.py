"""The control: what has no kernel gives the same bits and takes the same time with kernels on.

`matrix_product` never has one. `linear` is one too as long as none runs for its layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CASES = ("matrix_product", "linear")
#: The ratio's 10th to 90th percentile has to meet this range; one that holds it tells nothing.
RANGE = (0.9, 1.1)
PAIR = ("mlpot-reference", "mlpot-kernels")


def check(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each phase of the control case that both sides have run.

    ``same_bits`` and ``backends`` (kernels that ran, there must be none) always hold or not;
    ``same_time`` is a measurement, None where the spread is too wide to tell.
    """
    digests = {
        (row["label"], row["phase"], row["implementation"]): row.get("digest") for row in rows
    }
    found = []
    for row in rows:
        ratio = row.get("faster_than", {}).get(PAIR[0])
        if row["case"] not in CASES or row["implementation"] != PAIR[1] or ratio is None:
            continue
        ran = {path["backend"] for path in row["paths"]} - {"reference"}
        same = row["digest"] == digests.get((row["label"], row["phase"], PAIR[0]))
        found.append(
            {
                "case": row["case"],
                "label": row["label"],
                "phase": row["phase"],
                "ratio": ratio,
                "backends": sorted(ran),
                "same_bits": same,
                "same_time": same_time(ratio["low"], ratio["high"]),
            }
        )
    return found


def same_time(low: float, high: float) -> bool | None:
    """Whether a ratio between these percentiles is about 1; None where it may be anything."""
    if low < RANGE[0] and high > RANGE[1]:
        return None
    return high >= RANGE[0] and low <= RANGE[1]


def passed(entry: dict[str, Any]) -> bool:
    """Whether kernels have changed nothing but, perhaps, the time."""
    if entry["backends"]:
        return entry["case"] != CASES[0]
    return entry["same_bits"]


def verdict(entry: dict[str, Any]) -> str:
    """In a few words."""
    if not passed(entry):
        return f"FAILS: same bits {entry['same_bits']}, kernels {entry['backends']}"
    if entry["backends"]:
        return f"no control: runs on {', '.join(entry['backends'])}"
    told = {True: "coincides", False: "same bits, but the times differ"}
    return told.get(entry["same_time"], "same bits, times too noisy to compare")
