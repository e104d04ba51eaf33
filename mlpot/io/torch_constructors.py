"""What names in the pickles of PyTorch's files stand for: the few constructors of weights."""

from __future__ import annotations

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
class Array:
    """A numpy array whose content comes in a later opcode."""

    value: np.ndarray | None = None


@dataclass
class DType:
    """A dtype of numpy whose byte order comes in a later opcode."""

    name: str
    order: str = "<"


def is_storage(name: Name) -> bool:
    """Whether a name is that of a kind of storage."""
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


def _array(subtype: Any = None, shape: Any = None, code: Any = None) -> Array:
    return Array()


def _dtype(name: Any, *_: Any) -> DType:
    if name not in _NUMPY_DTYPES:
        raise PickleError(f"an array has the dtype {name!r}; only plain numbers are read")
    return DType(name)


def byte_order(state: Any) -> str:
    """Byte order in the state of a numpy dtype."""
    order = state[1]
    if order not in ("<", "|", "="):
        raise PickleError(f"an array has the byte order {order!r}; only little-endian is read")
    return "<"


def filled(state: Any) -> np.ndarray:
    """Array of a numpy state (version, shape, dtype, Fortran order, bytes)."""
    _, shape, dtype, fortran, content = state
    if not isinstance(dtype, DType) or not isinstance(content, bytes):
        raise PickleError("an array has no plain content")
    flat = np.frombuffer(content, dtype=f"{dtype.order}{dtype.name}")
    return flat.reshape(tuple(map(int, shape)), order="F" if fortran else "C").copy()


def _scalar(dtype: Any, content: Any) -> Any:
    return filled((1, (), dtype, False, content)).item()


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise PickleError(f"bytes are written in {encoding!r}")
    return str(text).encode("latin-1")


def _ordered_dict(*pairs: Any) -> dict:
    if pairs and pairs != ([],):
        raise PickleError("an ordered dictionary is made from something")
    return {}


#: Constructors that may be called, by their names.
BUILDERS: dict[Name, Callable[..., Any]] = {
    Name("collections", "OrderedDict"): _ordered_dict,
    Name("torch._utils", "_rebuild_tensor_v2"): _tensor,
    Name("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    Name("torch", "device"): lambda *parts: str(parts[0]),
    Name("numpy", "dtype"): _dtype,
    Name("_codecs", "encode"): _encoded,
}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    BUILDERS[Name(_module, "_reconstruct")] = _array
    BUILDERS[Name(_module, "scalar")] = _scalar
#: Names that may stand in a pickle and are never called.
ONLY_NAMED = {
    Name("numpy", "ndarray"),
    *(Name("torch", d) for d in ("float32", "float64", "int64")),
}
