"""Tensor products whose instructions follow from the irreps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from .irrep import Irrep
from .irreps import Irreps
from .layout import Layout, regrouped
from .tensor_product import TensorProduct


def irrep_filter(irreps: Iterable[Irrep | str] | None) -> set[Irrep] | None:
    """The irreps to keep as a set; None keeps all."""
    return None if irreps is None else {Irrep(ir) for ir in irreps}


def sort_outputs(
    blocks: Sequence[tuple[int, Irrep]], instructions: Sequence[tuple]
) -> tuple[Irreps, list[tuple]]:
    """Output blocks in the order of irreps, and instructions that lead to their new places."""
    irreps, place, _ = Irreps(blocks).sort()
    moved = [(i1, i2, place[io], *rest) for i1, i2, io, *rest in instructions]
    return irreps, moved


def aligned(irreps1: Irreps, irreps2: Irreps) -> tuple[Irreps, Irreps]:
    """The same irreps cut into blocks so that both have the same multiplicities.

    Raises:
        ValueError: the numbers of channels differ.
    """
    if irreps1.num_irreps != irreps2.num_irreps:
        raise ValueError(
            f"{irreps1} has {irreps1.num_irreps} channels and {irreps2} has "
            f"{irreps2.num_irreps}; an elementwise product needs equal numbers"
        )
    ends = sorted({0, *_ends(irreps1), *_ends(irreps2)})
    cuts = [
        [
            (
                stop - start,
                next(b.ir for b, end in zip(irreps, _ends(irreps), strict=True) if end > start),
            )
            for start, stop in itertools.pairwise(ends)
        ]
        for irreps in (irreps1, irreps2)
    ]
    return Irreps(cuts[0]), Irreps(cuts[1])


def _ends(irreps: Irreps) -> list[int]:
    """Number of channels up to and with each block."""
    return list(itertools.accumulate(block.mul for block in irreps))


class FullyConnectedTensorProduct(TensorProduct):
    """Every allowed path, every channel with every other (mode uvw), all weighted.

    Where the second input has only scalars (species one-hot, ones) this is a matrix product and
    no coupling is evaluated; pass ``y=None`` for all ones, and it is a linear map.

    Args:
        irreps_in1: first input.
        irreps_in2: second input.
        irreps_out: output.
        irrep_normalization, path_normalization: see ``TensorProduct``.
        **kwargs: passed on to ``TensorProduct``.
    """

    def __init__(
        self,
        irreps_in1: Irreps | str,
        irreps_in2: Irreps | str,
        irreps_out: Irreps | str,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        **kwargs,
    ) -> None:
        in1, in2, out = Irreps(irreps_in1), Irreps(irreps_in2), Irreps(irreps_out)
        instructions = [
            (i1, i2, io, "uvw", True, 1.0)
            for i1, a in enumerate(in1)
            for i2, b in enumerate(in2)
            for io, c in enumerate(out)
            if c.ir in a.ir * b.ir
        ]
        super().__init__(
            in1,
            in2,
            out,
            instructions,
            irrep_normalization=irrep_normalization,
            path_normalization=path_normalization,
            **kwargs,
        )


class FullTensorProduct(TensorProduct):
    """Every product of two channels, without weights; the output is sorted by irrep.

    Args:
        irreps_in1: first input.
        irreps_in2: second input.
        filter_ir_out: irreps to keep; all by default.
        irrep_normalization: see ``TensorProduct``.
        layout: see ``TensorProduct``; the inputs are regrouped, see ``irreps_in1``.
        **kwargs: passed on to ``TensorProduct``.
    """

    def __init__(
        self,
        irreps_in1: Irreps | str,
        irreps_in2: Irreps | str,
        filter_ir_out: Iterable[Irrep | str] | None = None,
        irrep_normalization: str | None = None,
        layout: Layout = "mul_ir",
        **kwargs,
    ) -> None:
        in1, in2 = Irreps(irreps_in1).simplify(), Irreps(irreps_in2).simplify()
        in1 = regrouped(irreps_in1, in1, layout)
        keep = irrep_filter(filter_ir_out)
        out, instructions = [], []
        for i1, a in enumerate(in1):
            for i2, b in enumerate(in2):
                for ir in a.ir * b.ir:
                    if keep is None or ir in keep:
                        instructions.append((i1, i2, len(out), "uvuv", False))
                        out.append((a.mul * b.mul, ir))
        irreps_out, instructions = sort_outputs(out, instructions)
        super().__init__(
            in1,
            in2,
            irreps_out,
            instructions,
            irrep_normalization=irrep_normalization,
            layout=layout,
            **kwargs,
        )


class ElementwiseTensorProduct(TensorProduct):
    """Channel by channel, without weights; both inputs have the same number of channels.

    Args:
        irreps_in1: first input.
        irreps_in2: second input.
        filter_ir_out: irreps to keep; all by default.
        irrep_normalization: see ``TensorProduct``.
        layout: see ``TensorProduct``; the inputs are regrouped, see ``irreps_in1``.
        **kwargs: passed on to ``TensorProduct``.

    Raises:
        ValueError: the numbers of channels differ.
    """

    def __init__(
        self,
        irreps_in1: Irreps | str,
        irreps_in2: Irreps | str,
        filter_ir_out: Iterable[Irrep | str] | None = None,
        irrep_normalization: str | None = None,
        layout: Layout = "mul_ir",
        **kwargs,
    ) -> None:
        in1, in2 = aligned(Irreps(irreps_in1).simplify(), Irreps(irreps_in2).simplify())
        in1 = regrouped(irreps_in1, in1, layout)
        keep = irrep_filter(filter_ir_out)
        out, instructions = [], []
        for i, (a, b) in enumerate(zip(in1, in2, strict=True)):
            for ir in a.ir * b.ir:
                if keep is None or ir in keep:
                    instructions.append((i, i, len(out), "uuu", False))
                    out.append((a.mul, ir))
        super().__init__(
            in1,
            in2,
            Irreps(out),
            instructions,
            irrep_normalization=irrep_normalization,
            layout=layout,
            **kwargs,
        )
