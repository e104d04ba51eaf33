"""How a primitive is put together from values and rules of differentiation.

MLX walks the body of a custom function in forward mode even where a rule is given, so every
float input of a body goes through ``stop_gradient``; and the tangent of an input that is not
differentiated arrives as ``None``. Both facts are handled here, once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import mlx.core as mx

from . import dispatch

_plain: ContextVar[bool] = ContextVar("mlpot_plain", default=False)


@contextlib.contextmanager
def plain_path() -> Iterator[None]:
    """Primitives without rules of their own within a ``with`` block, for this thread.

    MLX then differentiates their values itself: the first derivative only, of the reference
    backend only. A graph made so holds nothing but MLX's operations, so it can be exported.
    """
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def fixed(x: Any) -> Any:
    """A float input of the body of a custom function, which has its own rules."""
    return x if _plain.get() else mx.stop_gradient(x)


class CustomFunction:
    """``mx.custom_function``, and the plain body within `plain_path`.

    Derivatives are traced later than the call, outside of a ``with`` block around it: within
    `dispatch.forced` the choice of kernels is kept for the rules, and for what they call.

    Args:
        body: computes values; float inputs go through `fixed`.
    """

    def __init__(self, body: Callable) -> None:
        self._body = body
        self._rules: dict[str, Callable] = {}
        self._customs: dict[bool | None, Any] = {}

    def vjp(self, rule: Callable) -> Callable:
        """Set the rule of reverse mode, as in ``mx.custom_function``."""
        return self._rules.setdefault("vjp", rule)

    def jvp(self, rule: Callable) -> Callable:
        """Set the rule of forward mode, as in ``mx.custom_function``."""
        return self._rules.setdefault("jvp", rule)

    def vmap(self, rule: Callable) -> Callable:
        """Set the rule of batches, as in ``mx.custom_function``."""
        return self._rules.setdefault("vmap", rule)

    def __call__(self, *args: Any) -> Any:
        """Values, by the body or by the custom function."""
        if _plain.get():
            return self._body(*args)
        force = dispatch.forced_choice()
        custom = self._customs.get(force)
        if custom is None:
            custom = self._customs[force] = mx.custom_function(_kept(force, self._body))
            for name, rule in self._rules.items():
                getattr(custom, name)(_kept(force, rule))
        return custom(*args)


def _kept(force: bool | None, function: Callable) -> Callable:
    """The function, under a choice of kernels if there is one."""
    if force is None:
        return function

    def call(*args: Any) -> Any:
        with dispatch.forced(force):
            return function(*args)

    return call


def as_tuple(value) -> tuple[Any, ...]:
    """Arguments of a rule as a tuple: MLX passes a single one bare."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def unary(value: Callable, derivative: Callable) -> Callable:
    """A pointwise function with a given derivative (itself differentiable).

    Args:
        value: computes f(x).
        derivative: computes f'(x).

    Returns:
        A function of one array with every derivative that ``derivative`` has.
    """

    @CustomFunction
    def function(x: Any) -> mx.array:
        return value(fixed(x))

    @function.vjp
    def _(primals, cotangent, _output):
        return as_tuple(cotangent)[0] * derivative(as_tuple(primals)[0])

    @function.jvp
    def _(primals, tangents):
        return as_tuple(tangents)[0] * derivative(as_tuple(primals)[0])

    return function


def multilinear(
    value: Callable[..., mx.array], adjoints: Sequence[Callable[[], Callable]]
) -> Callable:
    """A map that is linear in each of its first ``len(adjoints)`` arguments.

    Args:
        value: ``value(*arrays, *indices)``, plain values.
        adjoints: for each array argument a function without arguments that gives the adjoint
            map; the adjoint to argument i is called with the cotangent in place of argument i:
            ``adjoint(*arrays_with_cotangent_at_i, *indices)``.

    Returns:
        The differentiable map.
    """
    n_arrays = len(adjoints)

    @CustomFunction
    def function(*args: Any) -> mx.array:
        arrays = [fixed(a) for a in args[:n_arrays]]
        return value(*arrays, *args[n_arrays:])

    @function.vjp
    def _(primals, cotangent, _output):
        primals = as_tuple(primals)
        cotangent = as_tuple(cotangent)[0]
        grads = [
            adjoint()(*primals[:i], cotangent, *primals[i + 1 :])
            for i, adjoint in enumerate(adjoints)
        ]
        return (*grads, *(mx.zeros_like(p) for p in primals[n_arrays:]))

    @function.jvp
    def _(primals, tangents):
        primals, tangents = as_tuple(primals), as_tuple(tangents)
        total: Any = None
        for i in range(n_arrays):
            if tangents[i] is None:
                continue
            term = function(*primals[:i], tangents[i], *primals[i + 1 :])
            total = term if total is None else total + term
        if total is None:
            result: Any = function(*primals)
            return mx.zeros_like(result)
        return total

    return function
