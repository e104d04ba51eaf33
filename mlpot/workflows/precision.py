"""What a calculator can do, and in which precision."""

from __future__ import annotations

from typing import Any

from ase import Atoms

from mlpot.calculators import MLPotCalculator


def in_float64(calc: Any) -> Any:
    """The calculator itself, or for one of mlpot in float32 a new one that computes in float64.

    The given calculator and its potentials stay as they are.
    """
    if isinstance(calc, MLPotCalculator) and calc.dtype != "float64":
        return calc.astype("float64")
    return calc


def with_exact_radial(calc: MLPotCalculator) -> MLPotCalculator:
    """A calculator of the same potentials that computes radial networks instead of tables.

    Third derivatives of tabulated energies jump at the knots. The given calculator and its
    potentials stay as they are.
    """
    twin = MLPotCalculator(calc.members, calc.dtype, calc.skin)  # of copies
    for member in twin.members:
        if hasattr(member, "network"):  # others have no tables
            member.network.radial_strategy = "exact"
    return twin


def has_second_derivatives(calc: Any) -> bool:
    """Whether a calculator gives exact second derivatives."""
    return isinstance(calc, MLPotCalculator)


def choose_method(method: str | None, calc: Any, exact: str, finite: str) -> str:
    """What a user asked for, checked, or the exact method where the calculator has it.

    Args:
        method: as given; None for the default.
        calc: ASE calculator.
        exact: name of the method that needs second derivatives.
        finite: name of the method by finite steps.

    Raises:
        ValueError: another name, or the exact method of a calculator that does not have it.
    """
    possible = has_second_derivatives(calc)
    if method is None:
        return exact if possible else finite
    if method not in (exact, finite):
        raise ValueError(f"method is {method!r}: give {exact} or {finite}")
    if method == exact and not possible:
        raise ValueError(
            f"{type(calc).__name__} gives no second derivatives: use method {finite!r}"
        )
    return method


def check_elements(atoms: Atoms, calc: Any) -> None:
    """Refuse elements that the potentials of the calculator do not know.

    Raises:
        ValueError: names the unknown elements and the known ones; or there are no atoms.
    """
    numbers = [int(z) for z in atoms.get_atomic_numbers()]
    if not numbers:
        raise ValueError("the structure has no atoms")
    if 0 in numbers:
        raise ValueError("the structure holds atoms of the element X, which is none")
    if isinstance(calc, MLPotCalculator):
        for member in calc.members:
            member.check_elements(numbers)
