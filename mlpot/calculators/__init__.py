"""Potentials as ASE calculators."""

from .calculator import MLPotCalculator

__all__ = ["MLPotCalculator"]
