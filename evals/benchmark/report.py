"""The files of a run: report.json, rows.csv, report.html, speedup.svg, latency.svg."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .drawing import bars
from .page import page

COLUMNS = (
    "case", "label", "phase", "implementation", "mode", "device", "threads", "status",
    "median_ms", "low_ms", "high_ms", "baseline", "speedup", "speedup_low", "speedup_high",
    "error", "build_s", "first_s", "warm_s", "calls", "queued", "repeats", "backends",
)  # fmt: skip


def write(folder: Path, report: dict[str, Any]) -> None:
    """Write all files; the folder is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(flat(row) for row in report["rows"])
    charts = {"speedup": speedups(report["rows"]), "latency": latencies(report["rows"])}
    for name, chart in charts.items():
        (folder / f"{name}.svg").write_text(chart)
    (folder / "report.html").write_text(page(report, [flat(r) for r in report["rows"]], charts))


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row as CSV has it: times in ms, the speedup over the baseline."""
    found = {key: row[key] for key in COLUMNS if key in row}
    if "time_s" in row:
        times = {name: 1e3 * row["time_s"][name] for name in ("median", "low", "high")}
        found |= {f"{name}_ms": f"{t:.4g}" for name, t in times.items()}
        found["repeats"] = len(row["seconds"])
        ratio = row["faster_than"].get(row["baseline"])
        if ratio:
            found["speedup"] = f"{ratio['median']:.3g}"
            found |= {f"speedup_{k}": f"{ratio[k]:.3g}" for k in ("low", "high")}
    for key in ("build_s", "first_s", "warm_s"):
        if key in found:
            found[key] = f"{found[key]:.3f}"
    if "error" in found:
        found["error"] = f"{found['error']:.1e}"
    found["backends"] = backends(row)
    return found


def backends(row: dict[str, Any]) -> str:
    """Which backend ran which primitives, as text."""
    by: dict[str, list[str]] = {}
    for path in row.get("paths", []):
        by.setdefault(path["backend"], []).append(path["primitive"])
    return "; ".join(f"{name}: {', '.join(dict.fromkeys(p))}" for name, p in sorted(by.items()))


def _groups(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row.get("time_s"):
            found.setdefault(f"{row['case']} {row['label']}, {row['phase']}", []).append(row)
    return found


def speedups(rows: Sequence[dict[str, Any]]) -> str:
    """Chart of the speedups over the baseline of each phase."""
    groups = []
    for name, members in _groups(rows).items():
        found = [
            (row["implementation"], row["faster_than"][row["baseline"]])
            for row in members
            if row["baseline"] in row["faster_than"]
        ]
        if found:
            groups.append((name, found))
    names = sorted({row["baseline"] for row in rows if row.get("baseline")})
    return bars(f"times faster than {' or '.join(names)}", "x", groups, origin=1.0)


def latencies(rows: Sequence[dict[str, Any]]) -> str:
    """Chart of the times of one call."""
    groups = [
        (
            name,
            [
                (row["implementation"], {k: 1e3 * t for k, t in row["time_s"].items()})
                for row in members
            ],
        )
        for name, members in _groups(rows).items()
    ]
    return bars("time of one call", "ms", groups)
