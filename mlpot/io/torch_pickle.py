"""The pickles in PyTorch's files as plain data: an interpreter that can call nothing.

A pickle is a program. This one is read with the standard library's list of opcodes and run on a
stack that holds numbers, text, containers and arrays only: names of Python objects stay names, and
what a name stands for is looked up in a table of the few constructors that weights need
(`torch_constructors`). Anything
else is refused before it could mean something.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np

from .torch_constructors import (
    BUILDERS,
    ONLY_NAMED,
    Array,
    DType,
    Name,
    PickleError,
    byte_order,
    filled,
    is_storage,
)

_MARK = object()


def load_plain(data: bytes, storage: Callable[[tuple], np.ndarray]) -> Any:
    """What a pickle holds, as dictionaries, lists, tuples, numbers, text and numpy arrays.

    Args:
        data: the pickle.
        storage: gives the flat array for a persistent id; for tensors.

    Raises:
        ValueError: a name that is not on the list, an opcode that weights do not need, or damage.
    """
    try:
        return _plain(_Machine(storage).run(data))
    except PickleError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise PickleError(f"the pickle is damaged ({type(error).__name__}: {error})") from error


class _Machine:
    """Stack and memo of one pickle."""

    def __init__(self, storage: Callable[[tuple], np.ndarray]) -> None:
        self.storage = storage
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            name = opcode.name
            if name == "STOP":
                return self.stack.pop()
            if name in _PUSH:
                self.stack.append(argument)
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name]())
            elif name in ("PROTO", "FRAME"):
                pass
            elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
                assert argument is not None
                self.memo[int(argument)] = self.stack[-1]
            elif name == "MEMOIZE":
                self.memo[len(self.memo)] = self.stack[-1]
            elif name in ("BINGET", "LONG_BINGET", "GET"):
                assert argument is not None
                self.stack.append(self.memo[int(argument)])
            elif name in _ACTIONS:
                _ACTIONS[name](self, argument)
            else:
                raise PickleError(f"the pickle uses {name}, which no weights need: it was not run")
        raise PickleError("the pickle ends too early")

    def to_mark(self) -> list[Any]:
        """Everything above the last mark."""
        for depth in range(len(self.stack) - 1, -1, -1):
            if self.stack[depth] is _MARK:
                found = self.stack[depth + 1 :]
                del self.stack[depth:]
                return found
        raise PickleError("the pickle is damaged (a mark is missing)")

    def take(self, n: int) -> list[Any]:
        if len(self.stack) < n:
            raise PickleError("the pickle is damaged (its stack is empty)")
        found = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        return found

    def named(self, module: Any, name: Any) -> None:
        known = Name(str(module), str(name))
        if known not in BUILDERS and not is_storage(known) and known not in ONLY_NAMED:
            raise PickleError(
                f"the pickle asks for {known.module}.{known.name}, which no weights need: it was "
                "not run. A file that wants this may be harmful"
            )
        self.stack.append(known)

    def reduce(self) -> None:
        function, arguments = self.take(2)
        if not isinstance(function, Name) or function not in BUILDERS:
            raise PickleError("the pickle calls something that is no constructor of weights")
        self.stack.append(BUILDERS[function](*arguments))

    def build(self) -> None:
        target, state = self.take(2)
        if isinstance(target, Array):
            target.value = filled(state)
        elif isinstance(target, DType):
            target.order = byte_order(state)
        elif not isinstance(target, dict):
            raise PickleError("the pickle sets the state of something that has none")
        # The state of a dictionary is notes of PyTorch about its entries.
        self.stack.append(target)

    def append(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise PickleError("the pickle appends to something that is no list")
        target.extend(values)

    def set_items(self, pairs: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            raise PickleError("the pickle sets entries of something that is no dictionary")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            # Not tuples: the hash of one in another, a million times, overflows the stack.
            if not isinstance(key, str | int | float | bool | None):
                raise PickleError(f"the pickle has a key of type {type(key).__name__}")
            target[key] = value

    def persistent(self) -> None:
        identifier = self.take(1)[0]
        if not isinstance(identifier, tuple) or not identifier or identifier[0] != "storage":
            raise PickleError("the pickle refers to something outside that is no storage")
        self.stack.append(self.storage(identifier))


_PUSH = {
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BININT", "BININT1", "BININT2",
    "INT", "LONG1", "LONG4", "LONG", "BINFLOAT", "FLOAT", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8",
    "SHORT_BINSTRING", "BINSTRING",
}  # fmt: skip
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,
    "MARK": lambda: _MARK,
}


def _tuple(n: int) -> Callable[[_Machine, Any], None]:
    return lambda m, _: m.stack.append(tuple(m.take(n)))


_ACTIONS: dict[str, Callable[[_Machine, Any], Any]] = {
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.to_mark())),
    "APPEND": lambda m, _: m.append(m.take(1)),
    "APPENDS": lambda m, _: m.append(m.to_mark()),
    "ADDITEMS": lambda m, _: m.append(m.to_mark()),
    "SETITEM": lambda m, _: m.set_items(m.take(2)),
    "SETITEMS": lambda m, _: m.set_items(m.to_mark()),
    "LIST": lambda m, _: m.stack.append(m.to_mark()),
    "POP": lambda m, _: m.take(1),
    "POP_MARK": lambda m, _: m.to_mark(),
    # The two parts of a name are joined by a space in the standard library's list.
    "GLOBAL": lambda m, argument: m.named(*str(argument).split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.named(*m.take(2)),
    "REDUCE": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: m.build(),
    "BINPERSID": lambda m, _: m.persistent(),
}


def _plain(value: Any) -> Any:
    """Unfinished arrays replaced by their values, without recursion (a list may hold itself)."""
    if isinstance(value, Array):
        return value.value
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        container = waiting.pop()
        if id(container) in seen:
            continue
        seen.add(id(container))
        if isinstance(container, dict):
            entries: Any = list(container.items())
        elif isinstance(container, list):
            entries = list(enumerate(container))
        else:
            continue
        for key, entry in entries:
            if isinstance(entry, Array):
                container[key] = entry.value
            else:
                waiting.append(entry)
    return value
