"""Options that take several integers, as "3 3 3" or "3,3,3"."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

_NAMES = ("--supercell", "--mesh")
_INTEGERS = re.compile(r"-?\d+(,-?\d+)*,?")


class TriplesCommand(TyperCommand):
    """A verb whose ``--supercell`` and ``--mesh`` take one word or several."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join the integers after these options into one word each."""
        joined: list[str] = []
        i = 0
        while i < len(args):
            word = args[i]
            joined.append(word)
            i += 1
            if word in _NAMES:
                numbers = []
                while i < len(args) and _INTEGERS.fullmatch(args[i]):
                    numbers.append(args[i].rstrip(","))
                    i += 1
                if numbers:
                    joined.append(",".join(numbers))
        return super().parse_args(ctx, joined)


def integers(text: str, option: str) -> list[int]:
    """The integers in "3,3,3", "3 3 3" or "3x3x3".

    Raises:
        ValueError: anything else.
    """
    try:
        return [int(word) for word in re.split(r"[,\sx]+", text.strip())]
    except ValueError as error:
        raise ValueError(f"{option} {text!r} is not made of integers: give e.g. 3 3 3") from error
