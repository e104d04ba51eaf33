"""Potentials as ASE calculators."""

from .batch import CalculatorBatch
from .calculator import MLPotCalculator
from .dispersion import with_d3
from .repulsion import with_zbl

__all__ = ["CalculatorBatch", "MLPotCalculator", "with_d3", "with_zbl"]
