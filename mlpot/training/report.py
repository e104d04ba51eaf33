"""The report of a run: one page with everything inside it."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import yaml

from mlpot import __version__
from mlpot.files import atomic_write

from .errors import ErrorRow, Predictions
from .plots import parity
from .tables import html_table, plain_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mlpot.datasets import Frame

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff;
       max-width: 1200px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid #ddd; }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left; }
table.facts td { text-align: left; }
tr.dim { color: #888; } img { max-width: 100%; }
pre { background: #f6f6f6; padding: 1em; overflow-x: auto; font-size: 13px; }
"""


def png(figure: Figure) -> bytes:
    """A picture as PNG."""
    buffer = io.BytesIO()
    # Without the software's name and version, so that the same numbers make the same file.
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()


def write_parity(
    path: str | os.PathLike[str], sets: Mapping[str, tuple[Sequence[Frame], Predictions]]
) -> bytes | None:
    """Write the picture of `parity`.

    Returns:
        The picture, None where there are no labels and nothing was written.
    """
    figure = parity(sets)
    if figure is None:
        return None
    data = png(figure)
    with atomic_write(path) as file:
        file.write(data)
    return data


def write_report(
    path: str | os.PathLike[str],
    title: str,
    facts: Mapping[str, str],
    rows: Sequence[ErrorRow],
    pictures: Mapping[str, bytes],
    texts: Mapping[str, str],
    config: Mapping,
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[str]]]] | None = None,
) -> None:
    """Write the page; it needs no other file.

    Args:
        path: ``.html`` file.
        title: of the page.
        facts: table at the top.
        rows: of errors.
        pictures: PNG by heading.
        texts: preformatted text by heading.
        config: plain values of the configuration.
        tables: head and lines by heading.
    """
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
        '<table class="facts">',
        *(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"
            for name, value in facts.items()
        ),
        "</table>",
    ]
    if rows:
        parts += ["<h2>Errors</h2>", html_table(rows)]
        parts.append(
            "<p>mean-only: energies of isolated atoms plus the mean energy per atom of the set, "
            "no forces. A model that has learnt something is far below it.</p>"
        )
    for heading, (head, lines) in (tables or {}).items():
        parts += [f"<h2>{html.escape(heading)}</h2>", plain_table(head, lines)]
    for heading, data in pictures.items():
        encoded = base64.b64encode(data).decode()
        parts += [
            f"<h2>{html.escape(heading)}</h2>",
            f'<img alt="{html.escape(heading)}" src="data:image/png;base64,{encoded}">',
        ]
    dumped = yaml.safe_dump(dict(config), sort_keys=False)
    for heading, text in {**texts, "Configuration": dumped}.items():
        parts += [f"<h2>{html.escape(heading)}</h2>", f"<pre>{html.escape(text)}</pre>"]
    parts += [f"<p>mlpot {__version__}</p>", "</body></html>", ""]
    with atomic_write(path, "w") as file:
        file.write("\n".join(parts))
