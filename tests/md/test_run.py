"""Runs conserve energy, hold a temperature and repeat themselves."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.calculators.calculator import Calculator
from ase.calculators.emt import EMT
from ase.io import read
from rich.console import Console

from mlpot.md import run_md


class Springs(Calculator):
    """Each atom on a spring at the origin: E = sum 1/2 k r^2."""

    implemented_properties = ["energy", "forces"]
    k = 5.0

    def calculate(self, atoms=None, properties=("energy",), system_changes=()):
        super().calculate(atoms, properties, system_changes)
        x = self.atoms.positions
        self.results = {"energy": 0.5 * self.k * float((x**2).sum()), "forces": -self.k * x}


def springs(n_atoms: int) -> Atoms:
    positions = np.random.default_rng(0).normal(0.0, 0.08, (n_atoms, 3))
    return Atoms(["C"] * n_atoms, positions=positions, calculator=Springs())


def test_nve_conserves_energy_and_fluctuates_as_the_step_squared(copper):
    spread = {}
    for timestep in (1.0, 2.0, 4.0):
        steps = int(400 / timestep)
        record = run_md(copper, timestep=timestep, steps=steps, log_interval=1, seed=3)
        total = record.column("total")
        spread[timestep] = total.std()
        assert np.ptp(total) < 0.02 * record.column("kinetic").mean()
        np.testing.assert_allclose(
            total, record.column("potential") + record.column("kinetic"), rtol=1e-14
        )
    assert spread[2.0] / spread[1.0] == pytest.approx(4.0, rel=0.15)
    assert spread[4.0] / spread[2.0] == pytest.approx(4.0, rel=0.15)


def test_drift_is_the_slope_per_atom_and_picosecond(copper):
    record = run_md(copper, timestep=4.0, steps=100, log_interval=5)
    slope = np.polyfit(record.column("time") / 1000, record.column("total") * 1000 / 4, 1)[0]
    assert record.drift == pytest.approx(slope, rel=1e-6)
    assert record.fluctuation == pytest.approx(record.column("total").std() * 250)
    assert run_md(copper, "langevin", steps=30).drift is None


def test_oscillator_follows_the_exact_solution():
    atoms = Atoms("C", positions=[[0.3, 0.0, -0.2]], calculator=Springs())
    record = run_md(atoms, temperature=0.0, timestep=0.05, steps=400, log_interval=400)
    from ase.units import fs

    omega = np.sqrt(Springs.k / atoms.get_masses()[0])
    expected = atoms.positions * np.cos(omega * 20.0 * fs)
    np.testing.assert_allclose(record.atoms.positions, expected, atol=2e-6)


def test_langevin_holds_the_temperature():
    n_atoms, temperature = 48, 400.0
    record = run_md(
        springs(n_atoms),
        "langevin",
        temperature=temperature,
        timestep=2.0,
        friction=20.0,
        steps=6000,
        log_interval=50,
        seed=1,
        fix_com=False,
    )
    values = record.column("temperature")[20:]
    # 100 samples, 100 fs = 2 / friction apart: independent but for the slow tail; an independent
    # one spreads by T sqrt(2 / 3N).
    spread = temperature * np.sqrt(2 / (3 * n_atoms))
    assert values.std() == pytest.approx(spread, rel=0.3)
    assert values.mean() == pytest.approx(temperature, abs=5 * spread / np.sqrt(len(values) / 2))
    potential = record.column("potential")[20:].mean()
    kinetic = record.column("kinetic")[20:].mean()
    assert potential == pytest.approx(kinetic, rel=0.1)


@pytest.mark.parametrize("ensemble", ["nve", "langevin"])
def test_same_seed_same_trajectory(copper, ensemble):
    before = copper.copy()
    first, again, other = (
        run_md(copper, ensemble, steps=20, timestep=2.0, seed=seed) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first.atoms.positions, again.atoms.positions)
    np.testing.assert_array_equal(first.atoms.get_momenta(), again.atoms.get_momenta())
    assert np.abs(first.atoms.positions - other.atoms.positions).max() > 1e-3
    assert copper == before  # the structure that was given is left alone


@pytest.mark.parametrize("ensemble", ["nve", "langevin"])
def test_centre_of_mass_stays(copper, ensemble):
    copper.rattle(0.05, seed=1)
    record = run_md(copper, ensemble, steps=50, timestep=2.0)
    np.testing.assert_allclose(
        record.atoms.get_center_of_mass(), copper.get_center_of_mass(), atol=1e-8
    )
    assert not record.atoms.constraints


def test_velocities_can_be_kept(copper):
    first = run_md(copper, steps=10, timestep=2.0)
    half = run_md(copper, steps=5, timestep=2.0).atoms
    half.calc = EMT()
    second = run_md(half, steps=5, timestep=2.0, keep_velocities=True)
    np.testing.assert_allclose(second.atoms.positions, first.atoms.positions, atol=1e-12)


def test_molecule_does_not_turn():
    atoms = molecule("CH3CH2OH", calculator=EMT())
    record = run_md(atoms, steps=20, timestep=0.2)
    assert np.abs(record.atoms.get_angular_momentum()).max() < 1e-6


@pytest.mark.parametrize("name", ["trajectory.traj", "frames.extxyz"])
def test_files_of_a_run(copper, tmp_path, name):
    out = tmp_path / "run"
    out.mkdir()
    screen = io.StringIO()
    record = run_md(
        copper,
        steps=25,
        timestep=2.0,
        log_interval=5,
        trajectory_interval=10,
        out=out,
        trajectory=None if name == "trajectory.traj" else out / name,
        console=Console(file=screen, width=120, force_terminal=True),
    )
    assert "25/25" in screen.getvalue() and "ns/day" in screen.getvalue()
    with open(out / "log.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [0, 5, 10, 15, 20, 25]
    assert [float(row["time_fs"]) for row in rows] == [0, 10, 20, 30, 40, 50]
    np.testing.assert_array_equal([float(r["total_eV"]) for r in rows], record.column("total"))
    frames = read(out / name, ":")
    assert len(frames) == 4  # steps 0, 10, 20 and the last
    assert frames[-1].get_potential_energy() == pytest.approx(float(rows[-1]["potential_eV"]))
    final = read(out / "final.extxyz")
    np.testing.assert_allclose(final.positions, record.atoms.positions, atol=1e-7)
    for picture in ("energies.png", "temperature.png", "rdf.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    summary = json.loads((out / "summary.json").read_text())
    assert summary["stopped"] is None
    assert summary["drift_meV_per_atom_per_ps"] == pytest.approx(record.drift)
    assert not (out / "last_good.extxyz").exists()
