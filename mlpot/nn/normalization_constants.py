"""Constants k that give k f(z) unit second moment for standard normal z.

Three conventions, because weights of other packages only give their outputs with the constants
that they were trained with: ``exact`` integrates, ``e3nn`` repeats e3nn's Monte-Carlo estimate
(one million normal numbers of torch's generator with seed 0), ``e3nn_jax`` the mean over the
quantiles of one million and one equal probabilities.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from typing import Literal

import mlx.core as mx
import mlx.nn
import numpy as np

from mlpot import kernels

Convention = Literal["exact", "e3nn", "e3nn_jax", "none"]
Function = Callable[[mx.array], mx.array]
CONVENTIONS = ("exact", "e3nn", "e3nn_jax", "none")

_FUNCTIONS: dict[str, Function] = {
    "silu": kernels.silu,
    "sigmoid": kernels.sigmoid,
    "tanh": kernels.tanh,
    "abs": mx.abs,
}
# MLX's own forms of these functions are less accurate in float64; the constants are the same.
_ALIASES = {
    mx.sigmoid: "sigmoid",
    mlx.nn.sigmoid: "sigmoid",
    mlx.nn.silu: "silu",
    mx.tanh: "tanh",
    mlx.nn.tanh: "tanh",
}
_KNOWN = {
    ("silu", "exact"): 1.6765324703315558,
    ("sigmoid", "exact"): 1.846228545339117,
    ("tanh", "exact"): 1.5925374197232727,
    ("silu", "e3nn"): 1.6791767923989418,
    ("sigmoid", "e3nn"): 1.8467055342154763,
    ("tanh", "e3nn"): 1.5937334472592695,
    ("silu", "e3nn_jax"): 1.6765620560798837,
    ("sigmoid", "e3nn_jax"): 1.846229176566333,
    ("tanh", "e3nn_jax"): 1.5925386426301726,
}
# A constant that is 1 up to this is left out, as the two packages do.
_ONE_WITHIN = {"exact": 1e-12, "e3nn": 1e-4, "e3nn_jax": 1e-5}


def resolve(act: str | Function) -> Function:
    """The function for a name (silu, sigmoid, tanh, abs) or the function itself.

    Raises:
        ValueError: unknown name.
    """
    if isinstance(act, str):
        if act not in _FUNCTIONS:
            raise ValueError(f"activation is {act!r}; the names are {', '.join(_FUNCTIONS)}")
        return _FUNCTIONS[act]
    return act


def kernel_name(act: str | Function) -> str | None:
    """The name under which `mlpot.kernels.gate` has a function; None if it has not."""
    function = resolve(act)
    name = next((n for n, f in _FUNCTIONS.items() if f is function), None)
    return name if name in kernels.GATE_FUNCTIONS else None


def activation_constant(act: str | Function, convention: Convention = "e3nn") -> float:
    """The constant k of an activation, E[(k f(z))^2] = 1 for z ~ N(0, 1).

    Args:
        act: function of one array, or its name.
        convention: "exact", "e3nn", "e3nn_jax", or "none" for k = 1.

    Returns:
        k; exactly 1.0 where the convention leaves a constant near 1 out.

    Raises:
        ValueError: unknown convention or name.
    """
    if convention not in CONVENTIONS:
        raise ValueError(f"normalization is {convention!r}; choose one of {', '.join(CONVENTIONS)}")
    if convention == "none":
        return 1.0
    function = resolve(act)
    name = _ALIASES.get(function) or next((n for n, f in _FUNCTIONS.items() if f is function), None)
    value = _KNOWN.get((name, convention)) if name else None
    if value is None:
        value = _moment(function, convention) ** -0.5
    return 1.0 if abs(value - 1.0) < _ONE_WITHIN[convention] else value


def _moment(function: Function, convention: str) -> float:
    """E[f(z)^2] by the rule of a convention, evaluated in float64."""
    z, weights = _samples(convention)
    with mx.stream(mx.cpu):
        values = np.array(function(mx.array(z, dtype=mx.float64)))
    return float(np.sum(weights * values**2))


@functools.lru_cache(maxsize=3)
def _samples(convention: str) -> tuple[np.ndarray, np.ndarray | float]:
    if convention == "exact":
        # The trapezoid rule converges exponentially for a Gaussian times a smooth function; a
        # node lies on 0, where common activations have their kink.
        z = np.linspace(-14.0, 14.0, 28001)
        return z, np.exp(-0.5 * z * z) * (z[1] - z[0]) / np.sqrt(2 * np.pi)
    if convention == "e3nn":
        return torch_normal(1_000_000, seed=0), 1e-6
    n = 1_000_001
    upper = [statistics.NormalDist().inv_cdf(k / (n + 1)) for k in range(n // 2 + 2, n + 1)]
    z = np.concatenate([-np.array(upper)[::-1], [0.0], upper])
    return z, 1.0 / n


def torch_normal(n: int, seed: int) -> np.ndarray:
    """The float64 normal numbers that torch's CPU generator draws after ``manual_seed``.

    Args:
        n: how many, a multiple of 16.
        seed: seed of the Mersenne twister.

    Returns:
        (n,) numbers: Box-Muller of 53-bit uniforms, in groups of sixteen.
    """
    assert n % 16 == 0
    words = np.random.RandomState(seed).randint(0, 2**32, size=(n, 2), dtype=np.uint64)
    bits = ((words[:, 0] << np.uint64(32)) | words[:, 1]) & np.uint64(2**53 - 1)
    uniform = (bits / 2.0**53).reshape(-1, 16)
    radius = np.sqrt(-2.0 * np.log(1.0 - uniform[:, :8]))
    angle = 2.0 * np.pi * uniform[:, 8:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
