"""Molecular dynamics with any ASE calculator: run, logged, watched and drawn."""

from .guard import UnstableDynamics
from .rdf import PairDistances
from .record import Record, Sample
from .run import run_md
from .settings import ENSEMBLES, Settings
from .velocities import degrees_of_freedom, maxwell_boltzmann

__all__ = [
    "ENSEMBLES",
    "PairDistances",
    "Record",
    "Sample",
    "Settings",
    "UnstableDynamics",
    "degrees_of_freedom",
    "maxwell_boltzmann",
    "run_md",
]
