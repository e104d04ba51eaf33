"""Reading and writing potentials."""

from .checkpoint import FORMAT_VERSION, build_potential, load, read_file, save
from .e3nn_weights import load_e3nn_weights

__all__ = ["FORMAT_VERSION", "build_potential", "load", "load_e3nn_weights", "read_file", "save"]
