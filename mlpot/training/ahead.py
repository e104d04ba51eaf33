"""Preparing the next items while the present one is used; items in groups."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

_END = object()


def ahead(items: Iterable[Item], depth: int = 2) -> Iterator[Item]:
    """The same items in the same order, taken in a thread that is up to ``depth`` items ahead.

    An error in ``items`` is raised where the next one would have been used. The thread ends when
    the iterator is closed or used up.

    Args:
        items: advanced in the thread.
        depth: how many items may wait.

    Yields:
        The items.
    """
    ready: queue.Queue = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(value) -> bool:
        while not stop.is_set():
            try:
                ready.put(value, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
        except BaseException as error:
            put((None, error))
            return
        put((_END, None))

    thread = threading.Thread(target=work, name="mlpot-ahead", daemon=True)
    thread.start()
    try:
        while True:
            value, error = ready.get()
            if error is not None:
                raise error
            if value is _END:
                return
            yield value
    finally:
        stop.set()
        thread.join()


def grouped(items: Iterable[Item], n: int) -> Iterator[list[Item]]:
    """Lists of n items each, the last one with what is left."""
    iterator = iter(items)
    while group := list(itertools.islice(iterator, n)):
        yield group
