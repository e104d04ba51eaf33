"""A workflow that is stopped from outside hands over what it has reached."""

from __future__ import annotations

from typing import Any


class Stopped(KeyboardInterrupt):
    """SIGINT or SIGTERM came, and the step under way was finished first.

    Whoever does not know it sees what Ctrl-C always gives, a KeyboardInterrupt.

    Args:
        number: of the signal.
        reached: what the workflow had got to; None where that is nothing of use.
    """

    def __init__(self, number: int, reached: Any = None) -> None:
        super().__init__(f"stopped by signal {number}")
        self.number, self.reached = number, reached
