"""Files that are changed as one, whenever the process is killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from mlpot.md import journal
from mlpot.md.frame import Frame
from mlpot.md.h5md import H5MDFile, read_h5md


def frame(step: int, n_graphs: int = 1, n_atoms: int = 5) -> Frame:
    rng = np.random.default_rng(step)
    total = n_graphs * n_atoms
    return Frame(
        step=step,
        time=0.5 * step,
        numbers=np.arange(1, total + 1),
        masses=np.arange(1.0, total + 1),
        node_graph=np.repeat(np.arange(n_graphs), n_atoms),
        pbc=np.tile([True, True, False], (n_graphs, 1)),
        positions=rng.normal(size=(total, 3)),
        images=rng.integers(-2, 3, (total, 3)).astype(np.int32),
        velocities=rng.normal(size=(total, 3)),
        forces=rng.normal(size=(total, 3)),
        cells=rng.normal(size=(n_graphs, 3, 3)),
        energies=rng.normal(size=n_graphs),
    )


def test_reads_and_writes_as_a_file_does(tmp_path):
    rng = random.Random(3)
    plain = open(tmp_path / "plain", "w+b")  # noqa: SIM115
    kept = journal.JournaledFile(tmp_path / "kept")
    for _ in range(300):
        what, place = rng.choice("wwrtc"), rng.randrange(30_000)
        for file in (plain, kept):
            file.seek(place)
        if what == "w":
            data = rng.randbytes(rng.randrange(1, 9000))
            assert plain.write(data) == kept.write(data)
        elif what == "r":
            assert plain.read(5000) == kept.read(5000)
        elif what == "t" and rng.random() < 0.1:
            plain.truncate(place)
            kept.truncate(place)
        elif what == "c":
            kept.commit()
            plain.flush()
            assert (tmp_path / "plain").read_bytes() == (tmp_path / "kept").read_bytes()
        assert plain.tell() == kept.tell()
    plain.close()
    kept.close()


def test_a_crash_at_any_moment_leaves_the_old_or_the_new_file(tmp_path, monkeypatch):
    old, new = b"a" * 10_000, b"b" * 15_000
    path = tmp_path / "file"

    def fresh():
        path.write_bytes(old)
        file = journal.JournaledFile(path)
        file.write(new)
        return file

    # While the journal is written: any part of it may be there.
    file = fresh()
    file.commit()
    assert path.read_bytes() == new
    file = fresh()
    applied = journal._apply

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(journal, "_apply", stop)
    with pytest.raises(KeyboardInterrupt):
        file.commit()
    whole = journal.journal_of(path).read_bytes()
    monkeypatch.setattr(journal, "_apply", applied)
    for length in (0, 10, 30, 5000, len(whole) - 1):
        journal.journal_of(path).write_bytes(whole[:length])
        journal.recover(path)
        assert path.read_bytes() == old and not journal.journal_of(path).exists()
    # While the file is changed: any of its pages may be old or new.
    for pages in range(4):
        journal.journal_of(path).write_bytes(whole)
        path.write_bytes(new[: 4096 * pages] + old[4096 * pages :])
        journal.recover(path)
        assert path.read_bytes() == new


@pytest.mark.parametrize("n_graphs", [1, 3])
def test_frames_come_back(tmp_path, n_graphs):
    path = tmp_path / "run.h5"
    file = H5MDFile(path, frame(0, n_graphs), dtype="float64")
    for step in range(7):
        file.write(frame(step, n_graphs))
    file.close()
    name = "all" if n_graphs == 1 else "replica_001"
    part = slice(0, 5) if n_graphs == 1 else slice(5, 10)
    found = read_h5md(path, name)
    np.testing.assert_array_equal(found["step"], range(7))
    for step in range(7):
        one = frame(step, n_graphs)
        np.testing.assert_array_equal(found["position"][step], one.positions[part])
        np.testing.assert_array_equal(found["velocity"][step], one.velocities[part])
        np.testing.assert_array_equal(found["image"][step], one.images[part])
        np.testing.assert_array_equal(found["edges"][step], one.cells[part.start // 5])
    with h5py.File(path) as h5:
        assert list(h5["h5md"].attrs["version"]) == [1, 1]
        box = h5[f"particles/{name}/box"]
        assert list(box.attrs["boundary"]) == ["periodic", "periodic", "none"]
        assert h5[f"particles/{name}/position/value"].attrs["unit"] == "Angstrom"
    # Continued from its fifth frame.
    file = H5MDFile(path, frame(0, n_graphs), n_frames=5)
    file.write(frame(9, n_graphs))
    file.close()
    np.testing.assert_array_equal(read_h5md(path, name)["step"], [0, 1, 2, 3, 4, 9])
    with pytest.raises(ValueError, match="has 6 frames, the restart file counts 8"):
        H5MDFile(path, frame(0, n_graphs), n_frames=8)


WRITER = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_journal import frame
from mlpot.md.h5md import H5MDFile
file = H5MDFile(Path({path!r}), frame(0))
step = 0
while True:
    for _ in range(3):
        file.write(frame(step))
        step += 1
    file.flush()
    print(step, flush=True)
"""


def test_killed_in_the_middle_of_writing(tmp_path):
    path = tmp_path / "run.h5"
    code = WRITER.format(tests=os.path.dirname(__file__), path=str(path))
    environment = {**os.environ, "PYTHONPATH": "tests/support"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    process.stdout.readline()
    for moment in range(25):  # copies in the middle are as if it had been killed there
        time.sleep(random.Random(moment).uniform(0.0, 0.02))
        os.kill(process.pid, signal.SIGSTOP)
        copy = tmp_path / f"copy{moment}.h5"
        shutil.copy(path, copy)
        if journal.journal_of(path).exists():
            shutil.copy(journal.journal_of(path), journal.journal_of(copy))
        os.kill(process.pid, signal.SIGCONT)
        check(copy)
    process.kill()
    process.wait()
    written = int(process.stdout.read().split()[-1])
    process.stdout.close()
    assert check(path) in (written, written + 3)


def check(path) -> int:
    steps = read_h5md(path)["step"]
    np.testing.assert_array_equal(steps, range(len(steps)))
    np.testing.assert_allclose(
        read_h5md(path)["position"][-1], frame(int(steps[-1])).positions, rtol=1e-6
    )
    assert len(steps) % 3 == 0
    return len(steps)
