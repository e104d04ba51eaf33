"""Potentials as ASE calculators."""

from .batch import CalculatorBatch
from .calculator import MLPotCalculator

__all__ = ["CalculatorBatch", "MLPotCalculator"]
