"""The folder of a staged run: kills, full disks, damaged and missing files, two runs at once."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import subprocess
import sys

import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.io import read
from ase.io.trajectory import TrajectoryWriter
from embedded_atoms import EmbeddedAtoms
from sample_potentials import copper

from mlpot.md import ase_bridge, launch, run_files, run_md
from mlpot.md.ase_bridge import AseFrames, read_frames, to_structure
from mlpot.md.config import MDConfig, Stage
from mlpot.md.folder_lock import folder_lock
from mlpot.md.frame import Frame
from mlpot.md.h5md import read_h5md
from mlpot.md.log_file import LogFile, read_log
from mlpot.md.observables import COLUMNS
from mlpot.md.recording import Recording
from mlpot.md.simulation import Simulation


def frame(step: int) -> Frame:
    values = np.random.default_rng(step).normal(size=(3, 2, 3))
    return Frame(
        step=step,
        time=0.5 * step,
        numbers=np.array([1, 8]),
        masses=np.array([1.0, 16.0]),
        node_graph=np.zeros(2, int),
        pbc=np.ones((1, 3), bool),
        positions=values[0],
        images=np.zeros((2, 3), np.int32),
        velocities=values[1],
        forces=values[2],
        cells=4.0 * np.eye(3)[None],
        energies=np.array([-1.0 * step]),
    )


def frames_file(path, count: int) -> AseFrames:
    file = AseFrames(path)
    for step in range(count):
        file.write(frame(step))
    file.flush()
    return file


def steps_in(path) -> list[int]:
    return [int(one.info["step"]) for one in read(path, ":")]  # pyright: ignore


class Killed(BaseException):
    """As if the process had ended."""


def test_a_kill_while_frames_are_cut_leaves_them_all(tmp_path, monkeypatch):
    path = tmp_path / "run.traj"
    frames_file(path, 9).close()

    class Dying(TrajectoryWriter):
        def write(self, atoms):
            if len(self.backend) >= 3:
                raise Killed
            super().write(atoms)

    monkeypatch.setattr(ase_bridge, "TrajectoryWriter", Dying)
    with pytest.raises(Killed):
        AseFrames(path, 6)
    assert steps_in(path) == list(range(9))
    monkeypatch.undo()
    file = AseFrames(path, 6)
    assert steps_in(path) == list(range(6))
    file.write(frame(20))
    file.close()
    assert steps_in(path) == [*range(6), 20]
    np.testing.assert_array_equal(read_frames(path)["energy"], [0, -1, -2, -3, -4, -5, -20])
    file = AseFrames(path, 7)  # nothing to cut
    file.write(frame(21))
    file.close()
    assert steps_in(path) == [*range(6), 20, 21]


@pytest.mark.parametrize("suffix", ["traj", "extxyz"])
def test_missing_frames_are_refused(tmp_path, suffix):
    path = tmp_path / f"run.{suffix}"
    frames_file(path, 4).close()
    content = path.read_bytes()
    with pytest.raises(ValueError, match=r"the restart file counts .* start the run anew"):
        AseFrames(path, 6, len(content) + 1)
    assert path.read_bytes() == content
    path.unlink()
    with pytest.raises(ValueError, match="the restart file counts"):
        AseFrames(path, 6, len(content))
    assert not path.exists()
    path.write_bytes(content[:60])
    with pytest.raises(ValueError, match=r"cannot be read|the restart file counts"):
        AseFrames(path, 6, len(content))


def row(log: LogFile, step: int) -> None:
    log.write(step, 0.5 * step, "heat", {name: np.full(2, 1.0 * step) for name in COLUMNS}, 3.0)


def test_a_short_log_is_refused(tmp_path):
    path = tmp_path / "log.csv"
    log = LogFile(path)
    row(log, 0)
    row(log, 1)
    log.flush()
    kept = log.length()
    assert kept == path.stat().st_size
    row(log, 2)
    log.close()
    log = LogFile(path, kept)
    row(log, 3)
    log.close()
    np.testing.assert_array_equal(read_log(path)["step"], [0, 0, 1, 1, 3, 3])
    with open(path, "ab") as file:  # as if there had been no more room
        file.write(b"4,2.0,heat,0,4.")
    np.testing.assert_array_equal(read_log(path)["step"], [0, 0, 1, 1, 3, 3])
    content = path.read_bytes()
    with pytest.raises(ValueError, match=rf"has {len(content)} bytes, the restart file counts"):
        LogFile(path, len(content) + 1)
    assert path.read_bytes() == content


@pytest.fixture
def metal(monkeypatch):
    """In place of a model file."""
    potential = EmbeddedAtoms(numbers=(13, 29), cutoff=4.0)

    def model(config, structure):
        return potential, None

    monkeypatch.setattr(launch, "_model", model)
    return model


def settings(out, **changes) -> MDConfig:
    stages = [Stage(steps=20)]
    values = {"log_interval": 5, "restart_interval": 10, "stages": stages, **changes}
    return MDConfig(model="metal", struct="copper", out=str(out), **values)


def start(out, overwrite=False, **changes):
    return launch.start_run(settings(out, **changes), to_structure(copper(1)), overwrite=overwrite)


def test_one_run_at_a_time(tmp_path, metal, monkeypatch):
    seen = []
    run = Simulation.run

    def with_another(self, **named):
        for other in (
            lambda: launch.resume_run(tmp_path),
            lambda: start(tmp_path, overwrite=True),
        ):
            with pytest.raises(ValueError, match=f"process {os.getpid()} runs .*{tmp_path}"):
                other()
            seen.append(other)
        return run(self, **named)

    monkeypatch.setattr(Simulation, "run", with_another)
    (tmp_path / "config.json").write_text("{}")
    start(tmp_path, overwrite=True)
    assert len(seen) == 2 and not (tmp_path / ".lock").exists()


HOLDER = """
import sys, time
from pathlib import Path
from mlpot.md.folder_lock import folder_lock
with folder_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_gone(tmp_path):
    words = [sys.executable, "-c", HOLDER, str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(ValueError, match=f"process {process.pid} runs"), folder_lock(tmp_path):
        pass
    process.kill()
    process.wait()
    process.stdout.close()
    assert (tmp_path / ".lock").exists()
    with folder_lock(tmp_path):
        pass
    assert not (tmp_path / ".lock").exists()


def test_a_folder_that_another_run_makes_meanwhile(tmp_path, metal, monkeypatch):
    out = tmp_path / "run"
    run = Simulation.run

    def behind_another(self, **named):
        out.mkdir()
        (out / "log.csv").write_text("of another run")
        return run(self, **named)

    monkeypatch.setattr(Simulation, "run", behind_another)
    with pytest.raises(ValueError, match="holds results already"):
        start(out)
    assert [path.name for path in out.iterdir()] == ["log.csv"]


def test_overwriting_removes_the_earlier_trajectory(tmp_path, metal):
    (tmp_path / "mine.traj").write_bytes(b"not of a run")
    start(tmp_path, trajectory="first.h5")
    with pytest.raises(ValueError, match=r"holds results already.*first\.h5"):
        start(tmp_path, trajectory="second.extxyz")
    start(tmp_path, trajectory="second.extxyz", overwrite=True)
    assert not (tmp_path / "first.h5").exists()
    assert (tmp_path / "second.extxyz").exists() and (tmp_path / "mine.traj").exists()


@pytest.mark.parametrize("name", ["restart.npz", "start.npz"])
def test_damaged_files_say_what_to_do(tmp_path, metal, name):
    start(tmp_path, trajectory="")
    content = (tmp_path / name).read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 1):
        (tmp_path / name).write_bytes(content[:length])
        with pytest.raises(ValueError, match=rf"{name}.*start the run anew with --overwrite"):
            launch.resume_run(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"replicas": 2}, "it has 1 structure(s) with 4 atoms in all, not 2 with 8"),
        ({"dtype": "float64"}, "it has float32 numbers, not float64"),
        ({"stages": [{"steps": 5}]}, "it has step 10 of stage 1, which is shorter"),
        ({"stages": [{"ensemble": "bussi", "steps": 20}]}, "it has no 'heat' as bussi needs it"),
    ],
)
def test_a_configuration_of_another_run(tmp_path, metal, monkeypatch, changes, said):
    note = Recording.note

    def stop(self, number, system, state, step, *rest):
        if step == 15:
            raise KeyboardInterrupt
        note(self, number, system, state, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Recording, "note", stop)
        with pytest.raises(KeyboardInterrupt):
            start(tmp_path)
    config = tmp_path / "config.json"
    written = config.read_text()
    config.write_text(json.dumps(json.loads(written) | changes))
    before = (tmp_path / "log.csv").read_bytes()
    with pytest.raises(ValueError, match=re.escape(f"than config.json: {said}")):
        launch.resume_run(tmp_path)
    assert (tmp_path / "log.csv").read_bytes() == before
    config.write_text(written)
    assert launch.resume_run(tmp_path)["steps_done"] == 20


