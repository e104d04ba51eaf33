"""Report of the parity suite: largest errors by operation, as JSON, CSV and a table."""

from __future__ import annotations

import collections
import csv
import json
import os
import platform
from pathlib import Path

QUANTITIES = ("value", "vjp", "jvp")


def machine() -> dict:
    """What the numbers were computed on."""
    processor = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        processor = names[0].split(":")[1].strip() if names else processor
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def summary(entries: list[dict], refused: list[list]) -> dict:
    """Numbers of cases and largest errors by operation, failures in full, what e3nn refused."""
    operations = {}
    for op in sorted({entry["op"] for entry in entries}):
        mine = [entry for entry in entries if entry["op"] == op]
        operations[op] = {
            "cases": len(mine),
            "failures": sum(bool(entry["failed"]) for entry in mine),
        } | {
            dtype: {
                q: finite(max(entry["results"][dtype]["errors"][q] for entry in mine))
                for q in QUANTITIES
            }
            for dtype in mine[0]["results"]
        }
    counts = collections.Counter(f"{op}: {reason}" for op, reason, _ in refused)
    failures = json.loads(json.dumps([entry for entry in entries if entry["failed"]]))
    for failure in failures:
        for result in failure["results"].values():
            result["errors"] = {k: finite(e) for k, e in result["errors"].items()}
    return {
        "cases": len(entries),
        "failed": len(failures),
        "operations": operations,
        "failures": failures,
        "drawn again as e3nn refuses": dict(sorted(counts.items())),
    }


def finite(number: float) -> float | None:
    """None for infinity, which JSON does not know."""
    return float(f"{number:.3g}") if number < float("inf") else None


def write_report(stem: Path, report: dict) -> None:
    """Writes stem.json and stem.csv."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    with open(stem.with_suffix(".csv"), "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        dtypes = list(report["tolerances"])
        columns = [f"{d} {q}" for d in dtypes for q in QUANTITIES]
        writer.writerow(["operation", "cases", "failures", *columns])
        for op, row in report["operations"].items():
            numbers = [row[d][q] for d in dtypes for q in QUANTITIES]
            writer.writerow([op, row["cases"], row["failures"], *numbers])


def print_table(report: dict) -> None:
    """The largest errors by operation."""
    dtypes = list(report["tolerances"])
    print(f"\n{'':28}{'':6}{'':7}" + "".join(f"{d:^27}" for d in dtypes))
    head = "".join(f"{q:>9}" for _ in dtypes for q in QUANTITIES)
    print(f"{'operation':28}{'cases':>6}{'failed':>7}{head}")
    for op, row in report["operations"].items():
        numbers = [row[d][q] for d in dtypes for q in QUANTITIES]
        cells = "".join(f"{'inf' if n is None else f'{n:.1e}':>9}" for n in numbers)
        print(f"{op:28}{row['cases']:>6}{row['failures']:>7}{cells}")
    print(f"\n{report['cases']} cases, {report['failed']} failed, {report['seconds']:.0f} s")
