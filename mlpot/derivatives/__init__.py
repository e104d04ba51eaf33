"""Derivatives of the energy: forces and stress, Hessian-vector products, Hessians."""

from .first import Results, energy_forces_stress
from .second import hessian, hvp

__all__ = ["Results", "energy_forces_stress", "hessian", "hvp"]
