"""Features added to others that a number of each row scales in some columns.

    F(own, a, v) = own + ((1 - M) + a M) v          M: 1 in scaled columns, else 0

Three maps are closed under differentiation: F, S_r(a, v) = (r (1 - M) + a M) v with r = 0 or 1,
and D(g, v) = sum over columns of M g v, which is linear in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from . import dispatch, gpu
from .constants import Constant
from .primitive import CustomFunction, as_tuple, fixed


class Mixing:
    """F of given columns as a differentiable function.

    Args:
        scaled: (d,), whether a column is scaled.
    """

    def __init__(self, scaled: np.ndarray) -> None:
        self.scaled = np.asarray(scaled, dtype=bool)
        self.mask = Constant(self.scaled.astype(np.float64))
        self._rest = Constant(1.0 - self.scaled)
        self._functions: dict[str, Callable] = {}

    def __call__(
        self,
        own: Float[mx.array, "n d"],
        factor: Float[mx.array, "n 1"],
        features: Float[mx.array, "n d"],
    ) -> Float[mx.array, "n d"]:
        """F(own, factor, features), with every derivative."""
        return self._function("added")(own, factor, features)

    def __getstate__(self) -> dict:
        """Copies and pickles make their functions anew: custom functions cannot be copied."""
        return self.__dict__ | {"_functions": {}}

    def _function(self, kind: str) -> Callable:
        if kind not in self._functions:

            def body(*arrays: Any) -> mx.array:
                return self._values(kind, [fixed(a) for a in arrays])

            make = {"added": self._added, "dot": self._dot}.get(kind, self._scaled)
            self._functions[kind] = make(kind, CustomFunction(body))
        return self._functions[kind]

    def _added(self, _kind: str, function: CustomFunction) -> Callable:
        @function.vjp
        def _(primals, cotangent, _output):
            _own, a, v = as_tuple(primals)
            c = as_tuple(cotangent)[0]
            return c, self._function("dot")(c, v), self._function("scaled1")(a, c)

        @function.jvp
        def _(primals, tangents):
            _own, a, v = as_tuple(primals)
            down, da, dv = as_tuple(tangents)
            return _sum([down, *self._of_scaled("scaled1", a, v, da, dv)])

        return function

    def _scaled(self, kind: str, function: CustomFunction) -> Callable:
        @function.vjp
        def _(primals, cotangent, _output):
            a, v = as_tuple(primals)
            c = as_tuple(cotangent)[0]
            return self._function("dot")(c, v), function(a, c)

        @function.jvp
        def _(primals, tangents):
            return _sum(self._of_scaled(kind, *as_tuple(primals), *as_tuple(tangents)))

        return function

    def _of_scaled(self, kind: str, a: Any, v: Any, da: Any, dv: Any) -> list:
        """Terms of the tangent of S_r(a, v)."""
        return [
            None if da is None else self._function("scaled0")(da, v),
            None if dv is None else self._function(kind)(a, dv),
        ]

    def _dot(self, _kind: str, function: CustomFunction) -> Callable:
        @function.vjp
        def _(primals, cotangent, _output):
            g, v = as_tuple(primals)
            c = as_tuple(cotangent)[0]
            return self._function("scaled0")(c, v), self._function("scaled0")(c, g)

        @function.jvp
        def _(primals, tangents):
            (g, v), (dg, dv) = as_tuple(primals), as_tuple(tangents)
            first = None if dg is None else function(dg, v)
            return _sum([first, None if dv is None else function(g, dv)])

        return function

    def _values(self, kind: str, arrays: Sequence[mx.array]) -> mx.array:
        offers: tuple[tuple[str, dispatch.Check], ...] = (
            *gpu.offers(lambda: gpu.mixing_refusal(kind, arrays)),
            ("native", lambda: dispatch.Nothing("two or three operations of MLX")),
        )
        if dispatch.choose(f"mixing.{kind}", offers) in gpu.DIALECTS:
            return gpu.mixing(kind, self.mask(mx.float32), arrays)
        if kind == "dot":
            g, v = arrays
            return mx.sum(g * v if self.scaled.all() else self.mask(v.dtype) * g * v, -1, True)
        *own, a, v = arrays
        factor = a
        if not self.scaled.all():
            factor = a * self.mask(v.dtype)
            if kind != "scaled0":
                factor = self._rest(v.dtype) + factor
        return own[0] + factor * v if own else factor * v


def _sum(terms: Sequence[Any]) -> mx.array:
    first, *others = [term for term in terms if term is not None]
    for term in others:
        first = first + term
    return first