def test_a_folder_that_cannot_be_written_to(tmp_path, metal, monkeypatch):
    def forbidden(*arguments):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    (tmp_path / "run").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("mlpot.md.folder_lock.os.open", forbidden)
        said = r"run' cannot be written to: Permission denied \(.lock\)"
        with pytest.raises(OSError, match=said):
            start(tmp_path / "run")
    monkeypatch.setattr(LogFile, "write", forbidden)
    said = r"log\.csv' cannot be written: Permission denied. Allow yourself to write it, then"
    with pytest.raises(OSError, match=said):
        start(tmp_path / "run")


@pytest.mark.parametrize(
    ("trajectory", "full"),
    [
        ("frames.traj", "frames.traj"),
        ("frames.extxyz", "frames.extxyz"),
        ("frames.h5", "frames.h5"),
        ("", "log.csv"),
    ],
)
def test_no_room_on_the_disk(tmp_path, metal, monkeypatch, trajectory, full):
    changes = {"trajectory": trajectory, "log_interval": 1, "stages": [Stage(steps=40)]}
    start(tmp_path / "whole", **changes)
    out = tmp_path / "run"
    note, limits = Recording.note, resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, number, system, state, step, *rest):
        if step == 25 and (out / "restart.npz").exists():
            room = (out / full).stat().st_size + 10
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        note(self, number, system, state, step, *rest)

    monkeypatch.setattr(Recording, "note", fill)
    said = rf"'{out}/.*' cannot be written: .*room on the disk.*mlpot md --resume {out}"
    try:
        with pytest.raises(OSError, match=said):
            start(out, **changes)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    monkeypatch.undo()
    monkeypatch.setattr(launch, "_model", metal)
    launch.resume_run(out)
    one, two = read_log(tmp_path / "whole" / "log.csv"), read_log(out / "log.csv")
    np.testing.assert_array_equal(two["step"], range(41))
    np.testing.assert_array_equal(two["conserved_eV"], one["conserved_eV"])
    if full.endswith("h5"):
        np.testing.assert_array_equal(read_h5md(out / full)["step"], range(41))
    elif trajectory:
        assert steps_in(out / full) == list(range(41))


