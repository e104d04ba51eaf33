"""Reading and writing potentials."""

from .checkpoint import FORMAT_VERSION, build_potential, load, read_file, save

__all__ = ["FORMAT_VERSION", "build_potential", "load", "read_file", "save"]
