"""Molecular dynamics: integrators on the device, and runs with any ASE calculator."""

from .bussi import bussi
from .cell_rescaling import cell_rescaling
from .fire import fire
from .guard import UnstableDynamics
from .h5md import read_h5md
from .langevin import langevin
from .martyna import npt
from .msd import mean_squared_displacement
from .nose_hoover import nose_hoover
from .pressure import pressure, pressure_tensor, volumes
from .rdf import PairDistances
from .record import Record, Sample
from .run import run_md
from .settings import ENSEMBLES, Settings
from .state import Evaluation, Integrator, State, initial_state
from .system import System
from .velocities import degrees_of_freedom, maxwell_boltzmann
from .verlet import nve

__all__ = [
    "ENSEMBLES",
    "Evaluation",
    "Integrator",
    "PairDistances",
    "Record",
    "Sample",
    "Settings",
    "State",
    "System",
    "UnstableDynamics",
    "bussi",
    "cell_rescaling",
    "degrees_of_freedom",
    "fire",
    "initial_state",
    "langevin",
    "maxwell_boltzmann",
    "mean_squared_displacement",
    "nose_hoover",
    "npt",
    "nve",
    "pressure",
    "pressure_tensor",
    "read_h5md",
    "run_md",
    "volumes",
]
