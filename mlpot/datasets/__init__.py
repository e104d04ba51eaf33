"""Labelled structures: reading, storing, statistics, splits and batches."""

from .batches import Batch, Batches
from .collating import collate
from .frame import Frame
from .hdf5 import HDF5Dataset
from .hdf5_writer import HDF5Writer, write_hdf5
from .labels import Labels
from .reading import iterate, read
from .reference_energies import (
    isolated_atom_energies,
    least_squares_E0s,
    undetermined_elements,
)
from .splits import split, split_indices
from .statistics import average_neighbors, closest_pair, force_rms
from .stored import StoredFrames
from .summaries import Census, Summary, summary
from .suspicions import fingerprint
from .table import FrameTable
from .writing import write

__all__ = [
    "Batch",
    "Batches",
    "Census",
    "Frame",
    "FrameTable",
    "HDF5Dataset",
    "HDF5Writer",
    "Labels",
    "StoredFrames",
    "Summary",
    "average_neighbors",
    "closest_pair",
    "collate",
    "fingerprint",
    "force_rms",
    "isolated_atom_energies",
    "iterate",
    "least_squares_E0s",
    "read",
    "split",
    "split_indices",
    "summary",
    "undetermined_elements",
    "write",
    "write_hdf5",
]
