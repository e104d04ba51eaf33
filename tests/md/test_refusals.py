"""What a run refuses, and how it stops when it blows up."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ase import Atoms
from ase.calculators.emt import EMT
from ase.io import read

from mlpot.md import UnstableDynamics, run_md


class Failing(EMT):
    """EMT that does something else at and after a number of calculations."""

    def __init__(self, after: int, what: str) -> None:
        super().__init__()
        self.after, self.what, self.calls = after, what, 0

    def calculate(self, *arguments, **named):
        super().calculate(*arguments, **named)
        self.calls += 1
        if self.calls <= self.after:
            return
        if self.what == "nan energy":
            self.results["energy"] = np.nan
        elif self.what == "nan forces":
            self.results["forces"] = np.full_like(self.results["forces"], np.nan)
        elif self.what == "huge forces":
            self.results["forces"] = self.results["forces"] + 1e4
            self.results["forces"][0] -= 5e4
        else:
            raise RuntimeError("no such density")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("nan energy", "potential energy is nan"),
        ("nan forces", "forces are not finite"),
        ("huge forces", "above the limit of 10000 K"),
        ("raise", "RuntimeError: no such density"),
    ],
)
def test_explosion_stops_and_saves(copper, tmp_path, what, said):
    settings = {"timestep": 2.0, "log_interval": 5, "seed": 2}
    good = run_md(copper, steps=12, **settings)
    copper.calc = Failing(13, what)  # the first calculation is that of step 0
    with pytest.raises(UnstableDynamics, match=said) as caught:
        run_md(copper, steps=50, out=tmp_path, **settings)
    assert "stopped at step 13 (26 fs)" in str(caught.value)
    saved = read(tmp_path / "last_good.extxyz")
    np.testing.assert_allclose(saved.positions, good.atoms.positions, atol=1e-7)
    np.testing.assert_allclose(saved.get_velocities(), good.atoms.get_velocities(), atol=1e-6)
    assert np.isfinite(saved.get_potential_energy())
    np.testing.assert_array_equal(caught.value.record.atoms.positions, good.atoms.positions)
    assert not (tmp_path / "final.extxyz").exists()
    assert (tmp_path / "log.csv").read_text().count("\n") == 4  # names, steps 0, 5 and 10
    assert said in json.loads((tmp_path / "summary.json").read_text())["stopped"]
    assert len(read(tmp_path / "trajectory.traj", ":")) == 3


def test_lost_atom_stops():
    atoms = Atoms("Cu3", positions=[[0, 0, 0], [2.4, 0, 0], [5.5, 0, 0]], calculator=EMT())
    momenta = np.zeros((3, 3))
    momenta[2, 0] = 60.0
    atoms.set_momenta(momenta)
    with pytest.raises(UnstableDynamics, match=r"1 atom\(s\) are lost \(index 2\)"):
        run_md(
            atoms,
            keep_velocities=True,
            max_temperature=1e7,
            timestep=1.0,
            steps=200,
            log_interval=5,
        )


def test_atoms_apart_from_the_start_are_not_lost():
    atoms = Atoms("Cu2", positions=[[0, 0, 0], [20.0, 0, 0]], calculator=EMT())
    assert run_md(atoms, steps=20).steps_done == 20


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ensemble": "langvin"}, "known are nve, langevin; did you mean 'langevin'"),
        ({"ensemble": "npt"}, "unknown ensemble 'npt': known are nve, langevin"),
        ({"timestep": 0.0}, "timestep is 0.0: it must be a positive"),
        ({"timestep": float("nan")}, "timestep is nan"),
        ({"timestep": float("inf")}, "timestep is inf"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": 2e4}, "temperature is 20000.0: it must be below max_temperature"),
        ({"steps": 0}, "steps is 0"),
        ({"log_interval": 0}, "log_interval is 0"),
        ({"trajectory_interval": 0}, "trajectory_interval is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"ensemble": "langevin", "friction": 0.0}, "friction is 0.0"),
        ({"ensemble": "langevin", "friction": 3000.0}, "friction is 3000.0"),
        ({"trajectory": "run.dcd"}, "must end in .traj, .extxyz, .xyz"),
        ({"trajectory": "/nowhere/run.traj"}, "folder '/nowhere' does not exist"),
    ],
)
def test_senseless_settings(copper, tmp_path, changes, said):
    out = tmp_path / "out"
    with pytest.raises(ValueError) as caught:
        run_md(copper, out=out, **changes)
    assert said in str(caught.value)
    assert not out.exists()


def test_senseless_structures(copper):
    with pytest.raises(ValueError, match="no calculator"):
        run_md(copper.copy())
    with pytest.raises(ValueError, match="no atoms"):
        run_md(Atoms(calculator=EMT()))
    massless = Atoms("XCu", positions=[[0, 0, 0], [3, 0, 0]], masses=[0, 63], calculator=EMT())
    with pytest.raises(ValueError, match="positive mass"):
        run_md(massless)
    copper.calc = Failing(0, "nan energy")
    with pytest.raises(ValueError, match="cannot start: the potential energy is nan"):
        run_md(copper)


def test_results_are_kept_unless_told(copper, tmp_path):
    run_md(copper, steps=5, out=tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="holds results already"):
        run_md(copper, steps=5, out=tmp_path)
    calculator, copper.calc = copper.calc, Failing(0, "raise")
    with pytest.raises(RuntimeError, match="no such density"):
        run_md(copper, steps=5, out=tmp_path, overwrite=True)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    copper.calc = calculator
    run_md(copper, steps=5, seed=1, out=tmp_path, overwrite=True)
    assert (tmp_path / "log.csv").read_bytes() != before["log.csv"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_trajectory_is_kept_unless_told(copper, tmp_path):
    path = tmp_path / "frames.extxyz"
    run_md(copper, steps=5, trajectory=path)
    with pytest.raises(ValueError, match="exists"):
        run_md(copper, steps=5, trajectory=path)
    with pytest.raises(ValueError, match="is a file"):
        run_md(copper, steps=5, out=path)
    assert len(read(path, ":")) == 2
