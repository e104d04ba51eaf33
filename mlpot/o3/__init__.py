"""Equivariant algebra: irreps, rotations, spherical harmonics and products (names as in e3nn)."""

from .irrep import Irrep
from .irreps import Irreps, MulIr
from .layout import convert_layout
from .linear import Linear
from .tensor_product import TensorProduct
from .tensor_product_instructions import Instruction
from .tensor_product_sub import (
    ElementwiseTensorProduct,
    FullTensorProduct,
    FullyConnectedTensorProduct,
)
from .tensor_square import TensorSquare
from .wigner3j import clebsch_gordan, wigner_3j, wigner_3j_numpy

__all__ = [
    "ElementwiseTensorProduct",
    "FullTensorProduct",
    "FullyConnectedTensorProduct",
    "Instruction",
    "Irrep",
    "Irreps",
    "Linear",
    "MulIr",
    "TensorProduct",
    "TensorSquare",
    "clebsch_gordan",
    "convert_layout",
    "wigner_3j",
    "wigner_3j_numpy",
]
