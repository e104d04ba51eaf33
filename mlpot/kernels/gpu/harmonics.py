"""Harmonic polynomials of vectors, and the three-linear form of their derivatives.

With the tables G_l of `mlpot.o3`'s solid harmonics

    Y_l[m] = 1/l sum_{k,j} x_k G_l[m, k, j] Y_(l-1)[j],
    d Y_l[m] / d x_k = sum_j G_l[m, k, j] Y_(l-1)[j],

every derivative of any order is made of the gradients of

    T(y, c, t) = sum_l sum_{m,k,j} G_l[m, k, j] c_l[m] t[k] y_(l-1)[j].

One thread takes one vector; the tables are written into the text, their zeros left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from .dialect import WORD_OF_TYPE, literal
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

#: Largest degree that has kernels: their text grows with its square.
LARGEST_DEGREE = 11
THREADS = 128
#: Arguments of the three-linear form.
ROLES = ("y", "c", "t")

# Entries of a table that are zero but for rounding.
_ZERO = 1e-12


def harmonics_refusal(lmax: int, *arrays: mx.array) -> str | None:
    """Why no kernel takes these arguments; None if it can.

    Args:
        lmax: largest degree.
        arrays: vectors or arguments of the form, one row a vector.
    """
    if lmax > LARGEST_DEGREE:
        return f"harmonics of degree {lmax} (the kernels end at {LARGEST_DEGREE})"
    return refusal(*arrays) or grid_refusal(-(-arrays[0].shape[0] // THREADS), THREADS)


def _sum(terms: Sequence[tuple[float, str]]) -> str:
    """Text of a sum of multiples."""
    parts = [name if factor == 1.0 else f"{literal(factor)} * {name}" for factor, name in terms]
    return " + ".join(parts) if parts else "0.0f"


def _at_rows(name: str, dim: int, i: int) -> str:
    return f"{name}[INDEX(row) * {dim} + {i}]"


class HarmonicKernels:
    """Kernels for all degrees up to the number of tables.

    Args:
        tables: G_1, G_2, ..., each (2l+1, 3, 2l-1).
    """

    def __init__(self, tables: Sequence[np.ndarray]) -> None:
        self._tables = [np.where(np.abs(t) < _ZERO, 0.0, t) for t in tables]
        self._dim = (len(tables) + 1) ** 2
        self._kernels: dict[tuple, GeneratedKernel] = {}

    def values(self, x: Float[mx.array, "n_vectors 3"]) -> Float[mx.array, "n_vectors dim"]:
        """Harmonics of all degrees from 0 on, one after the other."""
        key = ("values", x.dtype)
        if key not in self._kernels:
            text = self.values_text(WORD_OF_TYPE[x.dtype])
            name = f"harmonics_{len(self._tables)}"
            self._kernels[key] = GeneratedKernel(name, ["x"], ["out"], text)
        (out,) = self._run(self._kernels[key], [x], [self._dim])
        return out

    def gradients(
        self, targets: tuple[str, ...], arrays: Mapping[str, mx.array]
    ) -> list[Float[mx.array, "n_vectors width"]]:
        """Gradients of the three-linear form.

        Args:
            targets: roles, in the order of ``ROLES``.
            arrays: y and c (n_vectors, dim), t (n_vectors, 3); those that the targets need.

        Returns:
            One array for each target.
        """
        needed = [r for r in ROLES if len(targets) > 1 or r not in targets]
        dtype = arrays[needed[0]].dtype
        key = (targets, dtype)
        if key not in self._kernels:
            text = self.gradients_text(targets, WORD_OF_TYPE[dtype])
            name = f"harmonics_{len(self._tables)}_to_{''.join(targets)}"
            outputs = [f"{role}_out" for role in targets]
            self._kernels[key] = GeneratedKernel(name, needed, outputs, text)
        widths = [3 if role == "t" else self._dim for role in targets]
        return self._run(self._kernels[key], [arrays[r] for r in needed], widths)

    @staticmethod
    def _run(
        kernel: GeneratedKernel, inputs: Sequence[mx.array], widths: Sequence[int]
    ) -> list[mx.array]:
        n = inputs[0].shape[0]
        return kernel(
            inputs,
            [(n, width) for width in widths],
            [inputs[0].dtype] * len(widths),
            blocks=-(-n // THREADS),
            threads=THREADS,
        )

    def values_text(self, word: str) -> str:
        """Body of the kernel of the values; ``word``: the number type."""
        lines = [f"const float x{k} = float({_at_rows('x', 3, k)});" for k in range(3)]
        lines += ["const float y0_0 = 1.0f;", f"{_at_rows('out', self._dim, 0)} = {word}(1.0f);"]
        for l, table in enumerate(self._tables, 1):
            for m, rows in enumerate(table):
                terms = [
                    f"x{k} * ({_sum([(v / l, f'y{l - 1}_{j}') for j, v in _nonzero(row)])})"
                    for k, row in enumerate(rows)
                    if row.any()
                ]
                lines.append(f"const float y{l}_{m} = {' + '.join(terms)};")
                lines.append(f"{_at_rows('out', self._dim, l * l + m)} = {word}(y{l}_{m});")
        return _one_row_a_thread("x", lines)

    def gradients_text(self, targets: tuple[str, ...], word: str) -> str:
        """Body of the kernel of some gradients; ``word``: the number type."""
        needed = [r for r in ROLES if len(targets) > 1 or r not in targets]
        lines = []
        if "t" in needed:
            lines += [f"const float t{k} = float({_at_rows('t', 3, k)});" for k in range(3)]
        if "t" in targets:
            lines += [f"float t{k}_sum = 0.0f;" for k in range(3)]
        if "c" in targets:
            lines.append(f"{_at_rows('c_out', self._dim, 0)} = {word}(0.0f);")
        for l, table in enumerate(self._tables, 1):
            lines += ["{", *self._of_degree(l, table, targets, needed, word), "}"]
        if "y" in targets:
            first = len(self._tables) ** 2
            lines += [
                f"{_at_rows('y_out', self._dim, i)} = {word}(0.0f);"
                for i in range(first, self._dim)
            ]
        if "t" in targets:
            lines += [f"{_at_rows('t_out', 3, k)} = {word}(t{k}_sum);" for k in range(3)]
        return _one_row_a_thread(needed[0], lines)

    def _of_degree(
        self, l: int, table: np.ndarray, targets: Sequence[str], needed: Sequence[str], word: str
    ) -> list[str]:
        """Statements for the components of degree l and those of degree l - 1 below them."""
        n_m, _, n_j = table.shape
        of_c, of_y = l * l, (l - 1) ** 2
        lines = []
        if "c" in needed:
            load = [_at_rows("c", self._dim, of_c + m) for m in range(n_m)]
            lines += [f"const float c{m} = float({a});" for m, a in enumerate(load)]
        if "y" in needed:
            load = [_at_rows("y", self._dim, of_y + j) for j in range(n_j)]
            lines += [f"const float y{j} = float({a});" for j, a in enumerate(load)]
        entries = [(m, k) for m in range(n_m) for k in range(3) if table[m, k].any()]
        if "c" in targets or "t" in targets:
            for m, k in entries:
                value = _sum([(v, f"y{j}") for j, v in _nonzero(table[m, k])])
                lines.append(f"const float d{m}_{k} = {value};")
        if "c" in targets:
            for m in range(n_m):
                value = " + ".join(f"t{k} * d{m}_{k}" for k in range(3) if (m, k) in entries)
                lines.append(f"{_at_rows('c_out', self._dim, of_c + m)} = {word}({value});")
        if "t" in targets:
            for k in range(3):
                value = " + ".join(f"c{m} * d{m}_{k}" for m in range(n_m) if (m, k) in entries)
                lines.append(f"t{k}_sum += {value};")
        if "y" in targets:
            for j in range(n_j):
                value = " + ".join(
                    f"t{k} * ({_sum([(v, f'c{m}') for m, v in _nonzero(table[:, k, j])])})"
                    for k in range(3)
                    if table[:, k, j].any()
                )
                lines.append(f"{_at_rows('y_out', self._dim, of_y + j)} = {word}({value});")
        return lines


def _nonzero(row: np.ndarray) -> list[tuple[int, float]]:
    return [(i, float(v)) for i, v in enumerate(row) if v]


def _one_row_a_thread(sized_by: str, lines: Sequence[str]) -> str:
    inner = "\n".join(lines)
    return f"const int row = GLOBAL_X;\nif (row < {sized_by}_shape[0]) {{\n{inner}\n}}\n"
