"""The potentials of a calculator: from paths, patterns or objects."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterable, Iterator
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from mlpot import io
from mlpot.models import Potential
from mlpot.models.short_features import find_feature_dtype

Model = str | os.PathLike[str] | Potential
DTYPES = {"float32": mx.float32, "float64": mx.float64}


def find_dtype(dtype: str | mx.Dtype) -> str:
    """Name of a precision, "float32" or "float64"; ValueError for any other."""
    name = str(dtype).removeprefix("mlx.core.")
    if name not in DTYPES:
        raise ValueError(f'dtype must be "float32" or "float64", got {dtype!r}')
    return name


def find_models(model: Model | Iterable[Model]) -> list[str | Potential]:
    """What a calculator was given, as a list of absolute paths and potentials.

    Args:
        model: a path, a pattern with ``*``, ``?`` or ``[]``, the folder of a trained committee, the
            name of a published potential, a potential, or several of these.

    Raises:
        FileNotFoundError: no file fits a pattern, or a published potential was not fetched yet.
        ValueError: nothing was given.
        TypeError: something else was given.
    """
    if isinstance(model, Potential):
        return [model]
    if isinstance(model, str | os.PathLike):
        return [*io.model_paths(model)]
    if not isinstance(model, Iterable):
        raise TypeError(f"a model is a path, a pattern or a Potential, not {type(model).__name__}")
    found = [entry for one in model for entry in find_models(one)]
    if not found:
        raise ValueError("no model was given: give a path, a pattern, a Potential or several")
    return found


def snapshot(potential: Potential, dtype: str) -> Potential:
    """A copy in this precision, which later changes of the potential do not reach.

    Arrays are shared as long as they stay the same.
    """
    arrays = [array for _, array in tree_flatten(potential.parameters())]
    copied = copy.deepcopy(potential, {id(array): array for array in arrays})
    return _set_precision(copied, dtype)


def _set_precision(potential: Potential, dtype: str) -> Potential:
    if potential.dtype != DTYPES[dtype]:
        with mx.stream(mx.cpu):
            potential.set_dtype(DTYPES[dtype])
            mx.eval(potential.parameters())
    return potential


@contextlib.contextmanager
def keep_random_state() -> Iterator[None]:
    """Potentials draw weights when they are made; MLX's global generator must not move."""
    state: Any = mx.random.state
    high, low = np.array(state[0]).tolist()
    try:
        yield
    finally:
        # The state is one key, and a key is the two halves of its seed.
        mx.random.seed((high << 32) | low)


def load_member(
    model: str | Potential, dtype: str, feature_dtype: str | mx.Dtype | None = None
) -> Potential:
    """Read a potential if it is a path, in the wanted precision.

    Args:
        model: a path, or a potential, of which a snapshot is taken.
        dtype: "float32" or "float64".
        feature_dtype: see `Potential.set_feature_dtype`; None: as the potential has it.

    Raises:
        ValueError: another feature_dtype, or one of 16 bits beside float64.
    """
    if isinstance(model, Potential):
        found = snapshot(model, dtype)
    else:
        with keep_random_state():
            found = _set_precision(io.load(model), dtype)
    if feature_dtype is None or find_feature_dtype(feature_dtype) == found.feature_dtype:
        return found
    if dtype == "float64" and find_feature_dtype(feature_dtype) != mx.float32:
        raise ValueError(
            f"feature_dtype is {str(feature_dtype).removeprefix('mlx.core.')!r}, for potentials in "
            'float32; the dtype is "float64"'
        )
    found.set_feature_dtype(feature_dtype)
    return found
