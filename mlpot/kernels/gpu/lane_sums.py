"""Sums over the lanes of a warp of several numbers at once, each ending in a lane of its own.

Summing n numbers one by one over 32 lanes takes 5 n exchanges. Here in each step a lane hands half
of its numbers to its partner and takes over the partner's share of the other half, which leaves
every number in one lane after about n exchanges.
"""

from __future__ import annotations

from collections.abc import Sequence


def store_lane_sums(
    names: Sequence[str], lanes: int, array: str, row: str, condition: str = ""
) -> list[str]:
    """Statements that store ``array[row + j]`` = sum over a group of lanes of ``names[j]``.

    Args:
        names: float variables, which are overwritten.
        lanes: size of the groups of neighbouring lanes, a power of two.
        array: an output of floats.
        row: where the sums start.
        condition: stores happen only where it holds, the same in all lanes of a group.
    """
    stem = names[0]
    lines: list[str] = []
    held = list(names)
    # A lane holds the numbers first, first + 1, ..., the leading `count` of them real.
    lines.append(f"int {stem}_first = 0, {stem}_count = {len(names)};")
    distance = lanes // 2
    while distance and len(held) > 1:
        half = (len(held) + 1) // 2
        upper = f"{stem}_up{distance}"
        lines.append(f"const bool {upper} = (LANE & {distance}) != 0;")
        new = []
        for t in range(half):
            a, b = held[t], held[half + t] if half + t < len(held) else "0.0f"
            name = f"{stem}_{distance}_{t}"
            given = f"SHUFFLE_XOR({upper} ? {a} : {b}, {distance})"
            lines.append(f"const float {name} = ({upper} ? {b} : {a}) + {given};")
            new.append(name)
        held = new
        lines += [
            f"if ({upper}) {{ {stem}_first += {half}; {stem}_count -= {half}; }}",
            f"else if ({stem}_count > {half}) {stem}_count = {half};",
        ]
        distance //= 2
    whole = 2 * distance
    while distance:
        for i, name in enumerate(held):
            held[i] = f"{stem}_{distance}_{i}"
            lines.append(f"const float {held[i]} = {name} + SHUFFLE_XOR({name}, {distance});")
        distance //= 2
    conditions = [condition] if condition else []
    if whole:
        conditions.append(f"(LANE & {whole - 1}) == 0")
    for t, name in enumerate(held):
        test = " && ".join([*conditions, f"{t} < {stem}_count"])
        lines.append(f"if ({test}) {array}[{row} + {stem}_first + {t}] = {name};")
    return lines
