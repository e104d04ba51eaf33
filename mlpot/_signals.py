"""SIGINT and SIGTERM as a wish to stop at the next good moment."""

from __future__ import annotations

import signal
import threading


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
