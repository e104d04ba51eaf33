"""One block of irreps: an irrep and its multiplicity."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from .irrep import Irrep


class MulIr(tuple[int, Irrep]):
    """An irrep with its multiplicity, a pair (mul, ir)."""

    __slots__ = ()

    def __new__(cls, mul: int | tuple, ir: Irrep | None = None) -> MulIr:  # noqa: D102
        if isinstance(mul, tuple):
            return super().__new__(cls, mul)
        assert ir is not None
        return super().__new__(cls, (mul, ir))

    @property
    def mul(self) -> int:
        """Multiplicity."""
        return self[0]

    @property
    def ir(self) -> Irrep:
        """The irrep."""
        return self[1]

    @property
    def dim(self) -> int:
        """Number of columns of the block: mul (2l + 1)."""
        return self[0] * self[1].dim

    def __repr__(self) -> str:
        return f"{self.mul}x{self.ir}"

    __str__ = __repr__


def as_block(item: Any) -> MulIr:
    """A block from an irrep, or from a pair (mul, irrep).

    Raises:
        ValueError: neither of the two.
    """
    if isinstance(item, MulIr):
        return item
    if isinstance(item, Irrep | str):
        return MulIr(1, Irrep(item))
    try:
        mul, ir = item
    except (TypeError, ValueError):
        mul, ir = None, None
    if isinstance(mul, bool) or not isinstance(mul, Integral) or mul < 0 or ir is None:
        raise ValueError(f'{item!r} is not a block of irreps; write (mul, irrep), as in (16, "0e")')
    return MulIr(int(mul), Irrep(ir))


def parse_block(text: str, whole: str) -> MulIr:
    """A block from text such as "16x0e"; ``whole`` is the text around it, for the message.

    Raises:
        ValueError: not readable.
    """
    mul, separator, name = text.partition("x")
    if not separator:
        mul, name = "1", text
    mul = mul.strip()
    try:
        if not (mul.isascii() and mul.isdigit()):
            raise ValueError(mul)
        return MulIr(int(mul), Irrep(name))
    except ValueError:
        raise ValueError(
            f'{text.strip()!r} in {whole!r} is not a block of irreps; write "16x0e + 8x1o"'
        ) from None
