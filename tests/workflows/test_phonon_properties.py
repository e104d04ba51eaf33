"""What follows from phonons: thermal properties, velocities, Grueneisen parameters, polar modes."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from ase.build import bulk
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.units import AVOGADRO, BOLTZMANN_SI, PLANCK_SI

QUIET = Console(quiet=True)
BORN = """14.4
2.5 0 0 0 2.5 0 0 0 2.5
1.1 0 0 0 1.1 0 0 0 1.1
-1.1 0 0 0 -1.1 0 0 0 -1.1
"""


@pytest.fixture(scope="module")
def alloy() -> MLPotCalculator:
    return MLPotCalculator(EmbeddedAtoms(numbers=(13, 29), cutoff=4.5), dtype="float64")


def phonons(atoms, calc, **options):
    settings = {"supercell": (2, 2, 2), "mesh": (6, 6, 6), "npoints": 11, "console": QUIET}
    return workflows.phonons(atoms, calc, **(settings | options))


@pytest.fixture(scope="module")
def compound(alloy):
    """Aluminium and copper on the sites of caesium chloride."""
    return phonons(bulk("AlCu", "cesiumchloride", a=2.9), alloy)


@pytest.fixture(scope="module")
def copper(alloy, tmp_path_factory):
    out = tmp_path_factory.mktemp("copper")
    return phonons(bulk("Cu", a=3.6), alloy, grueneisen=True, out=out), out


def test_thermal_properties_have_their_limits(compound):
    thermal = compound.thermal_properties(t_max=12000, t_step=100)
    mesh = compound.phonopy.mesh
    positive = mesh.frequencies > 1e-3
    weights = np.broadcast_to(mesh.weights[:, None], positive.shape) / mesh.weights.sum()
    zero_point = 0.5 * PLANCK_SI * 1e12 * (mesh.frequencies * weights)[positive].sum()
    assert thermal.free_energy[0] == pytest.approx(zero_point * AVOGADRO / 1e3, rel=1e-3)
    modes = weights[positive].sum()
    gas = BOLTZMANN_SI * AVOGADRO
    assert thermal.heat_capacity[-1] == pytest.approx(modes * gas, rel=1e-3)
    slope = -np.diff(thermal.free_energy) / np.diff(thermal.temperatures) * 1e3
    middle = 0.5 * (thermal.entropy[1:] + thermal.entropy[:-1])
    np.testing.assert_allclose(slope[3:], middle[3:], rtol=2e-2)
    with pytest.raises(ValueError, match="t_max=0"):
        compound.thermal_properties(t_max=0)


def test_shares_of_the_elements_add_up(compound):
    total = compound.phonopy.total_dos
    shares = compound.phonopy.projected_dos
    np.testing.assert_allclose(
        np.array(shares.projected_dos).sum(axis=0),
        np.interp(shares.frequency_points, total.frequency_points, total.dos),
        atol=0.03 * total.dos.max(),
    )


def test_group_velocities_are_slopes_of_the_bands(compound):
    q, step = np.array([0.11, 0.23, 0.31]), 1e-4
    found = compound.group_velocities(q)[0]
    for axis in range(3):
        # A step of the Cartesian wave vector in units of the reciprocal lattice.
        shift = compound.phonopy.primitive.cell[:, axis] * step
        plus, minus = compound.frequencies([q + shift, q - shift])
        slope = (plus - minus) / (2 * step)
        np.testing.assert_allclose(found[:, axis], slope, rtol=1e-3, atol=1e-3)


def test_grueneisen_parameters_are_slopes_in_the_volume(copper, alloy):
    result, _ = copper
    found = result.grueneisen
    index = int(np.argmax(np.linalg.norm(found.q_points, axis=1)))
    q = found.q_points[index]
    logs = []
    for factor in (1.01, 0.99):
        cell = result.atoms.copy()
        cell.set_cell(result.atoms.cell.array * factor ** (1 / 3), scale_atoms=True)
        logs.append(np.log(phonons(cell, alloy, relax=False).frequencies(q)[0]))
    expected = -(logs[0] - logs[1]) / (np.log(1.01) - np.log(0.99))
    np.testing.assert_allclose(np.sort(found.parameters[index]), np.sort(expected), rtol=1e-2)
    assert 1 < found.mean < 4


def test_files(copper):
    _, out = copper
    with (out / "Cu-grueneisen.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0][-1] == "grueneisen" and len(rows) > 30
    with (out / "Cu-thermal.csv").open() as file:
        assert len(list(csv.reader(file))) == 102
    for name in ("Cu-grueneisen.png", "Cu-thermal.png", "Cu-phonons.png"):
        assert (out / name).stat().st_size > 10_000


def test_velocities_are_slopes_of_frequencies(compound, alloy, tmp_path):
    found = phonons(
        compound.atoms, alloy, relax=False, velocities=True, mesh=(3, 3, 3), out=tmp_path, name="X"
    )
    mesh, step = found.velocities, 1e-4
    assert mesh.frequencies.shape == mesh.velocities.shape[:2]
    checked = 0
    for q, frequencies, slopes in zip(
        mesh.q_points, mesh.frequencies, mesh.velocities, strict=True
    ):
        apart = np.diff(np.sort(frequencies)).min() > 0.05
        if not apart:
            continue  # slopes of degenerate modes are those of a mixture
        checked += 1
        for axis in range(3):
            # A Cartesian step in cycles per Angstrom, in reciprocal lattice vectors.
            change = step * found.phonopy.primitive.cell[:, axis]
            ahead, behind = (found.frequencies([q + sign * change])[0] for sign in (1, -1))
            real = frequencies > 0  # phonopy gives imaginary modes none
            expected = ((ahead - behind) / (2 * step))[real]
            np.testing.assert_allclose(slopes[real, axis], expected, rtol=1e-3, atol=2e-3)
    assert checked > 0
    with (tmp_path / "X-velocities.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == mesh.frequencies.size
    assert float(rows[5]["v_y_THz_A"]) == pytest.approx(mesh.velocities.reshape(-1, 3)[5, 1])
    assert (tmp_path / "X-velocities.png").stat().st_size > 5_000


def test_born_charges_split_the_optical_modes(compound, alloy, tmp_path):
    path = tmp_path / "BORN"
    path.write_text(BORN)
    polar = phonons(compound.atoms, alloy, relax=False, born=path)
    near = [[1e-3, 0, 0]]
    plain = compound.frequencies(near)[0]
    split = polar.frequencies(near)[0]
    np.testing.assert_allclose(split[3:5], plain[3:5], rtol=1e-2)
    assert split[5] > plain[5] * 1.05
    # The first line of phonopy's own files is often a comment; the constant: e^2 / 4 pi epsilon_0.
    path.write_text(BORN.replace("14.4", "# epsilon and Z* of atoms 1 2", 1))
    same = phonons(compound.atoms, alloy, relax=False, born=path)
    np.testing.assert_allclose(same.frequencies(near)[0][3:], split[3:], rtol=1e-4)


def test_grueneisen_parameters_of_polar_modes(compound, alloy, tmp_path):
    """Against logarithms of frequencies at two volumes, each with the same Born charges."""
    path = tmp_path / "BORN"
    path.write_text(BORN)
    options = {"relax": False, "born": path, "mesh": (4, 4, 4)}
    found = phonons(compound.atoms, alloy, grueneisen=True, **options).grueneisen
    logarithms = []
    for factor in (1.01, 0.99):
        cell = compound.atoms.copy()
        cell.set_cell(cell.cell.array * factor ** (1 / 3), scale_atoms=True)
        other = phonons(cell, alloy, **options)
        logarithms.append(np.log(other.frequencies([[0.25, 0, 0]])[0]))
    expected = -(logarithms[0] - logarithms[1]) / (np.log(1.01) - np.log(0.99))
    index = int(np.argmin(np.linalg.norm(found.q_points - [0.25, 0, 0], axis=1)))
    np.testing.assert_allclose(found.q_points[index], [0.25, 0, 0])
    np.testing.assert_allclose(np.sort(found.parameters[index]), np.sort(expected), rtol=1e-2)


def test_wrong_born_charges(compound, alloy, tmp_path):
    with pytest.raises(FileNotFoundError, match="BORN"):
        phonons(compound.atoms, alloy, relax=False, born=tmp_path / "BORN")
    path = tmp_path / "BORN"
    path.write_text("nonsense here")
    with pytest.raises(ValueError, match="phonopy cannot read Born charges"):
        phonons(compound.atoms, alloy, relax=False, born=path)
