"""The one place for units: values of other units in eV, Angstrom, atomic mass units (CODATA 2018).

Energies are in eV, lengths in Angstrom, masses in atomic mass units; stresses follow as
eV/Angstrom^3 and times as Angstrom sqrt(amu/eV), about 10.18 fs. ``x * HARTREE`` converts x Hartree
to eV, ``x / HARTREE`` eV to Hartree.
"""

from __future__ import annotations

import math
from difflib import get_close_matches

# SI values. All but the masses and atomic units are exact by definition since 2019.
PLANCK_SI = 6.62607015e-34  # J s
ELEMENTARY_CHARGE_SI = 1.602176634e-19  # C
BOLTZMANN_SI = 1.380649e-23  # J/K
AVOGADRO = 6.02214076e23  # 1/mol
LIGHT_SPEED_SI = 299792458.0  # m/s
AMU_SI = 1.66053906660e-27  # kg

EV = 1.0
ANGSTROM = 1.0
AMU = 1.0

MEV = 1e-3
HARTREE = 27.211386245988
RYDBERG = HARTREE / 2
JOULE = 1.0 / ELEMENTARY_CHARGE_SI
KJ_PER_MOL = 1e3 / (AVOGADRO * ELEMENTARY_CHARGE_SI)
KCAL_PER_MOL = 4.184 * KJ_PER_MOL

BOHR = 0.529177210903
NM = 10.0

# Pressures and stresses, in eV/Angstrom^3.
PASCAL = 1e-30 / ELEMENTARY_CHARGE_SI
GPA = 1e9 * PASCAL
KBAR = 0.1 * GPA
BAR = 1e-3 * KBAR

# Times, in Angstrom sqrt(amu/eV).
SECOND = math.sqrt(ELEMENTARY_CHARGE_SI / AMU_SI) * 1e10
FS = 1e-15 * SECOND
PS = 1e3 * FS

#: Boltzmann's constant in eV/K.
KB = BOLTZMANN_SI / ELEMENTARY_CHARGE_SI

#: sqrt(eV / (Angstrom^2 amu)) as an ordinary (not angular) frequency in THz: the factor from the
#: square root of an eigenvalue of a mass-weighted Hessian to THz.
SQRT_EIGENVALUE_TO_THZ = SECOND * 1e-12 / (2 * math.pi)
#: Wave number in 1/cm of a frequency of 1 THz.
INVERSE_CM_PER_THZ = 1e12 / (LIGHT_SPEED_SI * 100)
#: Energy quantum in eV of a frequency of 1 THz.
EV_PER_THZ = PLANCK_SI * 1e12 / ELEMENTARY_CHARGE_SI

ENERGY_UNITS = {
    "eV": EV,
    "meV": MEV,
    "Hartree": HARTREE,
    "Ha": HARTREE,
    "Rydberg": RYDBERG,
    "Ry": RYDBERG,
    "kcal/mol": KCAL_PER_MOL,
    "kJ/mol": KJ_PER_MOL,
    "J": JOULE,
}
LENGTH_UNITS = {"Angstrom": ANGSTROM, "A": ANGSTROM, "Bohr": BOHR, "nm": NM}
STRESS_UNITS = {
    "eV/Angstrom^3": 1.0,
    "eV/A^3": 1.0,
    "GPa": GPA,
    "kbar": KBAR,
    "bar": BAR,
    "Pa": PASCAL,
    "Hartree/Bohr^3": HARTREE / BOHR**3,
}
TIME_UNITS = {"fs": FS, "ps": PS, "s": SECOND}


def _factor(kind: str, table: dict[str, float], name: str) -> float:
    lowered = {key.lower(): value for key, value in table.items()}
    found = table.get(name, lowered.get(name.lower()))
    if found is None:
        close = get_close_matches(name.lower(), lowered, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"unknown {kind} unit {name!r}.{hint} Known: {', '.join(table)}")
    return found


def energy_factor(name: str) -> float:
    """eV per unit of the energy unit ``name``; ValueError for an unknown one."""
    return _factor("energy", ENERGY_UNITS, name)


def length_factor(name: str) -> float:
    """Angstrom per unit of the length unit ``name``; ValueError for an unknown one."""
    return _factor("length", LENGTH_UNITS, name)


def stress_factor(name: str) -> float:
    """eV/Angstrom^3 per unit of the stress or pressure unit ``name``; ValueError if unknown."""
    return _factor("stress", STRESS_UNITS, name)


def time_factor(name: str) -> float:
    """Angstrom sqrt(amu/eV) per unit of the time unit ``name``; ValueError for an unknown one."""
    return _factor("time", TIME_UNITS, name)
