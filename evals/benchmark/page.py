"""The report as one HTML file that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from .control import verdict
from .environment import busy
from .refusals import refusals

STYLE = """
body { font: 14px/1.5 sans-serif; margin: 2em auto; max-width: 78em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-size: 12px }
th, td { border-bottom: 1px solid #ddd; padding: 2px 8px; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
tr.bad td { color: #a00 } tr.absent td { color: #888 }
svg { max-width: 100%; height: auto }
"""
SHOWN = {
    "case": "case", "label": "sizes", "phase": "phase", "implementation": "implementation",
    "median_ms": "ms", "range": "10 to 90 %", "speedup": "times faster", "speedup_range":
    "10 to 90 %", "error": "error", "first_s": "first call, s", "warm_s": "warm-up, s",
    "repeats": "repeats", "backends": "what ran", "status": "status",
}  # fmt: skip
NUMBERS = ("median_ms", "range", "speedup", "speedup_range", "error", "first_s", "warm_s")


def page(
    report: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], charts: Mapping[str, str]
) -> str:
    """The text of the file."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>mlpot benchmark</title>",
        f"<style>{STYLE}</style><h1>mlpot benchmark</h1>",
        _facts(report),
        _control(report["control"]),
        _refusals(report["rows"]),
        "<h2>Times faster than the baseline</h2>",
        charts["speedup"],
        "<h2>Time of one call</h2>",
        charts["latency"],
        "<h2>All rows</h2>",
        _rows(rows),
    ]
    if report.get("memory"):
        parts.append(_memory(report["memory"]))
    return "\n".join(parts) + "\n"


def _table(header: Sequence[str], lines: Sequence[str]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _cells(values: Sequence[Any], numbers: Sequence[bool]) -> str:
    return "".join(
        f"<td class='number'>{html.escape(str(v))}</td>" if n else f"<td>{html.escape(str(v))}</td>"
        for v, n in zip(values, numbers, strict=True)
    )


def _facts(report: Mapping[str, Any]) -> str:
    facts = {**report["environment"], **report["versions"]}
    lines = [f"<tr>{_cells((k, v), (False, False))}</tr>" for k, v in facts.items() if v != ""]
    warning = busy(dict(report["environment"]))
    note = f"<p><b>Warning: {html.escape(warning)}.</b></p>" if warning else ""
    return note + _table(("", ""), lines)


def _control(entries: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for e in entries:
        ratio = e["ratio"]
        text = f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"
        name = f"{e['case']} {e['label']}"
        cells = _cells((name, e["phase"], text, verdict(e)), (False,) * 4)
        lines.append(f"<tr>{cells}</tr>")
    note = "<p>Without a kernel, bits and times must be the same with kernels on and off.</p>"
    shown = _table(("control", "phase", "time ratio", ""), lines) if lines else "<p>not run</p>"
    return "<h2>Control</h2>" + note + shown


def _refusals(rows: Sequence[dict[str, Any]]) -> str:
    found = refusals(list(rows))
    if not found:
        return ""
    lines = [
        f"<tr>{_cells((reason, ', '.join(sorted(names))), (False, False))}</tr>"
        for reason, names in found.items()
    ]
    return "<h2>What kernels did not take</h2>" + _table(("not on", "primitives"), lines)


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for row in rows:
        shown = dict(row)
        if "low_ms" in row:
            shown["range"] = f"{row['low_ms']} to {row['high_ms']}"
        if "speedup" in row:
            shown["speedup_range"] = f"{row['speedup_low']} to {row['speedup_high']}"
        status = str(row["status"])
        kind = "absent" if status.startswith("not installed") else "bad"
        attribute = "" if status == "ok" else f" class='{kind}'"
        cells = _cells([shown.get(k, "") for k in SHOWN], [k in NUMBERS for k in SHOWN])
        lines.append(f"<tr{attribute}>{cells}</tr>")
    return _table(list(SHOWN.values()), lines)


def _memory(entries: Sequence[Mapping[str, Any]]) -> str:
    names = ("implementation", "n_atoms", "n_edges", "peak_bytes", "bytes_per_atom", "status")
    numbers = [name not in ("implementation", "status") for name in names]
    lines = [f"<tr>{_cells([e.get(k, '') for k in names], numbers)}</tr>" for e in entries]
    return "<h2>Peak memory of energy and forces</h2>" + _table(names, lines)
