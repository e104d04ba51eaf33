"""Values of the primitives from generated kernels, for Apple's and NVIDIA's GPUs."""

from .bessel_basis import bessel_basis, bessel_refusal
from .compilation import compiled_together
from .convolution import convolution, convolution_refusal
from .dialect import DIALECTS, WORD_OF_TYPE, Dialect, literal
from .directions import directions, directions_refusal
from .elementary import LARGEST_ORDER, PLAIN_FUNCTIONS, activation, activation_refusal
from .gate import gate, gate_refusal
from .generated import GeneratedKernel, device_refusal, grid_refusal, running_dialect
from .interval_powers import interval_powers, interval_refusal, locate
from .label_errors import Terms, label_errors, label_errors_adjoint, label_errors_refusal
from .mixing import mixing, mixing_refusal
from .muon import MuonLayout, Piece, muon_gather, muon_move, muon_refusal
from .radial_convolution import radial_convolution, radial_convolution_refusal
from .refusals import offers, refusal, unmeasured
from .segment import (
    gather,
    gather_refusal,
    segment_starts,
    segment_sum,
    segment_sum_refusal,
)
from .updates import adam_step, mix, step_numbers, update_refusal

__all__ = [
    "DIALECTS",
    "LARGEST_ORDER",
    "PLAIN_FUNCTIONS",
    "WORD_OF_TYPE",
    "Dialect",
    "GeneratedKernel",
    "MuonLayout",
    "Piece",
    "Terms",
    "activation",
    "activation_refusal",
    "adam_step",
    "bessel_basis",
    "bessel_refusal",
    "compiled_together",
    "convolution",
    "convolution_refusal",
    "device_refusal",
    "directions",
    "directions_refusal",
    "gate",
    "gate_refusal",
    "gather",
    "gather_refusal",
    "grid_refusal",
    "interval_powers",
    "interval_refusal",
    "label_errors",
    "label_errors_adjoint",
    "label_errors_refusal",
    "literal",
    "locate",
    "mix",
    "mixing",
    "mixing_refusal",
    "muon_gather",
    "muon_move",
    "muon_refusal",
    "offers",
    "radial_convolution",
    "radial_convolution_refusal",
    "refusal",
    "running_dialect",
    "segment_starts",
    "segment_sum",
    "segment_sum_refusal",
    "step_numbers",
    "unmeasured",
    "update_refusal",
]
