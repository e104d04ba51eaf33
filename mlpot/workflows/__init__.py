"""Workflows on top of ASE calculators: relaxation, phonons, vibrations, elastic constants, ..."""

from .anharmonic import anharmonic
from .anharmonic_result import Anharmonic
from .batch_relaxation import relax_batch
from .bench import Bench, Speed, bench
from .elastic import elastic
from .elastic_result import Elastic, Moduli, moduli
from .eos import EquationOfState, eos
from .neb import neb
from .neb_result import Band
from .phonon_result import ImaginaryMode, Phonons
from .phonon_workflow import phonons
from .relaxation import RelaxationReport, relax, relax_and_report
from .saddle import saddle
from .saddle_result import Saddle
from .stopping import Stopped
from .structures import read_structure, write_structure
from .vibration_result import Thermochemistry, Vibrations
from .vibrations import vibrations

__all__ = [
    "Anharmonic",
    "Band",
    "Bench",
    "Elastic",
    "EquationOfState",
    "ImaginaryMode",
    "Moduli",
    "Phonons",
    "RelaxationReport",
    "Saddle",
    "Speed",
    "Stopped",
    "Thermochemistry",
    "Vibrations",
    "anharmonic",
    "bench",
    "elastic",
    "eos",
    "moduli",
    "neb",
    "phonons",
    "read_structure",
    "relax",
    "relax_and_report",
    "relax_batch",
    "saddle",
    "vibrations",
    "write_structure",
]
