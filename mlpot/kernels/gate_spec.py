"""Which columns a gate activates and which it multiplies."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

#: Functions that gates have; None is the identity.
GATE_FUNCTIONS = ("silu", "sigmoid", "tanh")


@dataclass(frozen=True)
class GateGroup:
    """Scalars of one function, and what they multiply.

    With s = x[:, scalar + u], u < n, the value c f(s) is written to column ``scalar_out + u``, and
    every pair (i, o) of ``vectors`` adds out[:, o + u] = c f(s) x[:, i + u].

    Args:
        function: one of ``GATE_FUNCTIONS``, or None for f(s) = s.
        constant: c.
        n: channels u.
        scalar: first column of the scalars in x.
        scalar_out: first column of c f(s) in the output; None where it only multiplies.
        vectors: first columns (in x, in the output) of what is multiplied.
    """

    function: str | None
    constant: float
    n: int
    scalar: int
    scalar_out: int | None
    vectors: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class GateSpec:
    """All groups of a gate.

    Args:
        dim_x: columns of the input.
        dim_out: columns of the output.
        groups: together they name each column of both exactly once.

    Raises:
        ValueError: a column is named twice or not at all, or a function is unknown.
    """

    dim_x: int
    dim_out: int
    groups: tuple[GateGroup, ...]
    caches: dict = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for g in self.groups:
            if g.function is not None and g.function not in GATE_FUNCTIONS:
                known = ", ".join(GATE_FUNCTIONS)
                raise ValueError(f"a gate has the function {g.function!r}; choose one of {known}")
        ins = [(g.scalar, g.n) for g in self.groups]
        ins += [(i, g.n) for g in self.groups for i, _ in g.vectors]
        outs = [(g.scalar_out, g.n) for g in self.groups if g.scalar_out is not None]
        outs += [(o, g.n) for g in self.groups for _, o in g.vectors]
        for name, places, width in (("input", ins, self.dim_x), ("output", outs, self.dim_out)):
            columns = np.concatenate([np.arange(at, at + n) for at, n in places] or [np.zeros(0)])
            if not np.array_equal(np.sort(columns), np.arange(width)):
                raise ValueError(
                    f"the groups of a gate must name each of the {width} columns of the {name} once"
                )

    @property
    def n_units(self) -> int:
        """Scalars of a row."""
        return sum(g.n for g in self.groups)

    def __getstate__(self) -> dict:
        """Copies and pickles make their own caches: plans cannot be copied."""
        return self.__dict__ | {"caches": {}}
