"""Direct sums of irreps with multiplicities: what the columns of a feature array are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, overload

from .irrep import Irrep
from .mul_ir import MulIr, as_block, parse_block

if TYPE_CHECKING:
    import mlx.core as mx


class SortedIrreps(NamedTuple):
    """Result of Irreps.sort."""

    irreps: Irreps
    """The sorted irreps."""
    p: tuple[int, ...]
    """Block i of the unsorted irreps is block p[i] of the sorted ones."""
    inv: tuple[int, ...]
    """Block i of the sorted irreps is block inv[i] of the unsorted ones."""


class Irreps(tuple[MulIr, ...]):
    """Direct sum of irreps, a tuple of (mul, ir).

    Args:
        irreps: a string such as ``"16x0e + 8x1o"``; an Irrep; Irreps; None (empty); or an iterable
            of Irrep, strings of one irrep, and pairs (mul, irrep).

    Raises:
        ValueError: not readable as irreps.
    """

    __slots__ = ()

    def __new__(cls, irreps: str | Irrep | Irreps | Iterable | None = None) -> Irreps:  # noqa: D102
        if isinstance(irreps, Irreps):
            return irreps  # pyright: ignore[reportReturnType]
        if irreps is None:
            blocks: Iterable[MulIr] = ()
        elif isinstance(irreps, Irrep):
            blocks = (MulIr(1, irreps),)
        elif isinstance(irreps, MulIr):
            blocks = (irreps,)
        elif isinstance(irreps, str):
            blocks = [parse_block(t, irreps) for t in irreps.split("+")] if irreps.strip() else ()
        elif isinstance(irreps, Iterable):
            blocks = [as_block(item) for item in irreps]
        else:
            raise ValueError(
                f'{irreps!r} is not irreps; write them as in "16x0e + 8x1o" or [(16, "0e")]'
            )
        return super().__new__(cls, blocks)

    @staticmethod
    def spherical_harmonics(lmax: int, p: int = -1) -> Irreps:
        """Irreps of the spherical harmonics 0..lmax of a vector of parity p: (l, p^l) once each."""
        return Irreps([(1, (l, p**l)) for l in range(lmax + 1)])

    @property
    def dim(self) -> int:
        """Number of columns."""
        return sum(block.dim for block in self)

    @property
    def num_irreps(self) -> int:
        """Sum of the multiplicities."""
        return sum(mul for mul, _ in self)

    @property
    def ls(self) -> list[int]:
        """Degree of every single irrep, multiplicities written out."""
        return [ir.l for mul, ir in self for _ in range(mul)]

    @property
    def lmax(self) -> int:
        """Largest degree (of blocks that are not empty).

        Raises:
            ValueError: there is no irrep.
        """
        degrees = [ir.l for mul, ir in self if mul > 0]
        if not degrees:
            raise ValueError("empty irreps have no lmax; give at least one irrep")
        return max(degrees)

    def slices(self) -> list[slice]:
        """Columns of each block."""
        result, start = [], 0
        for block in self:
            result.append(slice(start, start + block.dim))
            start += block.dim
        return result

    @property
    def slice_by_mul(self) -> _SliceByMul:
        """Slices counted in single irreps: ``Irreps("4x1o").slice_by_mul[1:3]`` is ``2x1o``."""
        return _SliceByMul(self)

    def count(self, ir: Irrep | str) -> int:  # pyright: ignore
        """Multiplicity of an irrep, summed over the blocks."""
        ir = Irrep(ir)
        return sum(mul for mul, other in self if other == ir)

    def index(self, *_: object) -> int:  # pyright: ignore
        """Not defined: an irrep may occur in several blocks."""
        raise NotImplementedError("Irreps have no index; an irrep may occur in several blocks")

    def __contains__(self, ir: Any) -> bool:
        """Whether a block (also one of multiplicity 0) is of this irrep."""
        if isinstance(ir, MulIr):
            return any(block == ir for block in self)
        ir = Irrep(ir)
        return any(other == ir for _, other in self)

    def remove_zero_multiplicities(self) -> Irreps:
        """Without the blocks of multiplicity 0."""
        return Irreps([(mul, ir) for mul, ir in self if mul > 0])

    def simplify(self) -> Irreps:
        """Equal neighbours merged, zero multiplicities removed; the order stays."""
        merged: list[tuple[int, Irrep]] = []
        for mul, ir in self:
            if merged and merged[-1][1] == ir:
                merged[-1] = (merged[-1][0] + mul, ir)
            elif mul > 0:
                merged.append((mul, ir))
        return Irreps(merged)

    def sort(self) -> SortedIrreps:
        """Blocks in the order of their irreps (stable), with the permutation.

        Returns:
            (irreps, p, inv), see SortedIrreps.
        """
        kinds = [ir for _, ir in self]
        inv = tuple(sorted(range(len(self)), key=kinds.__getitem__))
        p = [0] * len(inv)
        for new, old in enumerate(inv):
            p[old] = new
        return SortedIrreps(Irreps([self[i] for i in inv]), tuple(p), inv)

    def regroup(self) -> Irreps:
        """Sorted, then simplified."""
        return self.sort().irreps.simplify()

    def filter(
        self,
        keep: str | Irrep | Irreps | Iterable | Callable[[MulIr], bool] | None = None,
        *,
        drop: str | Irrep | Irreps | Iterable | Callable[[MulIr], bool] | None = None,
        lmax: int | None = None,
    ) -> Irreps:
        """Some of the blocks; give one of the three conditions (or none: everything is kept).

        Args:
            keep: irreps to keep (multiplicities do not matter), or a function of a block.
            drop: irreps to drop, or a function of a block.
            lmax: largest degree to keep.

        Raises:
            ValueError: more than one condition.
        """
        given = {"keep": keep, "drop": drop, "lmax": lmax}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise ValueError(f"filter got {' and '.join(names)}; give one, and filter again")
        if keep is not None:
            wanted = _as_condition(keep)
            return Irreps([block for block in self if wanted(block)])
        if drop is not None:
            unwanted = _as_condition(drop)
            return Irreps([block for block in self if not unwanted(block)])
        if lmax is not None:
            return Irreps([(mul, ir) for mul, ir in self if ir.l <= lmax])
        return self

    def randn(
        self,
        *size: int,
        normalization: str = "component",
        dtype: mx.Dtype | None = None,
        key: mx.array | None = None,
    ) -> mx.array:
        """Random features.

        Args:
            size: shape with one -1, which stands for the axis of the irreps.
            normalization: ``"component"`` (every component has unit variance) or ``"norm"``
                (every single irrep has unit length).
            dtype: float32 if None.
            key: key of the random generator; the global state if None.

        Returns:
            Array of shape ``size`` with -1 replaced by dim.

        Raises:
            ValueError: not exactly one -1 in ``size``, or an unknown normalization.
        """
        from .random_features import random_features

        return random_features(self, size, normalization, dtype, key)

    def D_from_angles(
        self, alpha: Any, beta: Any, gamma: Any, k: mx.array | int | None = None
    ) -> mx.array:
        """Block-diagonal representation matrix of YXY angles (...) and k inversions.

        Returns:
            (..., dim, dim).
        """
        from .representation import block_diagonal_D

        return block_diagonal_D(self, alpha, beta, gamma, k)

    def D_from_quaternion(self, q: mx.array, k: mx.array | int | None = None) -> mx.array:
        """Representation matrix (..., dim, dim) of a unit quaternion (..., 4), real part first."""
        from .rotation import quaternion_to_angles

        return self.D_from_angles(*quaternion_to_angles(q), k)

    def D_from_matrix(self, R: mx.array) -> mx.array:
        """Representation matrix (..., dim, dim) of an orthogonal matrix (..., 3, 3)."""
        from .representation import split_inversion

        angles, k = split_inversion(R)
        return self.D_from_angles(*angles, k)

    def D_from_axis_angle(self, axis: mx.array, angle: mx.array) -> mx.array:
        """Representation matrix (..., dim, dim) of a turn by angle (...) about axis (..., 3)."""
        from .rotation import axis_angle_to_angles

        return self.D_from_angles(*axis_angle_to_angles(axis, angle))

    @overload
    def __getitem__(self, i: SupportsIndex) -> MulIr: ...

    @overload
    def __getitem__(self, i: slice) -> Irreps: ...

    def __getitem__(self, i):
        item = super().__getitem__(i)
        return Irreps(item) if isinstance(i, slice) else item

    def __add__(self, other: Any) -> Irreps:  # pyright: ignore
        return Irreps(super().__add__(Irreps(other)))

    def __radd__(self, other: Any) -> Irreps:
        return Irreps(other) + self

    def __mul__(self, n: Any) -> Irreps:  # pyright: ignore
        """The blocks repeated n times."""
        if isinstance(n, tuple | str):
            raise NotImplementedError(
                "a product of Irreps is a tensor product: use o3.TensorProduct"
            )
        return Irreps(super().__mul__(n))

    __rmul__ = __mul__  # pyright: ignore

    def __repr__(self) -> str:
        return "+".join(str(block) for block in self)

    __str__ = __repr__


class _SliceByMul:
    """Slicing in units of single irreps."""

    def __init__(self, irreps: Irreps) -> None:
        self._irreps = irreps

    def __getitem__(self, i: Any) -> Irreps:
        if not isinstance(i, slice):
            raise IndexError(f"slice_by_mul takes a slice, as in [1:3]; it got {i!r}")
        start, stop, step = i.indices(self._irreps.num_irreps)
        if step != 1:
            raise NotImplementedError(f"slice_by_mul takes no strides; it got {step}")
        blocks, offset = [], 0
        for mul, ir in self._irreps:
            inside = min(stop, offset + mul) - max(start, offset)
            if inside > 0 or (mul == 0 and inside == 0):
                blocks.append((inside, ir))
            offset += mul
        return Irreps(blocks)


def _as_condition(choice: Any) -> Callable[[MulIr], bool]:
    if callable(choice):
        return lambda block: bool(choice(block))
    wanted = {ir for _, ir in Irreps(choice)}
    return lambda block: block.ir in wanted
