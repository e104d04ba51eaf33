"""A training that was stopped from outside."""

from __future__ import annotations


class Interrupted(Exception):  # noqa: N818, not an error
    """A run was stopped from outside after its state was saved.

    Args:
        number: of the signal.
        message: what was saved and how to go on.
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number
