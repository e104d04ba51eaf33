"""Instructions of a tensor product: which blocks meet, how, and with which normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .irreps import Irreps

MODES = ("uvw", "uvu", "uvv", "uuw", "uuu", "uvuv", "uvu<v", "u<vw")
_SAME_MUL = ("uuw", "uuu", "uvu<v", "u<vw")


class Instruction(NamedTuple):
    """Blocks ``i_in1`` and ``i_in2`` go into block ``i_out``.

    ``path_weight`` is the factor in front of the unit-norm Wigner 3j, all normalisation
    included; ``path_shape`` the shape of the weights.
    """

    i_in1: int
    i_in2: int
    i_out: int
    connection_mode: str
    has_weight: bool
    path_weight: float
    path_shape: tuple[int, ...]


def path_shape(mode: str, mul1: int, mul2: int, mul_out: int) -> tuple[int, ...]:
    """Shape of the weights of a path."""
    pairs = mul1 * (mul1 - 1) // 2
    return {
        "uvw": (mul1, mul2, mul_out),
        "uvu": (mul1, mul2),
        "uvv": (mul1, mul2),
        "uuw": (mul1, mul_out),
        "uuu": (mul1,),
        "uvuv": (mul1, mul2),
        "uvu<v": (pairs,),
        "u<vw": (pairs, mul_out),
    }[mode]


def fan_in(mode: str, mul1: int, mul2: int) -> int:
    """How many products are summed in one output channel."""
    return {
        "uvw": mul1 * mul2,
        "uvu": mul2,
        "uvv": mul1,
        "uuw": mul1,
        "uuu": 1,
        "uvuv": 1,
        "uvu<v": 1,
        "u<vw": mul1 * (mul1 - 1) // 2,
    }[mode]


def complete_instructions(
    irreps1: Irreps,
    irreps2: Irreps,
    irreps_out: Irreps,
    instructions: Sequence[Sequence],
    variances: tuple[Sequence[float], Sequence[float], Sequence[float]],
    irrep_normalization: str,
    path_normalization: str,
) -> tuple[Instruction, ...]:
    """Instructions with shapes and normalised path weights.

        path_weight = sqrt(A var_out w / D)

    A = 2 l_out + 1 (``component``), dim1 dim2 (``norm``) or 1 (``none``); w is the user's path
    weight; D sums var1 var2 fan_in over all instructions into the same block (``element``), or
    is the own var1 var2 fan_in times their number (``path``), or 1 (``none``).

    Args:
        irreps1: blocks of the first input.
        irreps2: blocks of the second input.
        irreps_out: blocks of the output.
        instructions: (i_in1, i_in2, i_out, mode, has_weight[, path_weight]).
        variances: of the blocks of the two inputs and of the output.
        irrep_normalization: "component", "norm" or "none".
        path_normalization: "element", "path" or "none".

    Raises:
        ValueError: a normalisation or an instruction is not allowed.
    """
    if irrep_normalization not in ("component", "norm", "none"):
        raise ValueError(
            f'irrep_normalization is {irrep_normalization!r}; choose "component", "norm" or "none"'
        )
    if path_normalization not in ("element", "path", "none"):
        raise ValueError(
            f'path_normalization is {path_normalization!r}; choose "element", "path" or "none"'
        )
    full = [(*ins, 1.0) if len(ins) == 5 else tuple(ins) for ins in instructions]
    for ins in full:
        _check(irreps1, irreps2, irreps_out, ins)
    var1, var2, var_out = variances

    def elements(ins: tuple) -> float:
        i1, i2, _, mode, *_ = ins
        return var1[i1] * var2[i2] * fan_in(mode, irreps1[i1].mul, irreps2[i2].mul)

    complete = []
    for ins in full:
        i1, i2, io, mode, has_weight, weight = ins
        a, b, c = irreps1[i1], irreps2[i2], irreps_out[io]
        numerator = {"component": c.ir.dim, "norm": a.ir.dim * b.ir.dim, "none": 1}
        into = [other for other in full if other[2] == io]
        denominator = {
            "element": sum(elements(other) for other in into),
            "path": elements(ins) * len(into),
            "none": 1.0,
        }[path_normalization]
        # A denominator of zero belongs to empty blocks only.
        ratio = numerator[irrep_normalization] / (denominator or 1.0)
        complete.append(
            Instruction(
                i1,
                i2,
                io,
                mode,
                bool(has_weight),
                float(np.sqrt(ratio * var_out[io] * weight)),
                path_shape(mode, a.mul, b.mul, c.mul),
            )
        )
    return tuple(complete)


def _check(irreps1: Irreps, irreps2: Irreps, irreps_out: Irreps, ins: tuple) -> None:
    """Raises ValueError for an instruction that is not allowed."""
    if len(ins) != 6:
        raise ValueError(
            f"instruction {ins} is not (i_in1, i_in2, i_out, mode, has_weight[, path_weight])"
        )
    i1, i2, io, mode, has_weight, weight = ins
    if mode not in MODES:
        raise ValueError(f"connection mode is {mode!r}; the modes are {', '.join(MODES)}")
    for name, index, irreps in (
        ("i_in1", i1, irreps1),
        ("i_in2", i2, irreps2),
        ("i_out", io, irreps_out),
    ):
        if not 0 <= index < len(irreps):
            raise ValueError(f"{name} is {index} in {ins}; {irreps} has {len(irreps)} blocks")
    a, b, c = irreps1[i1], irreps2[i2], irreps_out[io]
    if a.ir.p * b.ir.p != c.ir.p or not abs(a.ir.l - b.ir.l) <= c.ir.l <= a.ir.l + b.ir.l:
        raise ValueError(f"{a.ir} x {b.ir} does not contain {c.ir} (instruction {ins})")
    if weight < 0:
        raise ValueError(f"path weight is {weight} in {ins}; it is a variance, so at least 0")
    if mode in _SAME_MUL and a.mul != b.mul:
        raise ValueError(f"mode {mode} needs equal multiplicities, not {a} and {b}")
    wanted = {
        "uvu": a.mul,
        "uvv": b.mul,
        "uuu": a.mul,
        "uvuv": a.mul * b.mul,
        "uvu<v": a.mul * (a.mul - 1) // 2,
    }.get(mode)
    if mode == "uuw" and not has_weight:
        wanted = 1
    if wanted is not None and c.mul != wanted:
        raise ValueError(
            f"mode {mode} of {a} and {b} gives multiplicity {wanted}; the output block is {c}"
        )
    if mode in ("uvw", "u<vw") and not has_weight:
        raise ValueError(f"mode {mode} always has weights: set has_weight to True in {ins}")


def output_mask(irreps_out: Irreps, instructions: Sequence[Instruction]) -> np.ndarray:
    """1 for the components of the output that some instruction can reach, else 0."""
    reached = {
        ins.i_out for ins in instructions if ins.path_weight != 0 and 0 not in ins.path_shape
    }
    columns = [np.full(block.dim, float(i in reached)) for i, block in enumerate(irreps_out)]
    return np.concatenate(columns) if columns else np.zeros(0)
