"""Workflows on top of ASE calculators: relaxation, phonons."""

from .phonon_result import ImaginaryMode, Phonons
from .phonon_workflow import phonons
from .relaxation import RelaxationReport, relax, relax_and_report
from .structures import read_structure, write_structure

__all__ = [
    "ImaginaryMode",
    "Phonons",
    "RelaxationReport",
    "phonons",
    "read_structure",
    "relax",
    "relax_and_report",
    "write_structure",
]
