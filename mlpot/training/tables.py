"""Error tables for terminals, HTML, CSV and JSON."""

from __future__ import annotations

import csv
import html
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from mlpot.files import atomic_write

from .errors import MEAN_ONLY, QUANTITIES, ErrorRow

if TYPE_CHECKING:
    from rich.table import Table

TITLE = "errors: mean absolute / root mean square"

_SHOWN = tuple(q for q in QUANTITIES if q.name in ("energy", "forces", "stress_GPa", "hvps"))


def format_number(value: float | None) -> str:
    """About three significant digits, without an exponent where it is readable."""
    if value is None:
        return "-"
    if abs(value) < 1e-9:  # rounding errors
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
        return f"{value:.{digits}f}"
    return f"{value:.0e}"


def error_cells(rows: Sequence[ErrorRow]) -> tuple[list[str], list[list[str]]]:
    """Head and lines of a table: words, then mean absolute / root mean square errors."""
    shown = [quantity for quantity in _SHOWN if any(quantity.name in row.mae for row in rows)]
    head = ["set", "model", "type", "frames"]
    head += [f"{quantity.name.split('_')[0]}\n{quantity.unit}" for quantity in shown]
    cells = []
    for row in rows:
        line = [row.set, row.model, row.config_type, str(row.n_frames)]
        for quantity in shown:
            pair = row.mae.get(quantity.name), row.rmse.get(quantity.name)
            line.append(" / ".join(map(format_number, pair)))
        cells.append(line)
    return head, cells


def terminal_table(title: str) -> Table:
    """An empty table for the terminal, in the style of all tables of errors."""
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,  # so that usual names of types fit on 80 columns
        show_edge=False,
    )


def rich_table(rows: Sequence[ErrorRow]) -> Table:
    """A table for the terminal: mean absolute / root mean square errors."""
    from rich.text import Text

    head, cells = error_cells(rows)
    table = terminal_table(TITLE)
    for index, name in enumerate(head):
        words = index < 3
        table.add_column(
            name, justify="left" if words else "right", overflow="fold", no_wrap=not words
        )
    for line in cells:
        style = "dim" if line[1] == MEAN_ONLY else None
        table.add_row(*(Text(cell) for cell in line), style=style)
    return table


def html_table(rows: Sequence[ErrorRow]) -> str:
    """A table for a page: mean absolute / root mean square errors."""
    head, cells = error_cells(rows)
    lines = [f"<table><caption>{TITLE}</caption><thead><tr>"]
    lines += [f"<th>{html.escape(name).replace(chr(10), '<br>')}</th>" for name in head]
    lines.append("</tr></thead><tbody>")
    for line in cells:
        style = ' class="dim"' if line[1] == MEAN_ONLY else ""
        lines.append(f"<tr{style}>{''.join(f'<td>{html.escape(c)}</td>' for c in line)}</tr>")
    lines.append("</tbody></table>")
    return "\n".join(lines)


def plain_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Any table for a page."""
    names = "".join(f"<th>{html.escape(name).replace(chr(10), '<br>')}</th>" for name in head)
    rows = [
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>" for line in lines
    ]
    return "\n".join([f"<table><thead><tr>{names}</tr></thead><tbody>", *rows, "</tbody></table>"])


def write_errors(folder: str | os.PathLike[str], rows: Sequence[ErrorRow]) -> None:
    """Write ``errors.csv`` (a line for each row) and ``errors.json`` (with label counts)."""
    plain = [row.plain() for row in rows]
    with atomic_write(os.path.join(folder, "errors.csv"), "w") as file:
        writer = csv.DictWriter(file, list(plain[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(plain)
    units = {quantity.name: quantity.unit for quantity in QUANTITIES}
    with atomic_write(os.path.join(folder, "errors.json"), "w") as file:
        json.dump({"units": units, "rows": [asdict(row) for row in rows]}, file, indent=1)
