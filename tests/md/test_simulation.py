"""Staged runs: files, exact restarts, kills, explosions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from ase.io import read
from embedded_atoms import EmbeddedAtoms
from sample_potentials import copper

from mlpot.md import launch
from mlpot.md.ase_bridge import to_structure
from mlpot.md.config import MDConfig, Stage
from mlpot.md.h5md import read_h5md
from mlpot.md.log_file import read_log
from mlpot.md.recording import Recording
from mlpot.md.run_files import RESTART
from mlpot.md.stopped_run import StoppedRun


def metal(closest=None):
    """In place of a model file."""

    def model(config, structure):
        potential = EmbeddedAtoms(numbers=(13, 29), cutoff=4.0, E0s={29: -1000.0})
        if config.dtype == "float64":
            potential.set_dtype(mx.float64)
        return potential, closest

    return model


@pytest.fixture(autouse=True)
def model(monkeypatch):
    monkeypatch.setattr(launch, "_model", metal())


STAGES = [
    Stage(ensemble="minimise", steps=30, fmax=0.05),
    Stage(name="heat", ensemble="langevin", steps=40, temperature=(50.0, 400.0)),
    Stage(name="produce", ensemble="npt", steps=50, pressure=1.0, tau_pressure=0.2),
]


def settings(out, **changes) -> MDConfig:
    values = {
        "model": "metal",
        "struct": "copper",
        "out": str(out),
        "stages": STAGES,
        "timestep": 2.0,
        "temperature": 400.0,
        "log_interval": 5,
        "restart_interval": 20,
        "block": 7,
        "skin": 0.6,
        **changes,
    }
    return MDConfig(**values)


def start(config, atoms=None, **named):
    return launch.start_run(config, to_structure(atoms or copper(1)), **named)


def test_stages_and_their_files(tmp_path):
    out = tmp_path / "run"
    summary = start(settings(out))
    log, frames = read_log(out / "log.csv"), read_h5md(out / "trajectory.h5")
    assert list(dict.fromkeys(log["stage"])) == ["minimise", "heat", "produce"]
    np.testing.assert_array_equal(frames["step"], log["step"])
    np.testing.assert_allclose(frames["energy"], log["potential_eV"], atol=1e-6)
    assert np.all(log["potential_eV"] < -4000)  # E0 of four atoms is in it
    relaxed = int(log["step"][log["stage"] == "minimise"][-1])
    assert log["potential_eV"][log["step"] == relaxed] < log["potential_eV"][0]
    produced = log["stage"] == "produce"
    assert np.ptp(log["volume_A3"][produced]) > 0.01
    assert np.ptp(log["volume_A3"][~produced]) == 0
    assert log["time_fs"][-1] == 2.0 * 90 and summary["steps_done"] <= 120
    final = read(out / "final.extxyz")
    assert not (out / "last_good.extxyz").exists()
    np.testing.assert_allclose(final.get_volume(), log["volume_A3"][-1], rtol=1e-5)
    saved = json.loads((out / "summary.json").read_text())
    assert saved["stopped"] is None and saved["settings"]["seed"] == 0
    conserved = log["conserved_eV"][produced]
    slope = np.polyfit(log["time_fs"][produced] / 1000, conserved, 1)[0] * 1000 / 4
    assert saved["drift_meV_per_atom_per_ps"] == pytest.approx(slope, rel=1e-4)
    for name in ("energies.png", "temperature.png", "cell.png", "rdf.png", "msd.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="holds results already"):
        start(settings(out))
    with pytest.raises(ValueError, match="has reached its end"):
        launch.resume_run(out)
    start(settings(out), overwrite=True)
    again = read_log(out / "log.csv")
    np.testing.assert_array_equal(again["potential_eV"], log["potential_eV"])


@pytest.mark.parametrize("trajectory", ["trajectory.h5", "frames.extxyz", "frames.traj"])
def test_a_stopped_run_goes_on_exactly(tmp_path, monkeypatch, trajectory):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    stages = [
        Stage(ensemble="langevin", steps=50),
        Stage(ensemble="nose-hoover", steps=50),
    ]
    named = {"stages": stages, "trajectory": trajectory}
    start(settings(whole, **named))
    # Stopped twice, between restart files, in the middle of either stage.
    submit, stops = Recording.note, [33, 84]

    def note(self, number, system, state, step, *rest):
        if stops and step >= stops[0]:
            stops.pop(0)
            raise KeyboardInterrupt
        submit(self, number, system, state, step, *rest)

    monkeypatch.setattr(Recording, "note", note)
    with pytest.raises(KeyboardInterrupt):
        start(settings(parts, **named))
    with pytest.raises(KeyboardInterrupt):
        launch.resume_run(parts)
    assert not stops
    assert read(parts / "last_good.extxyz").info["step"] >= 40
    launch.resume_run(parts)
    assert read(parts / "final.extxyz").info["step"] == 100
    assert not (parts / "last_good.extxyz").exists()
    first, second = read_log(whole / "log.csv"), read_log(parts / "log.csv")
    for name in first:
        if name != "steps_per_second":
            np.testing.assert_array_equal(second[name], first[name], name)
    if trajectory.endswith("h5"):
        one, two = read_h5md(whole / trajectory), read_h5md(parts / trajectory)
        for name in one:
            np.testing.assert_array_equal(two[name], one[name], name)
    else:
        one, two = read(whole / trajectory, ":"), read(parts / trajectory, ":")
        assert len(one) == len(two) == 21
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a.positions, b.positions)


KILLED = """
import sys
sys.path[:0] = {path!r}
from test_simulation import metal, settings, launch, start, Stage
launch._model = metal()
stages = [Stage(ensemble="langevin", steps=200)]
start(settings({out!r}, stages=stages, log_interval=1, restart_interval=5, block=5))
"""


def test_a_killed_run_opens_and_goes_on(tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "killed"
    stages = [Stage(ensemble="langevin", steps=200)]
    changes = {"stages": stages, "log_interval": 1, "restart_interval": 5, "block": 5}
    here = Path(__file__).parent
    code = KILLED.format(path=[str(here), str(here.parent / "support")], out=str(out))
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    for kills, wait in enumerate((0.3, 0.5)):
        if kills == 0:
            process = subprocess.Popen([sys.executable, "-c", code], env=environment)
        else:
            again = f"from pathlib import Path; launch.resume_run(Path({str(out)!r}))"
            again = code[: code.index("stages = ")] + again
            process = subprocess.Popen([sys.executable, "-c", again], env=environment)
        begun = time.monotonic()
        while process.poll() is None and time.monotonic() < begun + 60:
            if (out / RESTART).exists() and (out / RESTART).stat().st_mtime > time.time() - 5:
                time.sleep(wait)
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        frames = read_h5md(out / "trajectory.h5")  # opens
        assert len(frames["step"]) > 0
    launch.resume_run(out)
    start(settings(whole, **changes))
    one, two = read_h5md(whole / "trajectory.h5"), read_h5md(out / "trajectory.h5")
    np.testing.assert_array_equal(two["step"], np.arange(201))
    np.testing.assert_array_equal(two["position"], one["position"])
    first, second = read_log(whole / "log.csv"), read_log(out / "log.csv")
    np.testing.assert_array_equal(second["conserved_eV"], first["conserved_eV"])


@pytest.mark.parametrize("neighbors", ["host", "device"])
def test_replicas_have_their_own_velocities(tmp_path, neighbors):
    stages = [Stage(ensemble="langevin", steps=20)]
    start(settings(tmp_path / "run", stages=stages, replicas=3, neighbors=neighbors))
    log = read_log(tmp_path / "run" / "log.csv")
    assert len(log["step"]) == 3 * 5
    assert len(set(log["temperature_K"][:3])) == 3
    for replica in range(3):
        found = read_h5md(tmp_path / "run" / "trajectory.h5", f"replica_{replica:03d}")
        assert found["position"].shape == (5, 4, 3)
        own = log["replica"] == replica
        np.testing.assert_allclose(found["energy"], log["potential_eV"][own], atol=1e-6)
        final = read(tmp_path / "run" / "final.extxyz", index=replica)
        assert final.info["replica"] == replica and final.info["step"] == 20
        assert final.get_potential_energy() == pytest.approx(found["energy"][-1], abs=1e-6)


def test_each_replica_at_its_own_temperature(tmp_path):
    stages = [Stage(ensemble="langevin", steps=300, friction=50.0)]
    each = {"replicas": 3, "replica_temperatures": [50.0, 300.0, 1000.0]}
    start(settings(tmp_path / "run", stages=stages, trajectory="", block=20, **each))
    log = read_log(tmp_path / "run" / "log.csv")
    means = [log["temperature_K"][log["replica"] == k][10:].mean() for k in range(3)]
    # 50 samples of 9 degrees of freedom, correlated over 20 fs and more: about a tenth each.
    np.testing.assert_allclose(means, each["replica_temperatures"], rtol=0.4)
    for changes, said in (
        ({"replicas": 2}, "3 values for 2 replicas"),
        ({"replica_temperatures": [1.0, 2.0, 1e5]}, "between 0 and max_temperature"),
        ({"stages": STAGES}, "stage 'heat' has a temperature, but replica_temperatures too"),
    ):
        with pytest.raises(ValueError, match=said):
            settings(tmp_path / "run", **{"stages": stages, **each, **changes})


def test_fixed_atoms_and_float64(tmp_path):
    stages = [Stage(ensemble="bussi", steps=30)]
    start(settings(tmp_path / "run", stages=stages, fixed=[0, 2], dtype="float64"))
    frames = read_h5md(tmp_path / "run" / "trajectory.h5")
    assert frames["position"].dtype == np.float64
    unwrapped = frames["position"] + frames["image"] @ frames["edges"]
    moved = np.abs(unwrapped - unwrapped[0]).max(axis=(0, 2))
    assert np.all(moved[[0, 2]] < 1e-12) and np.all(moved[[1, 3]] > 0.01)


def test_explosions_stop_and_save(tmp_path):
    hot = settings(tmp_path / "hot", stages=[Stage(steps=200)], timestep=40.0)
    with pytest.raises(StoppedRun, match=r"stopped at step \d+.*(limit of 10000 K|not finite)"):
        start(hot)
    saved = read(tmp_path / "hot" / "last_good.extxyz")
    assert np.isfinite(saved.positions).all()
    assert not (tmp_path / "hot" / "final.extxyz").exists()
    assert json.loads((tmp_path / "hot" / "summary.json").read_text())["stopped"]
    flying = copper(1)
    flying.pbc = False
    flying.positions[3] += [1.5, 1.0, 1.0]
    flying.set_velocities(np.zeros((4, 3)))
    flying.arrays["momenta"][3] = [80.0, 80.0, 80.0]
    with pytest.raises(StoppedRun, match=r"1 atom\(s\) are lost \(index 3\)"):
        start(
            settings(
                tmp_path / "lost",
                stages=[Stage(steps=400)],
                keep_velocities=True,
                max_temperature=1e7,
            ),
            flying,
        )


def test_an_exploded_run_goes_on_with_a_shorter_step(tmp_path):
    out = tmp_path / "hot"
    stages = [Stage(steps=40), Stage(name="hot", steps=60, timestep=40.0)]
    said = rf"from step 40 by: mlpot md --resume {out} --timestep 20"
    with pytest.raises(StoppedRun, match=said):
        start(settings(out, stages=stages))
    with pytest.raises(ValueError, match="seed: a run that goes on keeps its settings, but for"):
        launch.resume_run(out, changes={"seed": 3})
    with pytest.raises(ValueError, match="a time step may have 50 fs at most"):
        launch.resume_run(out, changes={"timestep": 80.0})
    with pytest.raises(StoppedRun):  # nothing has changed
        launch.resume_run(out)
    summary = launch.resume_run(out, changes={"timestep": 1.0, "max_temperature": 2000.0})
    assert summary["stopped"] is None and summary["steps_done"] == 100
    assert (out / "final.extxyz").exists() and not (out / "last_good.extxyz").exists()
    log = read_log(out / "log.csv")
    np.testing.assert_array_equal(log["step"], np.arange(0, 101, 5))
    late = log["step"] > 40
    np.testing.assert_allclose(log["time_fs"][~late], 2.0 * log["step"][~late])
    np.testing.assert_allclose(log["time_fs"][late], 80.0 + (log["step"][late] - 40))
    assert abs(summary["drift_meV_per_atom_per_ps"]) < 50
    kept = json.loads((out / "config.json").read_text())
    assert kept["max_temperature"] == 2000.0 and kept["timestep"] == 1.0
    assert [stage["timestep"] for stage in kept["stages"]] == [None, None]


def test_a_run_stopped_in_its_first_block_goes_on_exactly(tmp_path, monkeypatch):
    stages = [Stage(ensemble="langevin", steps=30)]
    start(settings(tmp_path / "whole", stages=stages))
    note = Recording.note

    def stop(self, number, system, state, step, *rest):
        if step == 5:
            raise KeyboardInterrupt
        note(self, number, system, state, step, *rest)

    monkeypatch.setattr(Recording, "note", stop)
    with pytest.raises(KeyboardInterrupt):
        start(settings(tmp_path / "parts", stages=stages))
    monkeypatch.setattr(Recording, "note", note)
    assert launch.resume_run(tmp_path / "parts")["restarted_from_step"] == 0
    first, second = (read_log(tmp_path / name / "log.csv") for name in ("whole", "parts"))
    for name in first:
        if name != "steps_per_second":
            np.testing.assert_array_equal(second[name], first[name], name)
    one, two = (read_h5md(tmp_path / name / "trajectory.h5") for name in ("whole", "parts"))
    np.testing.assert_array_equal(two["position"], one["position"])


def test_starts_that_fail_leave_no_files(tmp_path):
    broken = copper(1)
    broken.positions[1] = broken.positions[0]
    with pytest.raises(ValueError, match="cannot start: atoms 0 and 1 are at the same place"):
        start(settings(tmp_path / "run"), broken)
    with pytest.raises(ValueError, match="fixed names atom 9"):
        start(settings(tmp_path / "run", fixed=[9]))
    molecule = copper(1)
    molecule.pbc = False
    with pytest.raises(ValueError, match="three periodic directions"):
        start(settings(tmp_path / "run", stages=[Stage(ensemble="npt")]), molecule)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="is not the folder of a run"):
        launch.resume_run(tmp_path)


def test_rotation_counts_once_noise_has_brought_it():
    from mlpot.md.beginning import make_system

    molecule = copper(1)
    molecule.pbc = False
    names = ["nve", "minimise", "langevin", "bussi"]
    config = settings("out", stages=[Stage(ensemble=name) for name in names])
    degrees = [
        float(make_system(config, to_structure(molecule), number).degrees[0]) for number in range(4)
    ]
    assert degrees == [6, 6, 9, 9]


def test_close_pairs_are_told(tmp_path, monkeypatch):
    from io import StringIO

    from rich.console import Console

    monkeypatch.setattr(launch, "_model", metal(closest=2.45))
    screen = StringIO()
    console = Console(file=screen, width=200)
    summary = start(settings(tmp_path / "run", stages=[Stage(steps=60)]), console=console)
    assert screen.getvalue().count("closer than any in the training data (2.450 Å)") == 1
    assert summary["closer_than_training_data"] and summary["closest_pair_A"] < 2.45
    frames = read_h5md(tmp_path / "run" / "trajectory.h5")
    assert summary["closest_pair_A"] > 1.5 and len(frames["step"]) == 13


def test_limits_of_memory(tmp_path, monkeypatch):
    monkeypatch.undo()
    before = mx.set_memory_limit(2**40), mx.set_cache_limit(2**40)
    try:
        with pytest.raises(FileNotFoundError):
            start(settings(tmp_path / "run", memory_limit=2.0, cache_limit=0.5))
        assert mx.set_memory_limit(before[0]) == 2 * 10**9
        assert mx.set_cache_limit(before[1]) == 5 * 10**8
    finally:
        mx.set_memory_limit(before[0])
        mx.set_cache_limit(before[1])
