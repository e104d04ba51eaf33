r"""Error tables for papers: LaTeX with the rules of the package booktabs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mlpot.files import atomic_write

from .errors import ErrorRow
from .tables import error_cells

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: "\\" + mark for mark in "&%$#_{}"},
}
_UNITS = {"meV/Å": r"meV/\AA", "meV/Å²": r"meV/\AA$^2$", "meV/Å³": r"meV/\AA$^3$"}


def escape(text: str) -> str:
    """Text as LaTeX prints it."""
    return "".join(_SPECIAL.get(mark, mark) for mark in text)


def latex_table(rows: Sequence[ErrorRow]) -> str:
    """A ``tabular`` with mean absolute and root mean square errors; needs ``booktabs``.

    Args:
        rows: of errors.
    """
    head, lines = error_cells(rows)
    columns = "lll" + "r" * (len(head) - 3)
    names = []
    for name in head:
        word, _, unit = name.partition("\n")
        names.append(escape(word) + (f" [{_UNITS.get(unit, escape(unit))}]" if unit else ""))
    text = [
        "% mean absolute / root mean square errors; \\usepackage{booktabs}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(names) + r" \\",
        r"\midrule",
    ]
    last = lines[0][0] if lines else ""
    for line in lines:
        if line[0] != last:
            text.append(r"\midrule")
            last = line[0]
        text.append(" & ".join(map(escape, line)) + r" \\")
    return "\n".join([*text, r"\bottomrule", r"\end{tabular}", ""])


def write_latex(folder: str | os.PathLike[str], rows: Sequence[ErrorRow]) -> None:
    """Write ``errors.tex``."""
    with atomic_write(os.path.join(folder, "errors.tex"), "w") as file:
        file.write(latex_table(rows))
