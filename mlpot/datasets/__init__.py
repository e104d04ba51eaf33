"""Labelled structures: reading, storing, statistics, splits and batches."""

from .frame import Frame
from .hdf5 import HDF5Dataset
from .hdf5_writer import HDF5Writer, write_hdf5
from .reading import iterate, read

__all__ = ["Frame", "HDF5Dataset", "HDF5Writer", "iterate", "read", "write_hdf5"]
