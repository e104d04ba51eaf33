"""The folder of a staged run: kills, full disks, damaged and missing files, two runs at once."""

from __future__ import annotations

import numpy as np
import pytest
from ase.io import read
from ase.io.trajectory import TrajectoryWriter

from mlpot.md import ase_bridge
from mlpot.md.ase_bridge import AseFrames, read_frames
from mlpot.md.frame import Frame
from mlpot.md.log_file import LogFile, read_log
from mlpot.md.observables import COLUMNS


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
