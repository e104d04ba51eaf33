"""Maps that act on each row alone, with all derivatives as two closed families.

A map F takes a row x to a row F(x). With its k-th directional derivative D^k F(x)[a_1 .. a_k],
which is symmetric and linear in the directions a_i,

    out_k(x; a_1 .. a_k)          = D^k F(x)[a_1 .. a_k]
    adjoint_k(x, g; a_1 .. a_k-1) = gradient of <g, D^k F(x)[a_1 .. a_k]> to a_k

The derivative of either to x is the same map of order k + 1; to g or to a direction it is the other
map, or the same one with a direction exchanged. So a backend computes values of these two only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from .primitive import CustomFunction, as_tuple, fixed

#: ``values(order, arrays, index)``: out_order of x, a_1, ... or adjoint_order of x, g, a_1, ...
Values = Callable[[int, Sequence[mx.array], Sequence[mx.array]], mx.array]


class RowMap:
    """A map of rows as a differentiable function.

    Args:
        out: values of out_k.
        adjoint: values of adjoint_k, k >= 1.
        largest_order: highest k for which there are rules; beyond, the values themselves must be
            made of operations that have every derivative.
        n_index: further arguments, integer arrays that are not differentiated.
    """

    def __init__(self, out: Values, adjoint: Values, largest_order: int, n_index: int = 0) -> None:
        self._values = {"out": out, "adjoint": adjoint}
        self._largest, self._n_index = largest_order, n_index
        self._functions: dict[tuple[str, int], Callable] = {}

    def __call__(self, x: mx.array, *index: mx.array) -> mx.array:
        """F(x), with every derivative."""
        return self._function("out", 0)(x, *index)

    def _function(self, kind: str, order: int) -> Callable:
        key = (kind, order)
        if key not in self._functions:
            if order > self._largest:
                values = self._values[kind]
                self._functions[key] = lambda *args: values(order, *self._parted(args))
            else:
                self._functions[key] = self._out(order) if kind == "out" else self._adjoint(order)
        return self._functions[key]

    def _parted(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Arrays and index."""
        cut = len(args) - self._n_index
        return list(args[:cut]), list(args[cut:])

    def _primitive(self, kind: str, order: int) -> CustomFunction:
        def body(*args: Any) -> mx.array:
            arrays, index = self._parted(args)
            return self._values[kind](order, [fixed(a) for a in arrays], index)

        return CustomFunction(body)

    def _out(self, order: int) -> Callable:
        """``out_order(x, a_1 .. a_order)``."""
        function = self._primitive("out", order)

        @function.vjp
        def _(primals, cotangent, _output):
            (x, *a), index = self._parted(as_tuple(primals))
            c, adjoint = as_tuple(cotangent)[0], self._function("adjoint", order + 1)
            grads = [adjoint(x, c, *a, *index)]
            for i in range(order):
                grads.append(self._function("adjoint", order)(x, c, *a[:i], *a[i + 1 :], *index))
            return (*grads, *(mx.zeros_like(i) for i in index))

        @function.jvp
        def _(primals, tangents):
            (x, *a), index = self._parted(as_tuple(primals))
            dx, *da = self._parted(as_tuple(tangents))[0]
            terms = []
            if dx is not None:
                terms.append(self._function("out", order + 1)(x, *a, dx, *index))
            for i, t in enumerate(da):
                if t is not None:
                    terms.append(function(x, *_exchanged(a, i, t), *index))
            return _summed(terms)

        return function

    def _adjoint(self, order: int) -> Callable:
        """``adjoint_order(x, g, a_1 .. a_(order-1))``."""
        function = self._primitive("adjoint", order)

        @function.vjp
        def _(primals, cotangent, _output):
            (x, g, *a), index = self._parted(as_tuple(primals))
            c = as_tuple(cotangent)[0]
            grads = [
                self._function("adjoint", order + 1)(x, g, *a, c, *index),
                self._function("out", order)(x, *a, c, *index),
            ]
            for i in range(order - 1):
                grads.append(function(x, g, *a[:i], *a[i + 1 :], c, *index))
            return (*grads, *(mx.zeros_like(i) for i in index))

        @function.jvp
        def _(primals, tangents):
            (x, g, *a), index = self._parted(as_tuple(primals))
            dx, dg, *da = self._parted(as_tuple(tangents))[0]
            terms = []
            if dx is not None:
                terms.append(self._function("adjoint", order + 1)(x, g, *a, dx, *index))
            if dg is not None:
                terms.append(function(x, dg, *a, *index))
            for i, t in enumerate(da):
                if t is not None:
                    terms.append(function(x, g, *_exchanged(a, i, t), *index))
            return _summed(terms)

        return function


def _summed(terms: Sequence[mx.array]) -> mx.array:
    return sum(terms[1:], start=terms[0])


def _exchanged(items: Sequence[Any], i: int, new: Any) -> list[Any]:
    return [new if j == i else item for j, item in enumerate(items)]
