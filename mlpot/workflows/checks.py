"""Numbers that a user gives, looked at before any work."""

from __future__ import annotations

import math
from typing import Any


def check_positive(unit: str = "", **values: float) -> None:
    """Refuse what is not above zero and finite.

    Args:
        unit: of the values, for the message.
        values: by their names.

    Raises:
        ValueError: names the value.
    """
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(
                f"{name} is {value}; it must be a finite number above 0{f' {unit}' if unit else ''}"
            )


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is no integer of at least so many.

    Raises:
        ValueError: names the value.
    """
    if int(value) != value or value < least:
        raise ValueError(f"{name} is {value}; it must be an integer of at least {least}")


def check_chunk(chunk: int | None) -> None:
    """Refuse a number of products at a time that cannot be; None is as many as fit.

    Raises:
        ValueError: names the value.
    """
    if chunk is not None:
        check_count("chunk", chunk)
