"""Linear maps between irreps: the channels of equal irreps are mixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from mlpot.kernels import Constant, block_linear, block_linear_pays

from .irreps import Irreps
from .layout import Layout, check_layout, check_width, join_blocks, split_blocks, split_columns
from .linear_items import LinearItems
from .linear_paths import Group, bias_instructions, group_paths, linear_instructions
from .scalar_maps import linear_map
from .weights import check_weight, resolve_weight_flags


class Linear(mlx.nn.Module):
    """Linear equivariant map, as e3nn's.

        out[w, m] = sum_u weight[u, w] x[u, m] / sqrt(fan_in) + bias[w]

    with fan_in the number of channels that reach an output block (``element``), or the block's
    own times the number of blocks that do (``path``). Weights are drawn from N(0, 1).

    Args:
        irreps_in: input.
        irreps_out: output.
        f_in: features have an axis of this size before the last, mixed as well.
        f_out: the same for the output; give both or neither.
        internal_weights: whether the module owns ``weight`` and ``bias``.
        shared_weights: whether one weight serves the whole batch; else (..., weight_numel)
            weights are given in the call.
        instructions: pairs (i_in, i_out); every pair of equal irreps by default.
        biases: True for a bias on every 0e block, or one boolean per output block.
        path_normalization: "element" or "path".
        layout: of the features that go in and out; weights keep e3nn's order in both.

    Raises:
        ValueError: inconsistent arguments.
    """

    def __init__(
        self,
        irreps_in: Irreps | str,
        irreps_out: Irreps | str,
        *,
        f_in: int | None = None,
        f_out: int | None = None,
        internal_weights: bool | None = None,
        shared_weights: bool | None = None,
        instructions: Sequence[Sequence[int]] | None = None,
        biases: bool | Sequence[bool] = False,
        path_normalization: str = "element",
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__()
        self.irreps_in, self.irreps_out = Irreps(irreps_in), Irreps(irreps_out)
        self.layout: Layout = check_layout(layout)
        if (f_in is None) != (f_out is None):
            raise ValueError(f"f_in is {f_in} and f_out is {f_out}; give both or neither")
        self.f_in, self.f_out = f_in, f_out
        self._f_shape: tuple[int, ...] = () if f_in is None or f_out is None else (f_in, f_out)
        paths = linear_instructions(
            self.irreps_in, self.irreps_out, instructions, f_in or 1, path_normalization
        )
        bias_paths = bias_instructions(self.irreps_out, biases)
        self.instructions = (*paths, *bias_paths)
        self._n_paths = len(paths)
        self.weight_numel = sum(int(np.prod(p.path_shape)) for p in paths)
        self.bias_numel = sum(p.path_shape[0] for p in bias_paths)
        self.shared_weights, self.internal_weights = resolve_weight_flags(
            shared_weights, internal_weights, self.weight_numel > 0 or self.bias_numel > 0
        )
        self._groups = group_paths(self.irreps_in, self.irreps_out, paths)
        self._map = (
            None
            if self._f_shape
            else linear_map(self.irreps_in, self.irreps_out, paths, self.layout)
        )
        self._items = (
            None
            if self._f_shape or self._map is not None
            else LinearItems(
                *(self.irreps_in, self.irreps_out, paths, self.layout),
                *(self.shared_weights, self._plain),
            )
        )
        if self.internal_weights and self.weight_numel > 0:
            self.weight = mx.random.normal((*self._f_shape, self.weight_numel))
        if self.internal_weights and self.bias_numel > 0:
            self.bias = mx.zeros((*self._f_shape[1:], self.bias_numel))
        reached = {p.i_out for p in self.instructions if 0 not in p.path_shape}
        self._mask = Constant(
            np.concatenate(
                [np.full(b.dim, float(i in reached)) for i, b in enumerate(self.irreps_out)]
                or [np.zeros(0)]
            )
        )

    @property
    def output_mask(self) -> Float[mx.array, " dim_out"]:
        """1 for the components of the output that an instruction reaches, else 0 (mul_ir)."""
        return self._mask(mx.float32)

    def __call__(
        self,
        features: Float[mx.array, "... dim_in"],
        weight: Float[mx.array, "... weight_numel"] | None = None,
        bias: Float[mx.array, "... bias_numel"] | None = None,
    ) -> Float[mx.array, "... dim_out"]:
        """Apply the map.

        Args:
            features: (..., irreps_in.dim), or (..., f_in, irreps_in.dim).
            weight: replaces the module's: (weight_numel,) or, unless shared,
                (..., weight_numel); with f_in an (f_in, f_out) pair of axes stands before the
                last.
            bias: the same with bias_numel and f_out.

        Returns:
            (..., irreps_out.dim), or (..., f_out, irreps_out.dim).

        Raises:
            ValueError: a shape does not fit or weights are missing.
        """
        check_width("features", features, self.irreps_in)
        lead = features.shape[:-1]
        if self.f_in is not None:
            if not lead or lead[-1] != self.f_in:
                raise ValueError(
                    f"features have the shape {tuple(features.shape)}; the axis before the last "
                    f"must be f_in = {self.f_in}"
                )
            lead = lead[:-1]
        weight = check_weight(self, "weight", weight, (*self._f_shape, self.weight_numel), lead)
        bias = check_weight(self, "bias", bias, (*self._f_shape[1:], self.bias_numel), lead)
        n = int(np.prod(lead))
        f_out = self._f_shape[1:]
        if n == 0 or self.irreps_out.dim == 0:
            return mx.zeros((*lead, *f_out, self.irreps_out.dim), dtype=features.dtype)
        flat = features.reshape(n * (self.f_in or 1), self.irreps_in.dim)
        if bias is None and weight is not None and self.irreps_in.dim > 0:
            if (
                self._map is not None
                and self.shared_weights
                and block_linear_pays(self._map, flat, weight)
            ):
                out = block_linear(self._map, flat, None, weight)
                return out.reshape(*lead, self.irreps_out.dim)
            if self._items is not None and self._items.pays(flat, weight):
                return self._items(flat, weight).reshape(*lead, self.irreps_out.dim)
        out = self._plain(flat, weight, bias)
        return out.reshape(*lead, *f_out, self.irreps_out.dim)

    def _plain(
        self, flat: mx.array, weight: mx.array | None, bias: mx.array | None = None
    ) -> mx.array:
        """The map of (n f_in, dim_in) features in plain MLX."""
        n = flat.shape[0] // (self.f_in or 1)
        outs = self._outputs(split_blocks(flat, self.irreps_in, self.layout), weight, n)
        if bias is not None:
            self._add_bias(outs, bias, n)
        blocks = [
            mx.zeros((n * (self.f_out or 1), b.ir.dim, b.mul), dtype=flat.dtype)
            if out is None
            else out
            for b, out in zip(self.irreps_out, outs, strict=True)
        ]
        return join_blocks(blocks, self.layout)

    def _outputs(self, blocks: list, weight: mx.array | None, n: int) -> list:
        """(n f_out, 2l+1, mul) blocks of the output, None where no path leads."""
        outs: list = [None] * len(self.irreps_out)
        if weight is None or self.irreps_in.dim == 0:
            return outs
        f_in, f_out = self.f_in or 1, self.f_out or 1
        pieces = self._pieces(weight)
        for group in self._groups:
            # (n f_in, d, mul) -> (n, d, f_in mul): the axis f_in is more channels.
            parts = [blocks[i] for i in group.ins]
            x = parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=-1)
            d, mul = x.shape[1], x.shape[2]
            if f_in > 1:
                x = x.reshape(n, f_in, d, mul).swapaxes(1, 2).reshape(n, d, f_in * mul)
            y = x @ self._matrix(group, pieces)
            if f_out > 1:
                y = y.reshape(n, d, f_out, -1).swapaxes(1, 2).reshape(n * f_out, d, -1)
            widths = [self.irreps_out[i].mul for i in group.outs]
            for i, out in zip(group.outs, split_columns(y, widths), strict=True):
                outs[i] = out
        return outs

    def _pieces(self, weight: mx.array) -> list[mx.array]:
        """Matrix of each path, (..., [f_in, f_out,] mul_in, mul_out)."""
        paths = self.instructions[: self._n_paths]
        sizes = [int(np.prod(p.path_shape)) for p in paths]
        return [
            piece.reshape(*weight.shape[:-1], *p.path_shape)
            for p, piece in zip(paths, split_columns(weight, sizes), strict=True)
        ]

    def _matrix(self, group: Group, pieces: list[mx.array]) -> mx.array:
        """Block matrix (..., f_in mul_in, f_out mul_out) of a group, normalisation included."""
        scales = {self.instructions[k].path_weight for ks in group.pieces.values() for k in ks}
        common = scales.pop() if len(scales) == 1 else None

        def entry(row: int, column: int) -> mx.array:
            found = group.pieces.get((row, column))
            if not found:
                like = pieces[next(iter(group.pieces.values()))[0]]
                shape = (*like.shape[:-2], self.irreps_in[row].mul, self.irreps_out[column].mul)
                return mx.zeros(shape, dtype=like.dtype)
            terms = [
                pieces[k] if common is not None else pieces[k] * self.instructions[k].path_weight
                for k in found
            ]
            return sum(terms[1:], terms[0])

        rows = []
        for i in group.ins:
            columns = [entry(i, o) for o in group.outs]
            rows.append(columns[0] if len(columns) == 1 else mx.concatenate(columns, axis=-1))
        matrix = rows[0] if len(rows) == 1 else mx.concatenate(rows, axis=-2)
        if common is not None and common != 1.0:
            matrix = matrix * common
        if self.f_in is not None:
            *lead, f_in, f_out, mul_in, mul_out = matrix.shape
            matrix = matrix.swapaxes(-3, -2).reshape(*lead, f_in * mul_in, f_out * mul_out)
        return matrix

    def _add_bias(self, outs: list, bias: mx.array, n: int) -> None:
        paths = self.instructions[self._n_paths :]
        pieces = split_columns(bias, [p.path_shape[0] for p in paths])
        for path, piece in zip(paths, pieces, strict=True):
            mul = path.path_shape[0]
            if mul == 0:
                continue
            out, f_out = outs[path.i_out], self.f_out or 1
            # (f_out, mul), or (n, f_out, mul) for each item, against (n f_out, 1, mul).
            piece = piece.reshape(-1, f_out, mul)
            if out is None:
                rows = mx.broadcast_to(piece, (n, f_out, mul))
            else:
                rows = out.reshape(n, f_out, mul) + piece
            outs[path.i_out] = rows.reshape(n * f_out, 1, mul)

    def weight_views(
        self, weight: mx.array | None = None, yield_instruction: bool = False
    ) -> Iterator:
        """The matrix of every path (biases left out).

        Args:
            weight: flat weights, the module's own by default.
            yield_instruction: yield (index, instruction, matrix) instead of the matrix.
        """
        pieces = self._pieces(self._own_weight(weight)) if self._n_paths else []
        for k, piece in enumerate(pieces):
            yield (k, self.instructions[k], piece) if yield_instruction else piece

    def weight_view_for_instruction(
        self, instruction: int, weight: mx.array | None = None
    ) -> mx.array:
        """The matrix of one path, (..., mul_in, mul_out)."""
        return self._pieces(self._own_weight(weight))[instruction]

    def _own_weight(self, weight: mx.array | None) -> mx.array:
        if weight is not None:
            return weight
        if not self.internal_weights:
            raise ValueError("the module has no weights of its own: pass weight=")
        return self.weight

    def _extra_repr(self) -> str:
        return f"{self.irreps_in} -> {self.irreps_out} | {self.weight_numel} weights"
