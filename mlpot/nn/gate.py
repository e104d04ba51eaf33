"""The gate: scalars are activated, other irreps multiplied by activated scalars."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from mlpot import kernels
from mlpot.o3 import Irreps
from mlpot.o3.layout import (
    Layout,
    check_layout,
    check_width,
    join_blocks,
    split_blocks,
    split_columns,
)
from mlpot.o3.tensor_product_sub import aligned

from .activation import Activation
from .gate_columns import gate_spec
from .normalization_constants import Convention, Function


class Gate(mlx.nn.Module):
    """Gate activation, as e3nn's (Weiler et al., arXiv:1807.02547).

        out = (+)_i act_i(scalars_i)  (+)  (+)_j act_j(gates_j) gated_j

    The input is ``irreps_in``: scalars + gates + gated, sorted and simplified. The output is
    activated scalars + gated; parities multiply.

    Args:
        irreps_scalars: scalars that are activated.
        act_scalars: one function, name or None per block.
        irreps_gates: scalars that multiply.
        act_gates: one per block.
        irreps_gated: as many channels as ``irreps_gates``.
        layout: of the features that go in and out.
        normalization: convention of the activations' constants.

    Raises:
        ValueError: scalars or gates that are not l = 0, or numbers of channels that differ.
    """

    def __init__(
        self,
        irreps_scalars: Irreps | str,
        act_scalars: Sequence[str | Function | None],
        irreps_gates: Irreps | str,
        act_gates: Sequence[str | Function | None],
        irreps_gated: Irreps | str,
        layout: Layout = "mul_ir",
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__()
        scalars, gates = Irreps(irreps_scalars), Irreps(irreps_gates)
        gated = Irreps(irreps_gated)
        for name, irreps in (("irreps_scalars", scalars), ("irreps_gates", gates)):
            if any(block.ir.l > 0 for block in irreps):
                raise ValueError(f"{name} is {irreps}; it may only have scalars (l = 0)")
        if gates.num_irreps != gated.num_irreps:
            raise ValueError(
                f"irreps_gated ({gated}) has {gated.num_irreps} channels, but irreps_gates "
                f"({gates}) has {gates.num_irreps}; each channel needs one gate"
            )
        self.layout: Layout = check_layout(layout)
        self._scalars = Activation(scalars, act_scalars, normalization)
        self._gates = Activation(gates, act_gates, normalization)
        self._gated = gated
        # Both cut so that each piece of gated meets gates of one parity.
        pieces, gate_pieces = aligned(gated.simplify(), self._gates.irreps_out.simplify())
        self._gate_widths = tuple(b.mul for b in pieces)
        self._cuts = _cuts(gated, self._gate_widths)
        product = Irreps(
            [
                (mul, (ir.l, ir.p * gate.ir.p))
                for (mul, ir), gate in zip(pieces, gate_pieces, strict=True)
            ]
        )
        self.irreps_out = self._scalars.irreps_out + product
        parts = [*scalars, *gates, *gated]
        ordered, place, _ = Irreps(parts).sort()
        self.irreps_in = ordered.simplify()
        self._members = _members(Irreps(parts), np.argsort(place, kind="stable"))
        self._spec = None
        if layout == "ir_mul":
            self._spec = gate_spec(
                self._members,
                (scalars, self._scalars.acts),
                (gates, self._gates.acts),
                gated,
                self._gate_widths,
            )

    def __call__(
        self, features: Float[mx.array, "*batch dim_in"]
    ) -> Float[mx.array, "*batch dim_out"]:
        """Gated features.

        Args:
            features: (..., irreps_in.dim).

        Returns:
            (..., irreps_out.dim).
        """
        check_width("features", features, self.irreps_in)
        lead = features.shape[:-1]
        n = int(np.prod(lead))
        if n == 0 or self.irreps_in.dim == 0:
            return mx.zeros((*lead, self.irreps_out.dim), dtype=features.dtype)
        if self._spec is not None:
            return kernels.gate(self._spec, features.reshape(n, -1)).reshape(*lead, -1)
        blocks = split_blocks(features.reshape(n, -1), self.irreps_in, self.layout)
        parts = self._cut(blocks, n)
        n_scalars, n_gates = len(self._scalars.irreps_in), len(self._gates.irreps_in)
        scalars = self._scalars.on_blocks(parts[:n_scalars])
        gates = self._gates.on_blocks(parts[n_scalars : n_scalars + n_gates])
        gated = self._gate(gates, parts[n_scalars + n_gates :])
        return join_blocks(scalars + gated, self.layout).reshape(*lead, -1)

    def _cut(self, blocks: list[mx.array], n: int) -> list[mx.array]:
        """(n, 2l+1, mul) blocks of scalars, gates and gated, in that order."""
        parts: dict[int, mx.array] = {}
        for block, members in zip(blocks, self._members, strict=True):
            pieces = split_columns(block, [mul for _, mul in members])
            for (part, _), piece in zip(members, pieces, strict=True):
                parts[part] = piece
        wanted = [*self._scalars.irreps_in, *self._gates.irreps_in, *self._gated]
        dtype = blocks[0].dtype
        return [
            parts[i] if i in parts else mx.zeros((n, block.ir.dim, 0), dtype=dtype)
            for i, block in enumerate(wanted)
        ]

    def _gate(self, gates: list[mx.array], gated: list[mx.array]) -> list[mx.array]:
        """Every piece of gated times its gates."""
        factors = _channels(gates, self._gate_widths)
        values = []
        for indices, widths in self._cuts:
            values.extend(_channels([gated[i] for i in indices], widths))
        return [value * factor for value, factor in zip(values, factors, strict=True)]

    def _extra_repr(self) -> str:
        return f"{self.irreps_in} -> {self.irreps_out}"


def _members(parts: Irreps, order: np.ndarray) -> list[list[tuple[int, int]]]:
    """Per block of the simplified, sorted input: (part, mul) in order; empty parts left out."""
    members: list[list[tuple[int, int]]] = []
    last = None
    for i in order:
        mul, ir = parts[int(i)]
        if mul == 0:
            continue
        if ir != last:
            members.append([])
            last = ir
        members[-1].append((int(i), mul))
    return members


def _cuts(gated: Irreps, widths: Sequence[int]) -> tuple[tuple[list[int], list[int]], ...]:
    """Per run of neighbours with one irrep: their indices, and the widths they are cut into."""
    filled = [i for i, block in enumerate(gated) if block.mul > 0]
    rest = list(widths)
    cuts = []
    for _, run in itertools.groupby(filled, key=lambda i: gated[i].ir):
        indices = list(run)
        total = sum(gated[i].mul for i in indices)
        own: list[int] = []
        while sum(own) < total:
            own.append(rest.pop(0))
        cuts.append((indices, own))
    return tuple(cuts)


def _channels(blocks: list[mx.array], widths: Sequence[int]) -> list[mx.array]:
    """The channels of some blocks cut anew."""
    blocks = [b for b in blocks if b.shape[-1] > 0]
    if [b.shape[-1] for b in blocks] == list(widths):
        return blocks
    joined = blocks[0] if len(blocks) == 1 else mx.concatenate(blocks, axis=-1)
    return split_columns(joined, widths)
