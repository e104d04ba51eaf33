"""Derivatives of the energy: forces and stress, second and third derivatives, Hessians."""

from .first import Results, energy_forces_stress
from .per_atom import virials
from .products import hvps
from .replayed import ReplayedForces, ReplayedProducts
from .second import hessian, hvp
from .sparse import color_columns, interaction_pattern, sparse_hessian
from .spectrum import Modes, SpectralDensity, lowest_modes, spectral_density
from .strain import StrainDerivatives, strain_derivatives, strain_directions
from .third import third_order_product, third_order_products

__all__ = [
    "Modes",
    "ReplayedForces",
    "ReplayedProducts",
    "Results",
    "SpectralDensity",
    "StrainDerivatives",
    "color_columns",
    "energy_forces_stress",
    "hessian",
    "hvp",
    "hvps",
    "interaction_pattern",
    "lowest_modes",
    "sparse_hessian",
    "spectral_density",
    "strain_derivatives",
    "strain_directions",
    "third_order_product",
    "third_order_products",
    "virials",
]
