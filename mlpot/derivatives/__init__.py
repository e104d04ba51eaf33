"""Derivatives of the energy: forces and stress, second and third derivatives, Hessians."""

from .first import Results, energy_forces_stress
from .per_atom import virials
from .products import hvps
from .replayed import ReplayedForces, ReplayedProducts
from .response import Response, response
from .second import hessian, hvp
from .sparse import color_columns, interaction_pattern, sparse_hessian
from .spectrum import Modes, SpectralDensity, lowest_modes, spectral_density
from .strain import StrainDerivatives, strain_derivatives, strain_directions
from .tangent_dynamics import TangentTrajectory, tangent_dynamics
from .third import third_order_product, third_order_products

__all__ = [
    "Modes",
    "ReplayedForces",
    "ReplayedProducts",
    "Response",
    "Results",
    "SpectralDensity",
    "StrainDerivatives",
    "TangentTrajectory",
    "color_columns",
    "energy_forces_stress",
    "hessian",
    "hvp",
    "hvps",
    "interaction_pattern",
    "lowest_modes",
    "response",
    "sparse_hessian",
    "spectral_density",
    "strain_derivatives",
    "strain_directions",
    "tangent_dynamics",
    "third_order_product",
    "third_order_products",
    "virials",
]
