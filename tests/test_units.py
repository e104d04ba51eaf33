"""Units against ASE's (CODATA 2018) and textbook values."""

from __future__ import annotations

import ase.units
import pytest

from mlpot import units

REFERENCE = ase.units.create_units("2018")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (units.HARTREE, REFERENCE["Hartree"]),
        (units.RYDBERG, REFERENCE["Rydberg"]),
        (units.BOHR, REFERENCE["Bohr"]),
        (units.KCAL_PER_MOL, REFERENCE["kcal"] / REFERENCE["mol"]),
        (units.KJ_PER_MOL, REFERENCE["kJ"] / REFERENCE["mol"]),
        (units.GPA, REFERENCE["GPa"]),
        (units.BAR, REFERENCE["bar"]),
        (units.FS, REFERENCE["fs"]),
        (units.KB, REFERENCE["kB"]),
        (units.INVERSE_CM_PER_THZ * REFERENCE["invcm"], units.EV_PER_THZ),
    ],
)
def test_against_ase(ours, theirs):
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_frequencies():
    # phonopy's factor for the same units, and the wave number of 1 THz
    assert pytest.approx(15.633302, rel=1e-6) == units.SQRT_EIGENVALUE_TO_THZ
    assert pytest.approx(33.35640952, rel=1e-9) == units.INVERSE_CM_PER_THZ


def test_names():
    assert units.energy_factor("hartree") == units.HARTREE
    assert units.length_factor("Bohr") == units.BOHR
    assert units.stress_factor("GPa") == pytest.approx(1 / 160.21766, rel=1e-7)
    assert units.time_factor("ps") == pytest.approx(98.22694750, rel=1e-8)
    assert units.energy_factor("meV") == 1e-3


@pytest.mark.parametrize(
    ("convert", "name", "hint"),
    [
        (units.energy_factor, "kcal/mole", "Did you mean 'kcal/mol'"),
        (units.length_factor, "angstroms", "Did you mean 'angstrom'"),
        (units.stress_factor, "xyz", "Known: eV/Angstrom"),
        (units.time_factor, "hour", "unknown time unit 'hour'"),
    ],
)
def test_unknown_names(convert, name, hint):
    with pytest.raises(ValueError, match=hint):
        convert(name)
