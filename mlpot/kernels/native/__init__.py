"""Values of the primitives from C++ kernels, for CPUs: float32 and float64, SIMD and threads.

The kernels are compiled for this machine and the installed MLX when they are first needed, and
kept in the user's cache folder. Where that is not possible, :func:`available` is False,
:func:`why_not` says why, and plain MLX takes over.
"""

from .gate_values import gate
from .interval_values import interval_powers, locate
from .item_values import HarmonicValues, item_product
from .loader import (
    CacheState,
    available,
    build,
    cache_state,
    num_threads,
    refusal,
    set_num_threads,
    switched_off,
    why_not,
)
from .radial_values import (
    CHANGE_TARGETS,
    RADIAL_ROLES,
    RADIAL_TARGETS,
    edge_weights,
    radial_changes,
    radial_convolution,
    share_passes,
)
from .values import (
    CONVOLUTION_MAPS,
    ELEMENTARY_FUNCTIONS,
    block_linear,
    convolution,
    directions,
    elementary,
    gather,
    segment_sum,
)

__all__ = [
    "CHANGE_TARGETS",
    "CONVOLUTION_MAPS",
    "ELEMENTARY_FUNCTIONS",
    "RADIAL_ROLES",
    "RADIAL_TARGETS",
    "CacheState",
    "HarmonicValues",
    "available",
    "block_linear",
    "build",
    "cache_state",
    "convolution",
    "directions",
    "edge_weights",
    "elementary",
    "gate",
    "gather",
    "interval_powers",
    "item_product",
    "locate",
    "num_threads",
    "radial_changes",
    "radial_convolution",
    "refusal",
    "segment_sum",
    "set_num_threads",
    "share_passes",
    "switched_off",
    "why_not",
]
