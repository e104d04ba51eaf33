"""What a run prints at its end."""

from __future__ import annotations

from typing import Any

from .control import verdict
from .environment import busy
from .refusals import refusals
from .report import flat


def print_rows(report: dict[str, Any]) -> None:
    """One line a row; those that are not installed in one line together."""
    absent: dict[str, str] = {}
    for row in report["rows"]:
        if row["status"].startswith("not installed"):
            absent[row["implementation"]] = row["status"]
            continue
        print(line(row))
    if busy(report["environment"]):
        print(f"warning: {busy(report['environment'])}")
    for name, why in absent.items():
        print(f"{name}: {why}")
    for reason, primitives in refusals(report["rows"]).items():
        print(f"not on {reason}: {', '.join(sorted(primitives))}")
    for entry in report["memory"]:
        print("  ".join(f"{key} {value}" for key, value in entry.items()))
    for entry in report["control"]:
        ratio = entry["ratio"]
        print(
            f"control {entry['case']} {entry['label']}, {entry['phase']}: {ratio['median']:.3f} "
            f"({ratio['low']:.3f} to {ratio['high']:.3f}) {verdict(entry)}"
        )


def line(row: dict[str, Any]) -> str:
    """Case, implementation, time and speedup of a row."""
    shown = flat(row)
    text = f"{row['case']} {row['label']}, {row['phase']}: {row['implementation']}"
    if "median_ms" not in shown:
        return f"{text}: {row['status']}"
    text += f" {shown['median_ms']} ms ({shown['low_ms']} to {shown['high_ms']})"
    if "speedup" in shown:
        text += (
            f", {shown['speedup']} x {row['baseline']} "
            f"({shown['speedup_low']} to {shown['speedup_high']})"
        )
    if row.get("paths"):
        text += f", on {' and '.join(sorted({p['backend'] for p in row['paths']}))}"
    return text
