"""Stages of a run: checked before the first step, summed up at the end, continued exactly."""

from __future__ import annotations

import io
import json
import os
import signal

import numpy as np
import pytest
from ase.constraints import FixAtoms, FixBondLength
from ase.io import read, write
from embedded_atoms import EmbeddedAtoms
from rich.console import Console
from sample_potentials import copper

from mlpot.md import launch
from mlpot.md.ase_bridge import to_structure
from mlpot.md.config import MDConfig, Stage
from mlpot.md.h5md import read_h5md
from mlpot.md.log_file import read_log
from mlpot.md.recording import Recording
from mlpot.md.restart import load_restart
from mlpot.md.run_files import RESTART
from mlpot.md.structure import Structure


@pytest.fixture(autouse=True)
def model(monkeypatch):
    potential = EmbeddedAtoms(numbers=(13, 29), cutoff=4.0, E0s={29: -1000.0})
    monkeypatch.setattr(launch, "_model", lambda config, structure: (potential, None))


def settings(out, stages, **changes) -> MDConfig:
    values = {"timestep": 2.0, "log_interval": 5, "restart_interval": 20, "block": 7, "skin": 0.6}
    names = {"model": "metal", "struct": "copper", "out": str(out)}
    return MDConfig(**{**names, **values, "stages": stages, **changes})


def start(config, atoms=None, **named):
    return launch.start_run(config, to_structure(copper(1) if atoms is None else atoms), **named)


def squeezed():
    atoms = copper(1)
    atoms.positions[1] = atoms.positions[0] + 0.35 * (atoms.positions[1] - atoms.positions[0])
    return atoms


def test_relaxations_have_no_temperature(tmp_path):
    # FIRE's velocities would be far above this limit.
    named = {"temperature": 1.0, "max_temperature": 2.0}
    screen = io.StringIO()
    summary = start(
        settings(tmp_path / "short", [Stage(ensemble="minimise", steps=10)], **named),
        squeezed(),
        console=Console(file=screen, width=200),
    )
    (end,) = summary["relaxations"]
    assert not end["converged"] and end["largest_force_eV_per_A"] > end["fmax_eV_per_A"]
    assert "minimise has not converged in 10 steps: the largest force is" in screen.getvalue()
    assert summary["mean_temperature_K"] is None and summary["ns_per_day"] is None
    assert json.loads((tmp_path / "short" / "summary.json").read_text())["relaxations"] == [end]
    log = read_log(tmp_path / "short" / "log.csv")
    assert np.isnan(log["temperature_K"]).all() and not log["kinetic_eV"].any()
    summary = start(
        settings(tmp_path / "long", [Stage(ensemble="minimise", steps=400, fmax=0.05)], **named),
        squeezed(),
    )
    (end,) = summary["relaxations"]
    assert end["converged"] and end["largest_force_eV_per_A"] <= 0.05


def test_pressure_is_logged_where_it_is_computed(tmp_path):
    stages = [
        Stage(steps=10),
        Stage(ensemble="npt", steps=10),
    ]
    start(settings(tmp_path / "run", stages))
    log = read_log(tmp_path / "run" / "log.csv")
    produced = log["stage"] == "npt"
    assert np.isnan(log["pressure_GPa"][~produced]).all()
    assert np.all(np.abs(log["pressure_GPa"][produced]) > 0) and produced.sum() == 2
    assert (tmp_path / "run" / "cell.png").is_file()
    start(settings(tmp_path / "nve", stages[:1]))
    assert not (tmp_path / "nve" / "cell.png").exists()


def test_later_stages_are_checked_before_the_first_step(tmp_path):
    slab = copper(1)
    slab.pbc = [True, True, False]
    stages = [Stage(ensemble="langevin", steps=20), Stage(name="press", ensemble="npt", steps=20)]
    with pytest.raises(ValueError, match="stage 2, 'press': constant pressure needs three"):
        start(settings(tmp_path / "run", stages), slab)
    assert not (tmp_path / "run").exists()


def test_equal_stages_are_summed_up_apart(tmp_path):
    cold = Stage(ensemble="langevin", steps=40, temperature=50.0, friction=100.0)
    hot = cold.model_copy(update={"temperature": 1500.0})
    summary = start(settings(tmp_path / "run", [hot, cold.model_copy(), hot]))
    log = read_log(tmp_path / "run" / "log.csv")
    last = log["step"] > 80
    assert summary["mean_temperature_K"] == pytest.approx(log["temperature_K"][last].mean())
    assert summary["std_temperature_K"] == pytest.approx(log["temperature_K"][last].std())


