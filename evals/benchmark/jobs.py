"""Something to time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Job:
    """One phase of one case under one implementation.

    Args:
        begin: asks the device to compute everything; may return before it has.
        wait: until what ``begin`` returned is there, and all that was begun before.
        outputs: numpy arrays by name from what ``begin`` returned.
    """

    begin: Callable[[], Any]
    wait: Callable[[Any], None]
    outputs: Callable[[Any], dict[str, np.ndarray]]

    def call(self) -> Any:
        """Compute everything and wait until it is there."""
        result = self.begin()
        self.wait(result)
        return result
