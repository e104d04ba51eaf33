"""Graphs of atoms: neighbour lists, structures as arrays, batches and padding."""

from .batching import batch
from .graph import Graph
from .neighbor_list import neighbor_list
from .padding import bucket_size, pad
from .structure import build, reduce_positions
from .verlet_list import VerletList

__all__ = [
    "Graph",
    "VerletList",
    "batch",
    "bucket_size",
    "build",
    "neighbor_list",
    "pad",
    "reduce_positions",
]
