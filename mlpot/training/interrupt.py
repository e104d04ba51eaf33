"""SIGINT and SIGTERM as a wish to stop at the next good moment."""

from __future__ import annotations

import signal
import threading


class Interrupted(Exception):  # noqa: N818, not an error
    """A run was stopped from outside after its state was saved.

    Args:
        number: of the signal.
        message: what was saved and how to go on.
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class SignalWatch:
    """``with SignalWatch() as watch:`` the first signal only sets ``watch.received``.

    A second one acts as usual. Outside the main thread, where Python gets no signals, nothing is
    watched.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict = {}

    def __enter__(self) -> SignalWatch:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, _frame) -> None:
        self.received = number
        signal.signal(number, self._before[number])
