"""One line about what runs, with the time that is left."""

from __future__ import annotations

import sys
import time


class Progress:
    """Counts finished phases; on a terminal the line is rewritten, elsewhere a new one printed.

    Args:
        total: number of phases.
    """

    def __init__(self, total: int) -> None:
        self.total, self.done, self.start = total, 0, time.perf_counter()
        self.terminal = sys.stderr.isatty()

    def begin(self, what: str) -> None:
        """Say what runs now."""
        gone = time.perf_counter() - self.start
        left = gone / self.done * (self.total - self.done) if self.done else None
        text = f"[{self.done + 1}/{self.total}] {what}, {clock(gone)} gone"
        text += f", about {clock(left)} left" if left is not None else ""
        start, end = ("\r\033[K", "") if self.terminal else ("", "\n")
        print(start + text, end=end, file=sys.stderr, flush=True)

    def finish(self) -> None:
        """One more phase is done."""
        self.done += 1

    def close(self) -> None:
        """End the line."""
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
