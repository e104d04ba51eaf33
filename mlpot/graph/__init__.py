"""Graphs of atoms: neighbour lists, structures as arrays, batches and padding."""

from .batching import batch
from .device_pairs import DevicePairs
from .graph import Graph
from .host_pairs import HostPairs, StructureError
from .neighbor_list import neighbor_list
from .padding import bucket_size, pad
from .pairs import Pairs
from .structure import build, reduce_positions
from .verlet_list import VerletList

__all__ = [
    "DevicePairs",
    "Graph",
    "HostPairs",
    "Pairs",
    "StructureError",
    "VerletList",
    "batch",
    "bucket_size",
    "build",
    "neighbor_list",
    "pad",
    "reduce_positions",
]
