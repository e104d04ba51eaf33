"""Differentiable primitives: each has one rule of differentiation, closed under it."""

from .backend import BACKENDS, use
from .constants import Constant
from .convolution import ConvolutionPath, ConvolutionSpec, convolution
from .edges import EdgeIndex
from .elementary import cos, exp, safe_norm, sigmoid, silu, sin, tanh
from .primitive import unary
from .segment import gather, segment_sum

__all__ = [
    "BACKENDS",
    "Constant",
    "ConvolutionPath",
    "ConvolutionSpec",
    "EdgeIndex",
    "convolution",
    "cos",
    "exp",
    "gather",
    "safe_norm",
    "segment_sum",
    "sigmoid",
    "silu",
    "sin",
    "tanh",
    "unary",
    "use",
]
