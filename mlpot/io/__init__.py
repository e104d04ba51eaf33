"""Reading and writing potentials."""

from .checkpoint import FORMAT_VERSION, build_potential, load, read_file, save
from .e3nn_weights import load_e3nn_weights
from .fetching import fetch
from .importing import FOREIGN_SUFFIXES, import_metadata, import_potential
from .locating import locate
from .patterns import model_paths
from .registry import PUBLISHED

__all__ = [
    "FOREIGN_SUFFIXES",
    "FORMAT_VERSION",
    "PUBLISHED",
    "build_potential",
    "fetch",
    "import_metadata",
    "import_potential",
    "load",
    "load_e3nn_weights",
    "locate",
    "model_paths",
    "read_file",
    "save",
]