def test_no_room_before_the_first_restart_file(tmp_path, metal, monkeypatch):
    def full(self, *values):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(LogFile, "write", full)
    said = r"log\.csv' cannot be written: No space left on device.*anew with --overwrite"
    with pytest.raises(OSError, match=said):
        start(tmp_path / "run")


@pytest.mark.parametrize("ensemble", ["nose-hoover", "minimise"])
def test_last_files_are_made_up_for(tmp_path, metal, monkeypatch, ensemble):
    stages = [Stage(steps=10), Stage(ensemble=ensemble, steps=100, fmax=0.1)]
    summary = start(tmp_path / "whole", stages=stages)
    out = tmp_path / "run"

    def full(path, atoms):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(run_files, "save", full)
        with pytest.raises(OSError, match=r"final\.extxyz' cannot be written.*--resume"):
            start(out, stages=stages)
    assert not (out / "final.extxyz").exists() and not (out / "summary.json").exists()
    again = launch.resume_run(out)
    assert again["steps_done"] == summary["steps_done"] and again["stopped"] is None
    one, two = read(tmp_path / "whole" / "final.extxyz"), read(out / "final.extxyz")
    np.testing.assert_array_equal(two.positions, one.positions)  # pyright: ignore
    one, two = read_log(tmp_path / "whole" / "log.csv"), read_log(out / "log.csv")
    np.testing.assert_array_equal(two["step"], one["step"])
    with pytest.raises(ValueError, match="reached its end"):
        launch.resume_run(out)


def test_leftovers_of_a_kill_are_removed(tmp_path, metal):
    start(tmp_path, trajectory="frames.traj")
    (tmp_path / "summary.json").unlink()
    left = [".frames.12.0123abcd.traj", ".restart.7.ffffffff.npz"]
    for name in [*left, ".frames.mine.traj"]:
        (tmp_path / name).write_bytes(b"half")
    launch.resume_run(tmp_path)
    assert not any((tmp_path / name).exists() for name in left)
    assert (tmp_path / ".frames.mine.traj").exists()


def test_a_trajectory_named_as_another_file_of_the_run(tmp_path):
    atoms = bulk("Cu", cubic=True)
    atoms.calc = EMT()
    for name in ("final.extxyz", "last_good.extxyz"):
        (tmp_path / "out").mkdir(exist_ok=True)
        with pytest.raises(ValueError, match="the run writes another file of that name"):
            run_md(atoms, out=tmp_path / "out", trajectory=tmp_path / "out" / ".." / "out" / name)
