"""Potentials as ASE calculators."""

from .batch import CalculatorBatch
from .calculator import MLPotCalculator
from .dispersion import with_d3

__all__ = ["CalculatorBatch", "MLPotCalculator", "with_d3"]
