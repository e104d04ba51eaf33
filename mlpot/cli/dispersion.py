"""The option of verbs that can add D3 dispersion to a potential."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Functional = Annotated[
    str | None,
    typer.Option(
        "--d3",
        metavar="FUNCTIONAL",
        help="Add Grimme's D3(BJ) with the parameters of this functional, such as pbe.",
    ),
]


def potential_of(model: Any, functional: str | None, **options: Any) -> Any:
    """The calculator of a model, with D3 added if it is wanted.

    Args:
        model: path or pattern.
        functional: whose parameters D3 takes; None for none.
        options: of `mlpot.calculators.MLPotCalculator`.

    Raises:
        ImportError: dftd3 is not installed; names the extra.
        ValueError: dftd3 knows no parameters of the functional.
    """
    from mlpot.calculators import MLPotCalculator, with_d3

    calculator = MLPotCalculator(model, **options)
    return calculator if functional is None else with_d3(calculator, functional)
