"""Building blocks of networks: gates, activations, radial functions (names as in e3nn)."""

from .activation import Activation
from .batch_norm import BatchNorm
from .bessel import bessel, sinc, sine_bessel
from .cutoffs import cosine_cutoff, polynomial_cutoff, smooth_cutoff, xplor_cutoff
from .dropout import Dropout
from .extract import Extract, ExtractIr, Identity
from .fully_connected_net import FullyConnectedNet, hidden_together
from .gate import Gate
from .norm_activation import NormActivation
from .normalization_constants import activation_constant
from .s2_activation import S2Activation, SO3Activation
from .smooth_step import smooth_bump, soft_unit_step
from .soft_one_hot import soft_one_hot_linspace

__all__ = [
    "Activation",
    "BatchNorm",
    "Dropout",
    "Extract",
    "ExtractIr",
    "FullyConnectedNet",
    "Gate",
    "Identity",
    "NormActivation",
    "S2Activation",
    "SO3Activation",
    "activation_constant",
    "bessel",
    "cosine_cutoff",
    "hidden_together",
    "polynomial_cutoff",
    "sinc",
    "sine_bessel",
    "smooth_bump",
    "smooth_cutoff",
    "soft_one_hot_linspace",
    "soft_unit_step",
    "xplor_cutoff",
]
