"""Nuclear repulsion added to a calculator."""

from __future__ import annotations

from typing import Any

from ase.calculators.calculator import Parameters

from .calculator import MLPotCalculator


def with_zbl(calc: Any) -> MLPotCalculator:
    """The calculator with the screened nuclear repulsion of Ziegler, Biersack and Littmark added.

    It acts where atoms come closer than the sum of their covalent radii, and keeps hot or
    irradiated structures apart where a potential has seen no data. It is part of each potential:
    exact second derivatives, workflows and committees have it too. Potentials that mlpot trains
    have it from the start unless ``zbl: false`` was given.

    Examples:
        >>> atoms.calc = with_zbl(MLPotCalculator("nequix-mp-1"))

    Args:
        calc: calculator of potentials without it; not changed.

    Returns:
        Another calculator, in the same precision and with the same skin.

    Raises:
        ValueError: a calculator that is not of mlpot, or a potential that has it already.
    """
    if not isinstance(calc, MLPotCalculator):
        raise ValueError(
            f"{type(calc).__name__} has no potentials to add the repulsion to: give a calculator "
            "of mlpot, and add dispersion to the result"
        )
    twin = MLPotCalculator([one.with_zbl() for one in calc.members], calc.dtype, calc.skin)
    name = f"{calc.parameters.model} with ZBL"
    twin.parameters = Parameters(calc.parameters, model=name)
    return twin
