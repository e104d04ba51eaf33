"""One irreducible representation of O(3): degree l and parity p."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mlx.core as mx

    from .irreps import Irreps

_PARITY_OF_LETTER = {"e": 1, "o": -1}


class Irrep(tuple[int, int]):
    """Irreducible representation of O(3), a pair (l, p).

    Ordered by degree, then odd before even: ``0o < 0e < 1o < 1e < ...``.

    Args:
        l: degree 0, 1, 2, ...; or a string such as ``"1o"`` (odd), ``"2e"`` (even), ``"3y"`` (the
            parity (-1)^l of spherical harmonics); or a pair ``(l, p)``; or an Irrep.
        p: parity, 1 (even) or -1 (odd); only with an integer ``l``.

    Raises:
        ValueError: not a degree, not a parity, or not a readable string.
    """

    __slots__ = ()

    def __new__(cls, l: int | str | tuple | Irrep, p: int | None = None) -> Irrep:  # noqa: D102
        if p is None:
            if isinstance(l, Irrep):
                return l  # pyright: ignore[reportReturnType]
            if isinstance(l, str):
                return _parse(l)  # pyright: ignore[reportReturnType]
            if isinstance(l, tuple) and len(l) == 2:
                l, p = l
        if isinstance(l, bool) or not isinstance(l, Integral) or l < 0:
            raise ValueError(f"l is {l!r}; it must be an integer of at least 0")
        if p not in (-1, 1):
            raise ValueError(f"parity of l={l} is {p!r}; it must be 1 (even) or -1 (odd)")
        return super().__new__(cls, (int(l), int(p)))

    @property
    def l(self) -> int:
        """Degree."""
        return self[0]

    @property
    def p(self) -> int:
        """Parity under inversion: 1 or -1."""
        return self[1]

    @property
    def dim(self) -> int:
        """Dimension 2l + 1."""
        return 2 * self[0] + 1

    def is_scalar(self) -> bool:
        """Whether this is ``0e``, which no rotation or inversion changes."""
        return self[0] == 0 and self[1] == 1

    @staticmethod
    def iterator(lmax: int | None = None) -> Iterator[Irrep]:
        """All irreps up to ``lmax`` (without end if None): 0e, 0o, 1o, 1e, 2e, 2o, ..."""
        for l in itertools.count() if lmax is None else range(lmax + 1):
            yield Irrep(l, (-1) ** l)
            yield Irrep(l, -((-1) ** l))

    def __mul__(self, other: Any) -> Iterator[Irrep]:  # pyright: ignore
        """Irreps in the product of two: l from abs(l1 - l2) to l1 + l2, parity p1 p2."""
        second = Irrep(other)
        parity = self.p * second.p
        degrees = range(abs(self.l - second.l), self.l + second.l + 1)
        return (Irrep(l, parity) for l in degrees)

    def __rmul__(self, mul: int) -> Irreps:  # pyright: ignore
        """``3 * Irrep("1o")`` is ``Irreps("3x1o")``."""
        from .irreps import Irreps

        return Irreps([(mul, self)])

    def __add__(self, other: Any) -> Irreps:  # pyright: ignore
        """Direct sum."""
        from .irreps import Irreps

        return Irreps(self) + Irreps(other)

    def __contains__(self, _: object) -> bool:
        raise NotImplementedError("an Irrep contains nothing; compare its l and p")

    def count(self, _: object) -> int:  # pyright: ignore
        """Not defined for a single irrep; use Irreps.count."""
        raise NotImplementedError("an Irrep counts nothing; use Irreps.count")

    def index(self, *_: object) -> int:  # pyright: ignore
        """Not defined for a single irrep."""
        raise NotImplementedError("an Irrep has no index")

    def D_from_angles(
        self, alpha: Any, beta: Any, gamma: Any, k: mx.array | int | None = None
    ) -> mx.array:
        """Representation matrix of a rotation by YXY angles, with k inversions.

        Args:
            alpha: (...), radians.
            beta: (...), radians.
            gamma: (...), radians.
            k: (...), number of inversions (parity enters as p^k); none if None.

        Returns:
            (..., 2l+1, 2l+1).
        """
        from .representation import parity_factor, wigner_D

        D = wigner_D(self.l, alpha, beta, gamma)
        return D if k is None or self.p == 1 else D * parity_factor(k, D.dtype)

    def D_from_quaternion(self, q: mx.array, k: mx.array | int | None = None) -> mx.array:
        """Representation matrix of a unit quaternion (..., 4), real part first.

        Returns:
            (..., 2l+1, 2l+1).
        """
        from .rotation import quaternion_to_angles

        return self.D_from_angles(*quaternion_to_angles(q), k)

    def D_from_matrix(self, R: mx.array) -> mx.array:
        """Representation matrix of an orthogonal matrix (..., 3, 3), improper ones included.

        Returns:
            (..., 2l+1, 2l+1).
        """
        from .representation import split_inversion

        angles, k = split_inversion(R)
        return self.D_from_angles(*angles, k)

    def D_from_axis_angle(self, axis: mx.array, angle: mx.array) -> mx.array:
        """Representation matrix of a turn by ``angle`` (...) about ``axis`` (..., 3).

        Returns:
            (..., 2l+1, 2l+1).
        """
        from .rotation import axis_angle_to_angles

        return self.D_from_angles(*axis_angle_to_angles(axis, angle))

    def __repr__(self) -> str:
        return f"{self.l}{'e' if self.p == 1 else 'o'}"

    __str__ = __repr__


def _parse(text: str) -> Irrep:
    name = text.strip()
    digits, letter = name[:-1], name[-1:]
    if not (digits.isascii() and digits.isdigit()) or letter not in ("e", "o", "y"):
        raise ValueError(
            f'{text!r} is not an irrep; write the degree and the parity, as in "0e", "1o" or "2y"'
        )
    l = int(digits)
    return Irrep(l, _PARITY_OF_LETTER.get(letter, (-1) ** l))
