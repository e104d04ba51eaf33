"""Verbs that are stopped by Ctrl-C or SIGTERM say what is kept and how to go on."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer


@contextmanager
def stopping(message: str) -> Iterator[None]:
    """Ends an interrupted verb with a message and the exit code of its signal, 130 or 143.

    SIGTERM interrupts as Ctrl-C does, so that what is kept on an interruption is kept.

    Args:
        message: what is kept and how to go on.
    """
    from mlpot.workflows import Stopped

    def terminate(number: int, _frame: Any) -> NoReturn:
        raise Stopped(number)

    watched = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, terminate) if watched else None
    try:
        yield
    except KeyboardInterrupt as error:
        leave(error, message)
    finally:
        if watched:
            signal.signal(signal.SIGTERM, before)


def leave(error: KeyboardInterrupt, message: str) -> NoReturn:
    """Say that the verb was stopped, and end it."""
    typer.echo(f"mlpot: stopped; {message}", err=True)
    raise typer.Exit(128 + getattr(error, "number", signal.SIGINT)) from error


def command(verb: str, options: Iterable[tuple[str, Any]]) -> str:
    """A command to go on with, as it is typed.

    Args:
        verb: of mlpot.
        options: names and values; those that are None or False are left out, True needs no value.
    """
    words = ["mlpot", verb]
    for name, value in options:
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            words += [name, shlex.quote(f"{value:g}" if isinstance(value, float) else str(value))]
    return " ".join(words)
