"""Spherical harmonics of vectors: polynomials in x, y, z in the real basis."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import pi, sqrt

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from jaxtyping import Float, Real

from mlpot.kernels import Constant, directions, forced
from mlpot.kernels.splitting import split

from .arrays import check_last_axis
from .irrep import Irrep
from .irreps import Irreps
from .solid_harmonics import solid_harmonics


def spherical_harmonics(
    l: int | Iterable | str | Irrep | Irreps,
    x: Real[mx.array, "*batch 3"],
    normalize: bool,
    normalization: str = "integral",
    use_custom_kernel: bool | None = None,
) -> Float[mx.array, "*batch dim"]:
    """Real spherical harmonics of vectors; see SphericalHarmonics.

    Args:
        l: degree, degrees, or irreps of the result.
        x: (..., 3).
        normalize: divide the vectors by their length first.
        normalization: ``"integral"``, ``"component"`` or ``"norm"``.
        use_custom_kernel: see SphericalHarmonics.

    Returns:
        (..., dim), one block after another in the order of ``l``.

    Raises:
        ValueError: wrong shape, unknown normalization, or irreps with parities that no function
            of one vector has, or kernels are forced and there is none for ``x``.
    """
    key = l if isinstance(l, int | str | Irrep | Irreps) else tuple(l)
    return _cached(key, bool(normalize), normalization, use_custom_kernel)(x)


class SphericalHarmonics(nn.Module):
    """Real spherical harmonics of vectors.

    Homogeneous polynomials of degree l, also off the sphere; order m = -l..l, Y_1 proportional to
    (x, y, z). On the sphere

    - ``component``: |Y_l|^2 = 2l + 1,
    - ``integral``: the integral of the square of every component is 1, Y_l divided by sqrt(4 pi),
    - ``norm``: |Y_l| = 1.

    With ``normalize`` the zero vector has the value 0 for l > 0, and zero derivatives of any order.

    Args:
        irreps_out: degree, degrees, or irreps of the result; multiplicities repeat blocks.
        normalize: divide the vectors by their length first.
        normalization: one of the three above.
        irreps_in: ``"1o"`` (a vector) or ``"1e"`` (a pseudovector). If None, the parity that
            ``irreps_out`` has at odd degrees.
        use_custom_kernel: None takes kernels where they are faster, True always, False never; the
            results are the same, and so are derivatives in any nesting.

    Raises:
        ValueError: unknown normalization, or a parity in ``irreps_out`` that does not follow from
            ``irreps_in``.
    """

    def __init__(
        self,
        irreps_out: int | Iterable | str | Irrep | Irreps,
        normalize: bool,
        normalization: str = "integral",
        irreps_in: str | Irrep | Irreps | None = None,
        use_custom_kernel: bool | None = None,
    ) -> None:
        super().__init__()
        self.use_custom_kernel = use_custom_kernel
        self.normalize = normalize
        self.normalization = check_normalization(normalization)
        self.irreps_in, self.irreps_out = _irreps(irreps_out, irreps_in)
        self._degrees = tuple(self.irreps_out.ls)
        self._lmax = max(self._degrees, default=0)
        self._scale = None
        if normalization != "component":
            self._scale = Constant(degree_factors(self._degrees, normalization))

    def __call__(self, x: Real[mx.array, "*batch 3"]) -> Float[mx.array, "*batch dim"]:
        """Harmonics (..., dim) of vectors (..., 3).

        Raises:
            ValueError: the last axis is not 3.
        """
        check_last_axis("x", x, 3)
        if not mx.issubdtype(x.dtype, mx.floating):
            x = x.astype(mx.float32)
        if not self._degrees:
            return mx.zeros((*x.shape[:-1], 0), dtype=x.dtype)
        vectors = x.reshape(-1, 3)
        if self.normalize:
            with forced(self.use_custom_kernel):
                vectors = directions(vectors)
        values = solid_harmonics(self._lmax, vectors, self.use_custom_kernel)
        if self._degrees != tuple(range(self._lmax + 1)):
            pieces = split(values, [2 * l + 1 for l in range(self._lmax + 1)])
            values = mx.concatenate([pieces[l] for l in self._degrees], axis=1)
        if self._scale is not None:
            values = values * self._scale(x.dtype)
        return values.reshape(*x.shape[:-1], values.shape[1])

    def _extra_repr(self) -> str:
        return f"{self.irreps_out}, normalize={self.normalize}, {self.normalization}"


@lru_cache(maxsize=64)
def _cached(
    l, normalize: bool, normalization: str, use_custom_kernel: bool | None
) -> SphericalHarmonics:
    return SphericalHarmonics(l, normalize, normalization, use_custom_kernel=use_custom_kernel)


def check_normalization(normalization: str) -> str:
    """The normalization itself if it is one of the three.

    Raises:
        ValueError: unknown normalization.
    """
    if normalization not in ("component", "integral", "norm"):
        raise ValueError(
            f'normalization is {normalization!r}; choose "component", "integral" or "norm"'
        )
    return normalization


def degree_factors(degrees: Iterable[int], normalization: str) -> np.ndarray:
    """What component-normalised harmonics of the degrees are multiplied with, per component."""
    factor = {
        "component": lambda l: 1.0,
        "integral": lambda l: 1.0 / sqrt(4.0 * pi),
        "norm": lambda l: 1.0 / sqrt(2 * l + 1),
    }[normalization]
    return np.array([factor(l) for l in degrees for _ in range(2 * l + 1)])


def _irreps(irreps_out, irreps_in) -> tuple[Irreps, Irreps]:
    """Irreps of the argument and of the result, checked against each other."""
    degrees, wanted = _as_degrees(irreps_out)
    if irreps_in is None:
        odd = [ir.p for mul, ir in wanted if ir.l % 2 and mul > 0]
        irreps_in = Irrep(1, odd[0] if odd else -1)
    irreps_in = Irreps(irreps_in)
    if irreps_in not in (Irreps("1o"), Irreps("1e")):
        raise ValueError(f'irreps_in is {irreps_in}; it must be "1o" (a vector) or "1e"')
    parity = irreps_in[0].ir.p
    if degrees is not None:
        return irreps_in, Irreps([Irrep(l, parity**l) for l in degrees])
    for mul, ir in wanted:
        right = Irrep(ir.l, parity**ir.l)
        if mul > 0 and ir != right:
            raise ValueError(
                f"irreps_out is {wanted}, but the harmonics of degree {ir.l} of {irreps_in} "
                f"are {right}, not {ir}; write {right}, or give degrees instead of irreps"
            )
    return irreps_in, wanted


def _as_degrees(irreps_out) -> tuple[list[int] | None, Irreps]:
    """Degrees, if that is what was given, else None and the irreps."""
    if isinstance(irreps_out, str | Irrep | Irreps):
        return None, Irreps(irreps_out)
    degrees = [irreps_out] if isinstance(irreps_out, int) else list(irreps_out)
    if all(isinstance(l, int) for l in degrees):
        return [Irrep(l, 1).l for l in degrees], Irreps()
    return None, Irreps(degrees)
