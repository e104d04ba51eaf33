"""How a tensor product is computed: few large matrix products, planned once.

Blocks are (n, 2l+1, mul) inside. Three ways of computing, chosen per instruction:

- product: t[k, v, u] = sum_ij c C[i, j, k] x[i, u] y[v, j] for every channel pair, then the
  weights. All couplings that share a block of x are one batched matrix product M(y) x, and
  M(y) is one matrix product with the couplings. (uvw, u<vw, uvuv, uvu<v, and uvu)
- diagonal: t[k, u] for equal channels only, outer product of components times the couplings.
  (uuu, uuw)
- first: the weights mix the channels of one input before a diagonal product. (uvv, and uvu
  where y has several channels)

Where one side is a scalar no coupling is needed at all: the product is plain multiplication.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import mlx.core as mx
import numpy as np

from mlpot.kernels import Constant

from .irreps import Irreps
from .layout import Layout, join_blocks, split_blocks, split_columns
from .tensor_product_instructions import Instruction
from .tensor_product_modes import apply_weights, diagonal, outer_scalar
from .tensor_product_second import Key, Part, Second, runs_of
from .wigner3j import wigner_3j_numpy


class Plan:
    """The computation of one tensor product.

    Args:
        irreps1, irreps2, irreps_out: blocks of the inputs and of the output.
        instructions: complete instructions.
    """

    def __init__(
        self,
        irreps1: Irreps,
        irreps2: Irreps,
        irreps_out: Irreps,
        instructions: Sequence[Instruction],
    ) -> None:
        self.irreps1, self.irreps2, self.irreps_out = irreps1, irreps2, irreps_out
        self.instructions = tuple(instructions)
        self.runs = runs_of(irreps2)
        self.run_of = {i2: r for r, run in enumerate(self.runs) for i2 in run}
        self.active = [
            k
            for k, ins in enumerate(instructions)
            if ins.path_weight != 0
            and 0 not in ins.path_shape
            and irreps1[ins.i_in1].mul * irreps2[ins.i_in2].mul * irreps_out[ins.i_out].mul > 0
        ]
        self.products: dict[Key, list[int]] = {}
        self.diagonals: dict[tuple[int, int], list[int]] = {}
        self.firsts: list[int] = []
        for k in self.active:
            ins = self.instructions[k]
            mode, mul2 = ins.connection_mode, irreps2[ins.i_in2].mul
            if mode in ("uuu", "uuw"):
                self.diagonals.setdefault((ins.i_in1, ins.i_in2), []).append(k)
            elif mode == "uvv" or (mode == "uvu" and ins.has_weight and mul2 > 1):
                self.firsts.append(k)
            else:
                self.products.setdefault(self._key(ins), []).append(k)
        self.scalar_keys = [key for key in self.products if 1 in self._dims(key)]
        self.groups: dict[int, list[Part]] = self._plan_groups()
        self.couplings = {
            pair: self._stacked([self.instructions[k] for k in members])
            for pair, members in self.diagonals.items()
        } | {k: self._stacked([self.instructions[k]]) for k in self.firsts}
        # With y all ones and scalar, a uvw product is a linear map of x.
        self.linear_in_ones = (
            all(b.ir.l == 0 for b in irreps2)
            and not self.diagonals
            and not self.firsts
            and all(ins.connection_mode == "uvw" for ins in instructions)
        )

    def _key(self, ins: Instruction) -> Key:
        factor = ins.path_weight
        if 1 in (self.irreps1[ins.i_in1].ir.dim, self.irreps2[ins.i_in2].ir.dim):
            factor = ins.path_weight / self.irreps_out[ins.i_out].ir.dim ** 0.5
        return Key(ins.i_in1, ins.i_in2, self.irreps_out[ins.i_out].ir.l, factor)

    def _dims(self, key: Key) -> tuple[int, int]:
        return self.irreps1[key.i1].ir.dim, self.irreps2[key.i2].ir.dim

    def _plan_groups(self) -> dict[int, list[Part]]:
        found: dict[tuple[int, int], list[Key]] = {}
        for key in self.products:
            if 1 not in self._dims(key):
                found.setdefault((key.i1, self.run_of[key.i2]), []).append(key)
        groups: dict[int, list[Part]] = {}
        for (i1, run), keys in found.items():
            members = self.runs[run]
            offsets = dict(
                zip(
                    members,
                    np.cumsum([0] + [self.irreps2[i].ir.dim for i in members]),
                    strict=False,
                )
            )
            width = sum(self.irreps2[i].ir.dim for i in members)
            blocks = []
            for key in keys:
                l1, l2 = self.irreps1[i1].ir.l, self.irreps2[key.i2].ir.l
                coupling = np.zeros((width, 2 * key.l_out + 1, 2 * l1 + 1))
                start = int(offsets[key.i2])
                coupling[start : start + 2 * l2 + 1] = key.factor * wigner_3j_numpy(
                    l1, l2, key.l_out
                ).transpose(1, 2, 0)
                blocks.append(coupling)
            merged = np.concatenate(blocks, axis=1).reshape(width, -1)
            mul2 = self.irreps2[members[0]].mul
            groups.setdefault(i1, []).append(Part(run, mul2, Constant(merged), tuple(keys)))
        return groups

    def _stacked(self, members: Sequence[Instruction]) -> Constant | float:
        """(d1 d2, K) couplings of a pair of blocks; only a factor where one is scalar."""
        first = members[0]
        a, b = self.irreps1[first.i_in1].ir, self.irreps2[first.i_in2].ir
        if 1 in (a.dim, b.dim):
            return 1.0
        stack = [
            m.path_weight * wigner_3j_numpy(a.l, b.l, self.irreps_out[m.i_out].ir.l)
            for m in members
        ]
        return Constant(np.concatenate(stack, axis=2).reshape(a.dim * b.dim, -1))

    def __call__(
        self,
        x: mx.array,
        y: mx.array | None,
        weights: Sequence[mx.array | None],
        shared: bool,
        layout: Layout,
    ) -> mx.array:
        """The product.

        Args:
            x: (n, dim1) in ``layout``.
            y: (n, dim2) in mul_ir; None for ones, only if ``linear_in_ones``.
            weights: per instruction, of its path shape, or (n, *path_shape) unless shared.
            shared: whether the weights have no batch axis.
            layout: of x and of the result.

        Returns:
            (n, dim_out) in ``layout``.
        """
        n = x.shape[0]
        xs = split_blocks(x, self.irreps1, layout)
        outs: list[list[mx.array]] = [[] for _ in self.irreps_out]
        if y is None:
            self._linear(xs, weights, outs)
        else:
            seconds = Second(self.irreps2, self.runs, y)
            self._run_products(xs, seconds, weights, shared, outs)
            self._run_diagonals(xs, seconds, weights, shared, outs)
            self._run_firsts(xs, seconds, weights, shared, outs)
        blocks = [
            sum(terms[1:], terms[0])
            if terms
            else mx.zeros((n, block.ir.dim, block.mul), dtype=x.dtype)
            for block, terms in zip(self.irreps_out, outs, strict=True)
        ]
        return join_blocks(blocks, layout)

    def _linear(self, xs: list, weights: Sequence, outs: list) -> None:
        for key, members in self.products.items():
            matrices = [weights[k].sum(axis=1) for k in members]
            matrix = mx.concatenate(matrices, axis=-1) if len(matrices) > 1 else matrices[0]
            self._spread(xs[key.i1] @ (matrix * key.factor), members, outs)

    def _spread(self, joined: mx.array, members: Sequence[int], outs: list) -> None:
        """Hand out the channels of several outputs that were computed together."""
        blocks = [self.instructions[k].i_out for k in members]
        widths = [self.irreps_out[io].mul for io in blocks]
        for io, piece in zip(blocks, split_columns(joined, widths), strict=True):
            outs[io].append(piece)

    def _run_products(
        self, xs: list, seconds: Second, weights: Sequence, shared: bool, outs: list
    ) -> None:
        def finish(key: Key, t: mx.array) -> None:
            members = self.products[key]
            modes = {self.instructions[k].connection_mode for k in members}
            if shared and modes == {"uvw"} and len(members) > 1:
                matrix = mx.concatenate([weights[k] for k in members], axis=-1)
                self._spread(apply_weights("uvw", t, matrix, shared), members, outs)
                return
            for k in members:
                ins = self.instructions[k]
                result = apply_weights(ins.connection_mode, t, weights[k], shared)
                outs[ins.i_out].append(result)

        for key in self.scalar_keys:
            if shared and self._mix_before(key):
                members = self.products[key]
                matrix = mx.concatenate([weights[k] for k in members], axis=-1)
                self._spread(self._mix(xs[key.i1], seconds, key, matrix), members, outs)
            else:
                finish(key, outer_scalar(xs[key.i1], seconds.block(key.i2), key.factor))
        for i1, parts in self.groups.items():
            couplings = [seconds.couple(part, xs[i1].shape[1]) for part in parts]
            m = mx.concatenate(couplings, axis=1) if len(couplings) > 1 else couplings[0]
            t = m @ xs[i1]
            keys = [(key, part.mul2) for part in parts for key in part.keys]
            rows = [(2 * key.l_out + 1) * mul2 for key, mul2 in keys]
            for (key, mul2), piece in zip(keys, split_columns(t, rows, axis=1), strict=True):
                finish(key, piece.reshape(t.shape[0], 2 * key.l_out + 1, mul2, -1))

    def _mix_before(self, key: Key) -> bool:
        """Whether fewer numbers are handled if the weights act on x before scalar y does."""
        members = [self.instructions[k] for k in self.products[key]]
        n_out = sum(self.irreps_out[m.i_out].mul for m in members)
        return (
            self.irreps2[key.i2].ir.l == 0
            and all(m.connection_mode == "uvw" for m in members)
            and n_out < self.irreps1[key.i1].mul
        )

    def _mix(self, x: mx.array, seconds: Second, key: Key, matrix: mx.array) -> mx.array:
        u, v, w = matrix.shape
        y = seconds.block(key.i2).reshape(-1, 1, v, 1) * key.factor
        mixed = (x @ matrix.reshape(u, v * w)).reshape(x.shape[0], x.shape[1], v, w)
        product = mixed * y
        return product.sum(axis=2) if v > 1 else product.reshape(x.shape[0], x.shape[1], w)

    def _run_diagonals(
        self, xs: list, seconds: Second, weights: Sequence, shared: bool, outs: list
    ) -> None:
        for (i1, i2), members in self.diagonals.items():
            t = diagonal(xs[i1], seconds.block(i2), self.couplings[i1, i2])
            instructions = [self.instructions[k] for k in members]
            if 1 in (self.irreps1[i1].ir.dim, self.irreps2[i2].ir.dim):
                pieces = [_scaled(t, self._key(ins).factor) for ins in instructions]
            else:
                rows = [self.irreps_out[ins.i_out].ir.dim for ins in instructions]
                pieces = split_columns(t, rows, axis=1)
            for k, ins, piece in zip(members, instructions, pieces, strict=True):
                outs[ins.i_out].append(
                    apply_weights(ins.connection_mode, piece, weights[k], shared)
                )

    def _run_firsts(
        self, xs: list, seconds: Second, weights: Sequence, shared: bool, outs: list
    ) -> None:
        for k in self.firsts:
            ins, w = self.instructions[k], weights[k]
            x, y = xs[ins.i_in1], seconds.block(ins.i_in2)
            if ins.connection_mode == "uvv":
                x = x.sum(axis=-1, keepdims=True) if w is None else x @ w
            else:
                assert w is not None
                y = (y.swapaxes(1, 2) @ w.swapaxes(-2, -1)).swapaxes(1, 2)
            t = diagonal(x, y, self.couplings[k])
            if 1 in (self.irreps1[ins.i_in1].ir.dim, self.irreps2[ins.i_in2].ir.dim):
                t = _scaled(t, self._key(ins).factor)
            outs[ins.i_out].append(t)


def weight_pieces(
    instructions: Sequence[Instruction], weight: mx.array | None
) -> list[mx.array | None]:
    """Weights of each instruction in its path shape, None where it has none.

    Args:
        instructions: complete instructions.
        weight: flat weights, (..., weight_numel).
    """
    pieces: list[mx.array | None] = [None] * len(instructions)
    if weight is not None:
        weighted = [k for k, ins in enumerate(instructions) if ins.has_weight]
        sizes = [prod(instructions[k].path_shape) for k in weighted]
        for k, part in zip(weighted, split_columns(weight, sizes), strict=True):
            pieces[k] = part.reshape(*weight.shape[:-1], *instructions[k].path_shape)
    return pieces


def _scaled(t: mx.array, factor: float) -> mx.array:
    return t if abs(factor - 1.0) < 1e-15 else t * factor
