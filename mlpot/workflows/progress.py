"""A progress bar with the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def bar(console: Console, what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while the block runs; it gets a function of (done, wanted)."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=console) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done, wanted: shown.update(task, completed=done, total=wanted)
