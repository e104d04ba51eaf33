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
        call: computes everything and waits until it is there.
        outputs: numpy arrays by name from what ``call`` returned.
    """

    call: Callable[[], Any]
    outputs: Callable[[Any], dict[str, np.ndarray]]
