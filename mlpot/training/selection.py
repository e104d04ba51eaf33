"""Parameters chosen by patterns of their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

_PREFIX = "network."


def chosen(names: Sequence[str], patterns: Iterable[str], key: str) -> list[str]:
    """The names that match any of the patterns, in order.

    A pattern such as ``embedding.*`` or ``*.radial.*`` is compared with the whole name and with
    what follows ``network.``; ``*`` stands for anything, dots too.

    Args:
        names: of all parameters.
        patterns: at least one name must match each.
        key: of the configuration, for the message.

    Raises:
        ValueError: a pattern that matches nothing.
    """
    found = set()
    for pattern in patterns:
        matches = {name for name in names if _matches(name, pattern)}
        if not matches:
            raise ValueError(f"{key}: no parameter matches {pattern!r}{_hint(names, pattern)}")
        found |= matches
    return [name for name in names if name in found]


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name.removeprefix(_PREFIX), pattern)


def _hint(names: Sequence[str], pattern: str) -> str:
    short = [name.removeprefix(_PREFIX) for name in names]
    # A name without an ending is most often a part of the network: all of its parameters.
    within = [name for name in short if name.startswith(f"{pattern.rstrip('.')}.")]
    if within:
        return f": did you mean '{pattern.rstrip('.')}.*'?"
    close = get_close_matches(
        pattern.rstrip(".*"), short + [_part(n) for n in short], n=1, cutoff=0.5
    )
    if close:
        return f": did you mean {close[0] + ('.*' if close[0] not in short else '')!r}?"
    return f"; there are {', '.join(short[:8])}{', ...' if len(short) > 8 else ''}"


def _part(name: str) -> str:
    return name.rpartition(".")[0]
