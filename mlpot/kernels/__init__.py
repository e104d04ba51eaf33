"""Differentiable primitives: each has one rule of differentiation, closed under it."""

from .backend import BACKENDS, use
from .batching import each
from .bessel_basis import bessel_basis
from .bessel_spec import BesselSpec
from .block_linear import LinearPath, LinearSpec, block_linear, block_linear_pays
from .constants import Constant
from .convolution import ConvolutionPath, ConvolutionSpec, convolution
from .directions import directions, lengths
from .dispatch import Choice, Report, clear_report, forced, report
from .edge_tangents import edge_tangents
from .edge_weights import edge_weights
from .edges import EdgeIndex
from .elementary import cos, exp, sigmoid, silu, sin, tanh
from .gate import gate
from .gate_spec import GATE_FUNCTIONS, GateGroup, GateSpec
from .gpu import MuonLayout, Piece, muon_gather, muon_move
from .interval_powers import interval_powers, locate
from .interval_spec import IntervalSpec
from .label_errors import LabelledTerm, label_errors, takes_label_errors
from .mixing import Mixing
from .primitive import unary
from .radial_convolution import radial_convolution
from .segment import gather, scatter_sum, segment_sum
from .segment_order import SegmentOrder
from .updates import AdamOptions, adam, mix, step_numbers, takes_adam, takes_muon

__all__ = [
    "BACKENDS",
    "GATE_FUNCTIONS",
    "AdamOptions",
    "BesselSpec",
    "Choice",
    "Constant",
    "ConvolutionPath",
    "ConvolutionSpec",
    "EdgeIndex",
    "GateGroup",
    "GateSpec",
    "IntervalSpec",
    "LabelledTerm",
    "LinearPath",
    "LinearSpec",
    "Mixing",
    "MuonLayout",
    "Piece",
    "Report",
    "SegmentOrder",
    "adam",
    "bessel_basis",
    "block_linear",
    "block_linear_pays",
    "clear_report",
    "convolution",
    "cos",
    "directions",
    "each",
    "edge_tangents",
    "edge_weights",
    "exp",
    "forced",
    "gate",
    "gather",
    "interval_powers",
    "label_errors",
    "lengths",
    "locate",
    "mix",
    "muon_gather",
    "muon_move",
    "radial_convolution",
    "report",
    "scatter_sum",
    "segment_sum",
    "sigmoid",
    "silu",
    "sin",
    "step_numbers",
    "takes_adam",
    "takes_label_errors",
    "takes_muon",
    "tanh",
    "unary",
    "use",
]
