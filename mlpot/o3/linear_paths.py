"""Which blocks a linear map joins, with which normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .irreps import Irreps


class LinearInstruction(NamedTuple):
    """Block ``i_in`` of the input goes into block ``i_out`` of the output.

    ``i_in`` is -1 for a bias. The matrix of shape ``path_shape`` is multiplied by
    ``path_weight``.
    """

    i_in: int
    i_out: int
    path_shape: tuple[int, ...]
    path_weight: float


class Group(NamedTuple):
    """All blocks of one irrep: one matrix product."""

    ins: tuple[int, ...]
    outs: tuple[int, ...]
    # (row, column) of the block matrix -> positions in the list of instructions
    pieces: dict[tuple[int, int], tuple[int, ...]]


def linear_instructions(
    irreps_in: Irreps,
    irreps_out: Irreps,
    pairs: Sequence[Sequence[int]] | None,
    f_in: int,
    path_normalization: str,
) -> list[LinearInstruction]:
    """Paths with their normalisation; every pair of equal irreps if ``pairs`` is None."""
    if path_normalization not in ("element", "path"):
        raise ValueError(
            f'path_normalization is {path_normalization!r}; choose "element" or "path"'
        )
    if pairs is None:
        pairs = [
            (i, o)
            for i, a in enumerate(irreps_in)
            for o, b in enumerate(irreps_out)
            if a.ir == b.ir
        ]
    for i, o in pairs:
        if irreps_in[i].ir != irreps_out[o].ir:
            raise ValueError(
                f"instruction ({i}, {o}) joins {irreps_in[i]} to {irreps_out[o]}; a linear map "
                "only joins equal irreps"
            )
    paths = []
    for i, o in pairs:
        into = [a for a, b in pairs if b == o]
        own = path_normalization == "path"
        fan_in = f_in * sum(irreps_in[i if own else a].mul for a in into)
        weight = fan_in**-0.5 if fan_in > 0 else 1.0
        paths.append(LinearInstruction(i, o, (irreps_in[i].mul, irreps_out[o].mul), weight))
    return paths


def bias_instructions(irreps_out: Irreps, biases: bool | Sequence[bool]) -> list[LinearInstruction]:
    """The biases as instructions without input; only 0e blocks may have one."""

    def scalar(ir) -> bool:
        return ir.l == 0 and ir.p == 1

    if isinstance(biases, bool):
        biases = [biases and scalar(b.ir) for b in irreps_out]
    if len(biases) != len(irreps_out):
        raise ValueError(
            f"biases has {len(biases)} entries; {irreps_out} has {len(irreps_out)} blocks"
        )
    for wanted, block in zip(biases, irreps_out, strict=True):
        if wanted and not scalar(block.ir):
            raise ValueError(f"a bias on {block} breaks the symmetry: only 0e may have one")
    return [
        LinearInstruction(-1, o, (irreps_out[o].mul,), 1.0)
        for o, wanted in enumerate(biases)
        if wanted
    ]


def group_paths(irreps_in: Irreps, irreps_out: Irreps, paths: list[LinearInstruction]) -> tuple:
    """Paths of one irrep together; empty blocks take no part."""
    found: dict = {}
    for k, path in enumerate(paths):
        if 0 not in path.path_shape:
            found.setdefault(irreps_in[path.i_in].ir, []).append(k)
    groups = []
    for members in found.values():
        pieces: dict[tuple[int, int], tuple[int, ...]] = {}
        for k in members:
            key = (paths[k].i_in, paths[k].i_out)
            pieces[key] = (*pieces.get(key, ()), k)
        groups.append(
            Group(
                tuple(sorted({i for i, _ in pieces})), tuple(sorted({o for _, o in pieces})), pieces
            )
        )
    return tuple(groups)
