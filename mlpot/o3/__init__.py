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
from .reduced_tensor_products import ReducedTensorProducts
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
from .s2_grid import irfft, rfft, s2_grid, spherical_harmonics_s2_grid
from .s2_transforms import FromS2Grid, ToS2Grid
from .so3_grid import SO3Grid
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
    "FromS2Grid",
    "FullTensorProduct",
    "FullyConnectedTensorProduct",
    "Instruction",
    "Irrep",
    "Irreps",
    "Legendre",
    "Linear",
    "MulIr",
    "Norm",
    "ReducedTensorProducts",
    "SO3Grid",
    "SphericalHarmonics",
    "SphericalHarmonicsAlphaBeta",
    "TensorProduct",
    "TensorSquare",
    "ToS2Grid",
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
    "irfft",
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
    "rfft",
    "s2_grid",
    "so3_generators",
    "spherical_harmonics",
    "spherical_harmonics_alpha",
    "spherical_harmonics_alpha_beta",
    "spherical_harmonics_s2_grid",
    "su2_generators",
    "wigner_3j",
    "wigner_3j_numpy",
    "wigner_D",
    "xyz_to_angles",
]
