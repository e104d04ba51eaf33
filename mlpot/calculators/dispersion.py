"""Dispersion added to a calculator."""

from __future__ import annotations

from typing import Any

from ase import Atoms
from ase.calculators.mixing import SumCalculator


def with_d3(calc: Any, functional: str = "pbe", damping: str = "d3bj") -> SumCalculator:
    """The calculator plus Grimme's D3 dispersion by the package dftd3 (s-dftd3).

    Energies, forces and stress are sums, so everything of ASE and all workflows by displacements
    and strains work; exact second derivatives are of the potential alone and are not offered. Do
    not add D3 to a potential that was trained on data with dispersion.

    Examples:
        >>> atoms.calc = with_d3(MLPotCalculator("best.safetensors"), "pbe")

    Args:
        calc: ASE calculator.
        functional: whose parameters are used: that of the training data.
        damping: "d3bj", "d3zero", "d3bjm", "d3mbj", "d3op" or another that dftd3 knows.

    Returns:
        An ASE calculator of the sum.

    Raises:
        ImportError: dftd3 is not installed.
        ValueError: dftd3 knows no parameters for the functional or no such damping.
    """
    try:
        from dftd3.ase import DFTD3
    except ImportError as error:
        raise ImportError(
            f"dispersion needs {error.name}: install it with  pip install 'mlpot[d3]'"
        ) from error
    dispersion = DFTD3(method=functional, damping=damping)
    try:
        # Parameters are looked up when something is computed.
        dispersion.get_potential_energy(Atoms("H2", [[0, 0, 0], [0, 0, 0.74]]))
    except Exception as error:  # dftd3 raises whatever it trips over
        raise ValueError(
            f"dftd3 has no parameters of {functional!r} with damping {damping!r} "
            f"({type(error).__name__}: {error})"
        ) from error
    dispersion.reset()
    return _WithD3(calc, dispersion, functional, damping)


class _WithD3(SumCalculator):
    """The sum; copies and pickles make the part of dftd3 anew, which can be neither."""

    def __init__(self, calc: Any, dispersion: Any, functional: str, damping: str) -> None:
        super().__init__([calc, dispersion])
        self._made_of = (calc, functional, damping)

    def __reduce__(self):
        return with_d3, self._made_of
