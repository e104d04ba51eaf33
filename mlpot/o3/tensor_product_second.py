"""The second input of a tensor product, cut into the pieces that the plan needs."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from mlpot.kernels import Constant

from .irreps import Irreps
from .layout import split_columns


class Key(NamedTuple):
    """Products that may be computed once: two blocks, an output degree and a factor."""

    i1: int
    i2: int
    l_out: int
    factor: float


class Part(NamedTuple):
    """Couplings of one block of x with one run of blocks of y."""

    run: int
    mul2: int
    coupling: Constant  # (columns of the run, K d1)
    keys: tuple[Key, ...]


def runs_of(irreps2: Irreps) -> list[list[int]]:
    """Blocks of y that are handled together: neighbours with one channel each."""
    runs: list[list[int]] = []
    for i, block in enumerate(irreps2):
        if runs and block.mul == 1 and irreps2[i - 1].mul == 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


class Second:
    """The second input, cut into runs and blocks when they are needed.

    Args:
        irreps2: its blocks.
        runs: which of them are handled together.
        y: (n, irreps2.dim) in mul_ir.
    """

    def __init__(self, irreps2: Irreps, runs: list[list[int]], y: mx.array) -> None:
        self.irreps2, self.runs, self.n = irreps2, runs, y.shape[0]
        self.run_of = {i2: r for r, run in enumerate(runs) for i2 in run}
        widths = [sum(irreps2[i].dim for i in run) for run in runs]
        self.pieces = split_columns(y, widths)
        self.blocks: dict[int, mx.array] = {}

    def block(self, i2: int) -> mx.array:
        """(n, mul, 2l+1) block."""
        run = self.run_of[i2]
        if i2 not in self.blocks:
            members = self.runs[run]
            widths = [self.irreps2[i].dim for i in members]
            for i, piece in zip(members, split_columns(self.pieces[run], widths), strict=True):
                mul, ir = self.irreps2[i]
                self.blocks[i] = piece.reshape(self.n, mul, ir.dim)
        return self.blocks[i2]

    def couple(self, part: Part, d1: int) -> mx.array:
        """(n, K mul2, d1) matrices that act on the components of x; rows (k, v)."""
        y = self.pieces[part.run]
        m = y.reshape(self.n * part.mul2, -1) @ part.coupling(y.dtype)
        if part.mul2 > 1:
            m = m.reshape(self.n, part.mul2, -1, d1).swapaxes(1, 2)
        return m.reshape(self.n, -1, d1)
