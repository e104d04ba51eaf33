"""Equivariant algebra: irreps, rotations, spherical harmonics and products (names as in e3nn)."""

from .angular_harmonics import (
    Legendre,
    SphericalHarmonicsAlphaBeta,
    spherical_harmonics_alpha,
    spherical_harmonics_alpha_beta,
)
from .generators import change_basis_real_to_complex, so3_generators, su2_generators
from .harmonics import SphericalHarmonics, spherical_harmonics
from .irrep import Irrep
from .irreps import Irreps
from .layout import convert_layout
from .linear import Linear
from .mul_ir import MulIr
from .norm import Norm
from .random_rotation import rand_angles, rand_axis_angle, rand_matrix, rand_quaternion
from .representation import wigner_D
from .rotation import (
    angles_to_axis_angle,
    angles_to_matrix,
    angles_to_quaternion,
    angles_to_xyz,
    axis_angle_to_angles,
    axis_angle_to_matrix,
    axis_angle_to_quaternion,
    matrix_to_angles,
    matrix_to_axis_angle,
    matrix_to_quaternion,
    matrix_x,
    matrix_y,
    matrix_z,
    quaternion_to_angles,
    quaternion_to_axis_angle,
    quaternion_to_matrix,
    xyz_to_angles,
)
from .rotation_composition import (
    compose_angles,
    compose_axis_angle,
    compose_quaternion,
    identity_angles,
    identity_quaternion,
    inverse_angles,
    inverse_quaternion,
)
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
    "Legendre",
    "Linear",
    "MulIr",
    "Norm",
    "SphericalHarmonics",
    "SphericalHarmonicsAlphaBeta",
    "TensorProduct",
    "TensorSquare",
    "angles_to_axis_angle",
    "angles_to_matrix",
    "angles_to_quaternion",
    "angles_to_xyz",
    "axis_angle_to_angles",
    "axis_angle_to_matrix",
    "axis_angle_to_quaternion",
    "change_basis_real_to_complex",
    "clebsch_gordan",
    "compose_angles",
    "compose_axis_angle",
    "compose_quaternion",
    "convert_layout",
    "identity_angles",
    "identity_quaternion",
    "inverse_angles",
    "inverse_quaternion",
    "matrix_to_angles",
    "matrix_to_axis_angle",
    "matrix_to_quaternion",
    "matrix_x",
    "matrix_y",
    "matrix_z",
    "quaternion_to_angles",
    "quaternion_to_axis_angle",
    "quaternion_to_matrix",
    "rand_angles",
    "rand_axis_angle",
    "rand_matrix",
    "rand_quaternion",
    "so3_generators",
    "spherical_harmonics",
    "spherical_harmonics_alpha",
    "spherical_harmonics_alpha_beta",
    "su2_generators",
    "wigner_3j",
    "wigner_3j_numpy",
    "wigner_D",
    "xyz_to_angles",
]