def test_a_resumed_run_is_summed_up_as_a_whole(tmp_path, monkeypatch):
    stages = [Stage(ensemble="langevin", steps=20), Stage(ensemble="nose-hoover", steps=45)]
    whole = start(settings(tmp_path / "whole", stages, trajectory=""))
    note = Recording.note

    def stop(self, stage, system, state, step, *rest):
        if step == 55:
            raise KeyboardInterrupt
        note(self, stage, system, state, step, *rest)

    monkeypatch.setattr(Recording, "note", stop)
    with pytest.raises(KeyboardInterrupt):
        start(settings(tmp_path / "parts", stages, trajectory=""))
    monkeypatch.setattr(Recording, "note", note)
    parts = launch.resume_run(tmp_path / "parts")
    for name in ("mean_temperature_K", "std_temperature_K", "drift_meV_per_atom_per_ps"):
        assert parts[name] == pytest.approx(whole[name], rel=1e-9), name
    assert whole["restarted_from_step"] is None and whole["steps_since_restart"] == 65
    assert parts["restarted_from_step"] == 40 and parts["steps_since_restart"] == 25
    assert parts["closest_pair_A"] <= read_log(tmp_path / "parts" / "log.csv")["closest_A"].min()


def test_a_limit_of_memory_that_did_not_hold(tmp_path):
    stages = [Stage(steps=5)]
    for limit, passed in ((1e-9, True), (100.0, False)):
        summary = start(settings(tmp_path / str(limit), stages, memory_limit=limit))
        assert summary["memory_limit_passed"] is passed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_restart_file_after_the_block(tmp_path, monkeypatch, number):
    # Slow atoms: one list of pairs outlives the blocks, and the restart must bring it back.
    named = {"temperature": 30.0, "restart_interval": 1000, "log_interval": 1}
    stages = [Stage(ensemble="langevin", steps=30), Stage(ensemble="nose-hoover", steps=30)]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    start(settings(whole, stages, **named))
    note, signals = Recording.note, [10, 45]

    def send(self, stage, system, state, step, *rest):
        note(self, stage, system, state, step, *rest)
        if signals and step == signals[0]:
            signals.pop(0)
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Recording, "note", send)
    with pytest.raises(KeyboardInterrupt):
        start(settings(parts, stages, **named))
    assert load_restart(parts / RESTART)[1].step == 14  # two blocks of 7
    stopped = json.loads((parts / "summary.json").read_text())
    assert stopped["stopped"] == "interrupted" and stopped["lists_built"] > 0
    with pytest.raises(KeyboardInterrupt):
        launch.resume_run(parts)
    assert load_restart(parts / RESTART)[1].step == 51
    summary = launch.resume_run(parts)
    assert summary["steps_done"] == 60 and not signals
    first, second = read_log(whole / "log.csv"), read_log(parts / "log.csv")
    for name in first:
        if name != "steps_per_second":
            np.testing.assert_array_equal(second[name], first[name], name)
    one, two = read_h5md(whole / "trajectory.h5"), read_h5md(parts / "trajectory.h5")
    np.testing.assert_array_equal(two["position"], one["position"])


@pytest.mark.parametrize("ending", ["traj", "xyz"])
def test_fixed_atoms_of_a_structure_file(tmp_path, ending):
    atoms = copper(1)
    atoms.rattle(0.05, seed=1)
    atoms.set_constraint([FixAtoms([0]), FixAtoms([-1])])
    write(tmp_path / f"fixed.{ending}", atoms)
    given = read(tmp_path / f"fixed.{ending}")
    config = settings(tmp_path / "run", [Stage(ensemble="langevin", steps=20)], fixed=[1])
    start(config, given)
    final = read(tmp_path / "run" / "final.extxyz")
    moved = np.abs(final.positions - given.positions).max(axis=1)
    assert np.all(moved[[0, 1, 3]] < 1e-5) and moved[2] > 0.01
    assert Structure.load(tmp_path / "run" / "start.npz").fixed.tolist() == [0, 3]
    given.set_constraint(FixBondLength(0, 1))
    with pytest.raises(ValueError, match=r"FixBondLengths, which .* use FixAtoms"):
        to_structure(given)


@pytest.mark.parametrize("pbc", [False, (True, True, False)])
def test_far_from_the_origin(tmp_path, pbc):
    near = copper(1)
    near.pbc = pbc
    far = near.copy()
    shift = np.where(near.pbc, 0.0, [20_000.0, -30_000.0, 10_000.0])
    far.positions += shift
    # The precision of single steps: at 10,000 Angstrom forces would be wrong by a hundredth.
    named = {"temperature": 100.0, "trajectory": "frames.extxyz", "restart_interval": 10}
    logs, ends = [], []
    for name, atoms in (("near", near), ("far", far)):
        start(settings(tmp_path / name, [Stage(steps=20)], **named), atoms)
        logs.append(read_log(tmp_path / name / "log.csv"))
        ends.append(read(tmp_path / name / "frames.extxyz", "-1").positions)
        np.testing.assert_allclose(read(tmp_path / name / "final.extxyz").positions, ends[-1])
    # Rounding of positions at most some Angstrom from the origin.
    np.testing.assert_allclose(logs[1]["potential_eV"], logs[0]["potential_eV"], atol=2e-4)
    np.testing.assert_allclose(ends[1] - shift, ends[0], atol=2e-5)
