"""Values of the primitives from generated kernels, for Apple's and NVIDIA's GPUs."""

from .dialect import DIALECTS, WORD_OF_TYPE, Dialect, literal
from .generated import GeneratedKernel, device_refusal, grid_refusal, running_dialect

__all__ = [
    "DIALECTS",
    "WORD_OF_TYPE",
    "Dialect",
    "GeneratedKernel",
    "device_refusal",
    "grid_refusal",
    "literal",
    "running_dialect",
]
