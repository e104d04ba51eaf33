"""The type checker that tests/conftest.py puts on every function of the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import beartype

_checked = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))


def check(function: Callable) -> Callable:
    """Check arguments and result at each call; an int may stand for a float, as everywhere.

    ``Self`` means nothing to a checker that sees one function at a time and is passed over.
    """
    hints = getattr(function, "__annotations__", {})
    for name in [name for name, hint in hints.items() if hint in ("Self", Self)]:
        del hints[name]
    return _checked(function)
