"""The pickles in PyTorch's files as plain data: an interpreter that can call nothing.

A pickle is a program. This one is read with the standard library's list of opcodes and run on a
stack that holds numbers, text, containers and arrays only: names of Python objects stay names, and
what a name stands for is looked up in a table of the few constructors that weights need. Anything
else is refused before it could mean something.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

#: dtype of every kind of storage.
STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_NUMPY_DTYPES = {"f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "b1"}


class PickleError(ValueError):
    """The pickle does something that weights do not need, or is damaged."""


@dataclass(frozen=True)
class Name:
    """A Python object that a pickle names; never looked up."""

    module: str
    name: str


@dataclass
class _Array:
    """A numpy array whose content comes in a later opcode."""

    value: np.ndarray | None = None


@dataclass
class _DType:
    name: str
    order: str = "<"


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
        if known not in _BUILDERS and not _is_storage(known) and known not in _ONLY_NAMED:
            raise PickleError(
                f"the pickle asks for {known.module}.{known.name}, which no weights need: it was "
                "not run. A file that wants this may be harmful"
            )
        self.stack.append(known)

    def reduce(self) -> None:
        function, arguments = self.take(2)
        if not isinstance(function, Name) or function not in _BUILDERS:
            raise PickleError("the pickle calls something that is no constructor of weights")
        self.stack.append(_BUILDERS[function](*arguments))

    def build(self) -> None:
        target, state = self.take(2)
        if isinstance(target, _Array):
            target.value = _filled(state)
        elif isinstance(target, _DType):
            target.order = _order(state)
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


def _is_storage(name: Name) -> bool:
    return name.module in ("torch", "torch.storage") and name.name in STORAGES


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> np.ndarray:
    """A tensor from its storage; sizes are checked against it before anything is made."""
    if not isinstance(storage, np.ndarray) or storage.ndim != 1:
        raise PickleError("a tensor has no storage")
    shape, steps = tuple(map(int, size)), tuple(map(int, stride))
    count = 1
    for length in shape:
        count *= length
    if min((*shape, *steps, int(offset)), default=0) < 0 or len(shape) != len(steps):
        raise PickleError(f"a tensor has the shape {shape} and the strides {steps}")
    if count == 0:
        return np.zeros(shape if max(shape) <= len(storage) else (0,), dtype=storage.dtype)
    last = int(offset) + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    if last >= len(storage) or count > len(storage):
        raise PickleError(
            f"a tensor of the shape {shape} reaches beyond its storage of {len(storage)} numbers"
        )
    item = storage.dtype.itemsize
    strides = tuple(step * item for step in steps)
    return np.lib.stride_tricks.as_strided(storage[int(offset) :], shape, strides).copy()


def _array(subtype: Any = None, shape: Any = None, code: Any = None) -> _Array:
    return _Array()


def _dtype(name: Any, *_: Any) -> _DType:
    if name not in _NUMPY_DTYPES:
        raise PickleError(f"an array has the dtype {name!r}; only plain numbers are read")
    return _DType(name)


def _order(state: Any) -> str:
    order = state[1]
    if order not in ("<", "|", "="):
        raise PickleError(f"an array has the byte order {order!r}; only little-endian is read")
    return "<"


def _filled(state: Any) -> np.ndarray:
    """Array of a numpy state (version, shape, dtype, Fortran order, bytes)."""
    _, shape, dtype, fortran, content = state
    if not isinstance(dtype, _DType) or not isinstance(content, bytes):
        raise PickleError("an array has no plain content")
    flat = np.frombuffer(content, dtype=f"{dtype.order}{dtype.name}")
    return flat.reshape(tuple(map(int, shape)), order="F" if fortran else "C").copy()


def _scalar(dtype: Any, content: Any) -> Any:
    return _filled((1, (), dtype, False, content)).item()


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise PickleError(f"bytes are written in {encoding!r}")
    return str(text).encode("latin-1")


def _ordered_dict(*pairs: Any) -> dict:
    if pairs and pairs != ([],):
        raise PickleError("an ordered dictionary is made from something")
    return {}


_BUILDERS: dict[Name, Callable[..., Any]] = {
    Name("collections", "OrderedDict"): _ordered_dict,
    Name("torch._utils", "_rebuild_tensor_v2"): _tensor,
    Name("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    Name("torch", "device"): lambda *parts: str(parts[0]),
    Name("numpy", "dtype"): _dtype,
    Name("_codecs", "encode"): _encoded,
}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _BUILDERS[Name(_module, "_reconstruct")] = _array
    _BUILDERS[Name(_module, "scalar")] = _scalar
_ONLY_NAMED = {
    Name("numpy", "ndarray"),
    *(Name("torch", d) for d in ("float32", "float64", "int64")),
}


def _plain(value: Any) -> Any:
    """Unfinished arrays replaced by their values, without recursion (a list may hold itself)."""
    if isinstance(value, _Array):
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
            if isinstance(entry, _Array):
                container[key] = entry.value
            else:
                waiting.append(entry)
    return value
