"""Which backend computes the values of a primitive, and a record of what ran and why.

A primitive names the backends that could compute it, fastest first, each with a check that says
why it cannot take these arguments (a string) or that it can (None). The first that can is taken,
else plain MLX, the "reference". A check may also say that it could, but would be slower: it then
returns `Slower`, and is taken only where kernels are forced.

Choices are made when a graph is built, so under ``mx.compile`` once a trace.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from .backend import chosen

#: Says why a backend cannot take the arguments; None if it can.
Check = Callable[[], str | None]


class Slower(str):
    """Why a backend that could take the arguments is not the fastest for them."""


class Nothing(str):
    """Why no kernel is needed: nothing to compute, or plain MLX is as fast, forced or not."""


@dataclass(frozen=True)
class Choice:
    """What was chosen for a primitive, for `report`.

    Args:
        primitive: name of the primitive, e.g. "convolution.conv_x".
        backend: "reference", "native", "cuda" or "metal".
        refusals: (backend, reason) of those that would have come first.
        calls: how often (under ``mx.compile``: number of traces).
    """

    primitive: str
    backend: str
    refusals: tuple[tuple[str, str], ...]
    calls: int


class Report(tuple[Choice, ...]):
    """All choices so far, sorted by primitive; prints as a table.

    Attributes:
        notes: what else is to be told of the kernels.
    """

    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self._table(), *self.notes])

    def _table(self) -> str:
        if not self:
            return "no primitive has run yet"
        rows = [("primitive", "ran on", "calls", "not on")]
        for choice in self:
            why = "; ".join(f"{backend}: {reason}" for backend, reason in choice.refusals)
            rows.append((choice.primitive, choice.backend, str(choice.calls), why))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(
            "  ".join([*(row[i].ljust(widths[i]) for i in range(3)), row[3]]).rstrip()
            for row in rows
        )


_forced: ContextVar[bool | None] = ContextVar("mlpot_use_custom_kernel", default=None)
_counts: dict[tuple[str, str, tuple[tuple[str, str], ...]], int] = {}
_notes: dict[str, str] = {}
_lock = threading.Lock()


@contextlib.contextmanager
def forced(use_custom_kernel: bool | None) -> Iterator[None]:
    """Within the block: kernels always (True), never (False), or where they are faster (None).

    None leaves an outer choice in force. Derivatives of what is called within the block keep its
    choice, wherever they are traced.
    """
    if use_custom_kernel is None:
        yield
        return
    token = _forced.set(use_custom_kernel)
    try:
        yield
    finally:
        _forced.reset(token)


def forced_choice() -> bool | None:
    """What `forced` holds here: kernels always (True), never (False), or neither (None)."""
    return _forced.get()


def choose(
    primitive: str,
    offers: Sequence[tuple[str, Check]],
    use_custom_kernel: bool | None = None,
) -> str:
    """The backend for a primitive's values: the first offer that can, else "reference".

    Args:
        primitive: its name in the report.
        offers: (backend, check), fastest first.
        use_custom_kernel: True takes a backend even where plain MLX is faster, False takes none,
            None leaves it to the measured crossover points (or to `forced`).

    Returns:
        The backend's name.

    Raises:
        ValueError: kernels are forced by True and none can take the arguments, though there is
            something to compute; names the reasons.
    """
    force = _forced.get() if use_custom_kernel is None else use_custom_kernel
    asked = chosen()
    refusals: list[tuple[str, str]] = []
    backend, nothing = "reference", False
    for name, check in offers:
        if force is False:
            refusal: str | None = "switched off by use_custom_kernel=False"
        elif asked not in ("auto", name):
            refusal = f"mlpot.kernels.use({asked!r})"
        else:
            refusal = check()
        if refusal is None or (force and isinstance(refusal, Slower)):
            backend = name
            break
        nothing = nothing or isinstance(refusal, Nothing)
        refusals.append((name, str(refusal)))
    if force and backend == "reference" and not nothing:
        why = "; ".join(f"{name}: {reason}" for name, reason in refusals) or "it has none"
        raise ValueError(
            f"use_custom_kernel=True, but no kernel of {primitive} can run here ({why}); "
            "use None or False"
        )
    key = (primitive, backend, tuple(refusals))
    with _lock:
        _counts[key] = _counts.get(key, 0) + 1
    return backend


def report() -> Report:
    """Which backend computed each primitive so far, and why no faster one did.

    Returns:
        A tuple of `Choice`; ``print(mlpot.kernels.report())`` shows a table.
    """
    with _lock:
        found = [Choice(*key, calls) for key, calls in _counts.items()]
        notes = tuple(_notes.values())
    made = Report(sorted(found, key=lambda c: (c.primitive, c.backend, c.refusals)))
    made.notes = notes
    return made


def note(topic: str, text: str) -> None:
    """Have `report` tell this too, in the place of an earlier note on the topic; "": no more."""
    with _lock:
        _notes.pop(topic, None)
        if text:
            _notes[topic] = text


def clear_report() -> None:
    """Forget all choices so far."""
    with _lock:
        _counts.clear()
