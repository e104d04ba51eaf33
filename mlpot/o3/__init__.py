"""Equivariant algebra: irreps, rotations, spherical harmonics and products (names as in e3nn)."""

from .irrep import Irrep
from .irreps import Irreps, MulIr
from .wigner3j import clebsch_gordan, wigner_3j, wigner_3j_numpy

__all__ = [
    "Irrep",
    "Irreps",
    "MulIr",
    "clebsch_gordan",
    "wigner_3j",
    "wigner_3j_numpy",
]
