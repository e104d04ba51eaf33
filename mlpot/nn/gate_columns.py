"""The columns of component-major features that a gate activates and multiplies."""

from __future__ import annotations

from collections.abc import Sequence

from mlpot import kernels
from mlpot.o3 import Irreps

from .activation import ScaledFunction

#: Where a channel lies: (first column, distance of its components in columns).
Channel = tuple[int, int]


def gate_spec(
    members: Sequence[Sequence[tuple[int, int]]],
    scalars: tuple[Irreps, Sequence[ScaledFunction | None]],
    gates: tuple[Irreps, Sequence[ScaledFunction | None]],
    gated: Irreps,
    pieces: Sequence[int],
) -> kernels.GateSpec | None:
    """What `mlpot.kernels.gate` does for a gate with component-major features.

    Args:
        members: for each block of the input its (part, channels), where scalars, gates and gated
            are counted through as parts.
        scalars: irreps and their functions.
        gates: irreps and their functions.
        gated: irreps that the gates multiply.
        pieces: channels of each block of gated in the output.

    Returns:
        The specification; None where a function has no kernel.
    """
    parts = [*scalars[0], *gates[0], *gated]
    acts = [*scalars[1], *gates[1]]
    if any(act is not None and act.name is None for act in acts):
        return None
    channels = _channels(members, parts)
    n_scalars, n_gates = len(scalars[0]), len(gates[0])
    groups, at_out = [], 0
    for part in range(n_scalars):
        if channels[part]:
            name, constant = _function(acts[part])
            n = len(channels[part])
            groups.append(kernels.GateGroup(name, constant, n, channels[part][0][0], at_out))
            at_out += n
    # Every gate beside the channel that it multiplies, and that channel's place in the output.
    sources = [
        (part, *place) for part in range(n_scalars, n_scalars + n_gates) for place in channels[part]
    ]
    targets = [
        (part, *place)
        for part in range(n_scalars + n_gates, len(parts))
        for place in channels[part]
    ]
    bounds = [i for i, n in enumerate(pieces) for _ in range(n)]
    rows = list(zip(sources, targets, bounds, strict=True))
    start = 0
    for stop in range(1, len(rows) + 1):
        if stop < len(rows) and _continues(rows[stop - 1], rows[stop]):
            continue
        (gate_part, gate_column, _), (part, column, stride), piece = rows[start]
        name, constant = _function(acts[gate_part])
        mul = pieces[piece]
        place = at_out + start - bounds.index(piece)
        dim = parts[part].ir.dim
        vectors = tuple((column + m * stride, place + m * mul) for m in range(dim))
        groups.append(kernels.GateGroup(name, constant, stop - start, gate_column, None, vectors))
        if stop == len(rows) or rows[stop][2] != piece:
            at_out += dim * mul
        start = stop
    width = sum(block.dim for block in parts)
    return kernels.GateSpec(width, at_out, tuple(groups))


def _function(act: ScaledFunction | None) -> tuple[str | None, float]:
    return (None, 1.0) if act is None else (act.name, act.constant)


def _channels(members: Sequence[Sequence[tuple[int, int]]], parts: list) -> list[list[Channel]]:
    """The channels of each part."""
    found: list[list[Channel]] = [[] for _ in parts]
    offset = 0
    for block in members:
        width = sum(mul for _, mul in block)
        at = offset
        for part, mul in block:
            found[part] = [(at + u, width) for u in range(mul)]
            at += mul
        offset += width * parts[block[0][0]].ir.dim
    return found


def _continues(one: tuple, other: tuple) -> bool:
    """Whether two gates with what they multiply are neighbours of one group."""
    (gate, column, _), (part, place, _), piece = one
    following = ((gate, column + 1), (part, place + 1), piece)
    return following == (other[0][:2], other[1][:2], other[2])
