"""Pick blocks out of features, and the identity."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn
from jaxtyping import Float

from mlpot.o3 import Irrep, Irreps
from mlpot.o3.layout import check_width, split_columns


class Extract(mlx.nn.Module):
    """Several selections of blocks; both layouts are alike here.

    Args:
        irreps_in: input.
        irreps_outs: one set of irreps per selection.
        instructions: per selection the indices of its blocks in ``irreps_in``.
        squeeze_out: give the array itself where there is one selection, not a tuple.

    Raises:
        ValueError: the blocks chosen are not those of ``irreps_outs``.
    """

    def __init__(
        self,
        irreps_in: Irreps | str,
        irreps_outs: Sequence[Irreps | str],
        instructions: Sequence[Sequence[int]],
        squeeze_out: bool = False,
    ) -> None:
        super().__init__()
        self.irreps_in = Irreps(irreps_in)
        self.irreps_outs = tuple(Irreps(irreps) for irreps in irreps_outs)
        self.instructions = tuple(tuple(chosen) for chosen in instructions)
        self.squeeze_out = squeeze_out
        if len(self.irreps_outs) != len(self.instructions):
            raise ValueError(
                f"{len(self.irreps_outs)} irreps_outs and {len(self.instructions)} instructions; "
                "give one instruction per output"
            )
        for irreps, chosen in zip(self.irreps_outs, self.instructions, strict=True):
            picked = Irreps([self.irreps_in[i] for i in chosen])
            if picked != irreps:
                raise ValueError(f"blocks {chosen} of {self.irreps_in} are {picked}, not {irreps}")

    def __call__(self, x: Float[mx.array, "*batch dim"]) -> mx.array | tuple[mx.array, ...]:
        """The selections.

        Args:
            x: (..., irreps_in.dim).

        Returns:
            Tuple of (..., irreps_outs[i].dim); a single array with ``squeeze_out``.
        """
        check_width("x", x, self.irreps_in)
        blocks = split_columns(x, [block.dim for block in self.irreps_in])
        outs = tuple(
            mx.concatenate([blocks[i] for i in chosen], axis=-1)
            if chosen
            else mx.zeros((*x.shape[:-1], 0), dtype=x.dtype)
            for chosen in self.instructions
        )
        return outs[0] if self.squeeze_out and len(outs) == 1 else outs


class ExtractIr(Extract):
    """All blocks of one irrep.

    Args:
        irreps_in: input.
        ir: the irrep.
    """

    def __init__(self, irreps_in: Irreps | str, ir: Irrep | str) -> None:
        irreps_in, ir = Irreps(irreps_in), Irrep(ir)
        chosen = [i for i, block in enumerate(irreps_in) if block.ir == ir]
        irreps_out = Irreps([irreps_in[i] for i in chosen])
        super().__init__(irreps_in, [irreps_out], [chosen], squeeze_out=True)
        self.ir, self.irreps_out = ir, irreps_out


class Identity(mlx.nn.Module):
    """Give the input back.

    Args:
        irreps_in: input.
        irreps_out: the same irreps up to how they are grouped.

    Raises:
        ValueError: the two differ.
    """

    def __init__(self, irreps_in: Irreps | str, irreps_out: Irreps | str) -> None:
        super().__init__()
        self.irreps_in = Irreps(irreps_in).simplify()
        self.irreps_out = Irreps(irreps_out).simplify()
        if self.irreps_in != self.irreps_out:
            raise ValueError(f"{self.irreps_in} and {self.irreps_out} are not the same irreps")

    def __call__(self, x: Float[mx.array, "*batch dim"]) -> Float[mx.array, "*batch dim"]:
        """``x`` itself."""
        check_width("x", x, self.irreps_in)
        return x

    def _extra_repr(self) -> str:
        return f"{self.irreps_in}"
