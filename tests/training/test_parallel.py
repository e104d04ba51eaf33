"""Training by several processes: the same numbers as one, wherever they stop and go on."""

from __future__ import annotations

import csv
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from morse_frames import morse_frames
from training_runs import write_config, write_data

from mlpot import datasets
from mlpot.datasets import Batches
from mlpot.training.checkpoint import read_checkpoint
from mlpot.training.parallel import find_ranks


def launch(n: int, folder: Path, *words) -> subprocess.CompletedProcess:
    """The command line in so many processes on this machine."""
    command = [sys.executable, "-m", "mlpot.cli.app", *map(str, words)]
    if n > 1:
        hosts = [str(Path(sys.executable).with_name("mlx.launch")), "-n", str(n)]
        hosts += ["--backend", "ring", "--starting-port", str(free_ports(n)), "--"]
        command = [*hosts, *command]
    environment = os.environ | {"TMPDIR": str(folder), "MLPOT_NUM_THREADS": "1"}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        stdin=subprocess.DEVNULL,
        env=environment,
    )


def free_ports(n: int) -> int:
    """The first of n neighbouring ports that nobody listens at."""
    for start in range(40_000 + os.getpid() % 10_000, 60_000, n):
        try:
            for port in range(start, start + n):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return start
    raise AssertionError("no free ports")


def rows(run: Path) -> list[dict[str, float]]:
    with open(run / "metrics.csv", newline="", encoding="utf-8") as file:
        return [
            {name: float(text) for name, text in row.items() if text and name != "seconds"}
            for row in csv.DictReader(file)
        ]


def assert_same_curve(one: list[dict], other: list[dict]) -> None:
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name, value in a.items():
            assert b[name] == pytest.approx(value, rel=1e-5), (a["epoch"], name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data with missing labels and uneven batches, and the run of one process."""
    folder = tmp_path_factory.mktemp("parallel")
    write_data(folder, 23, crystals=True)
    frames = datasets.read(folder / "train.h5")
    for k in (0, 3, 8):
        frames[k] = frames[k].replace(energy=None)
    frames[5] = frames[5].replace(forces=None)
    datasets.write(folder / "train.h5", frames)
    # 17 frames to train on, in batches of 8, 8 and 1: a second process has nothing of the last.
    config = write_config(folder, batch_size=8, max_num_epochs=2, out=str(folder / "one"))
    assert launch(1, folder, "train", config).returncode == 0
    return folder


def test_two_processes_follow_the_curve_of_one_with_the_doubled_batch(folder):
    config = write_config(folder, batch_size=8, max_num_epochs=2, out=str(folder / "two"))
    result = launch(2, folder, "train", config)
    assert result.returncode == 0, result.stderr
    assert_same_curve(rows(folder / "one"), rows(folder / "two"))
    assert result.stdout.count("Report") == 1  # one of them prints
    assert (folder / "two" / "report.html").exists()
    one, two = (read_checkpoint(folder / run / "last.safetensors") for run in ("one", "two"))
    for name, array in one.arrays.items():
        assert np.allclose(np.array(array), np.array(two.arrays[name]), rtol=1e-3, atol=1e-5), name
    assert one.progress["step"] == two.progress["step"] == 6


def test_processes_that_cannot_meet_do_not_train_each_for_itself(monkeypatch):
    assert find_ranks().size == 1
    monkeypatch.setenv("MLX_WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="2 processes were started together"):
        find_ranks()


def test_shares_of_a_batch_are_the_batch():
    frames = morse_frames(5)
    whole = Batches(frames, 4, 4.0, seed=3)
    shares = [Batches(frames, 4, 4.0, seed=3, part=(k, 3)) for k in range(3)]
    for batch, *parts in zip(whole, *shares, strict=True):
        assert sorted(i for part in parts for i in part.indices) == sorted(batch.indices)
        known = sum(int(np.array(part.labels.forces_mask).sum()) for part in parts)
        assert known == int(np.array(batch.labels.forces_mask).sum())
    # The last batch has one frame: the others got something to compute, without labels.
    assert [len(part.indices) for part in parts] == [1, 0, 0]
    assert not np.array(parts[1].labels.energy_mask).any()
    with pytest.raises(ValueError, match="no share 2 of 2"):
        Batches(frames, 4, 4.0, part=(2, 2))


def test_what_one_process_began_two_go_on_with(folder):
    config = write_config(folder, batch_size=8, max_num_epochs=2, out=str(folder / "mixed"))
    script = folder / "stop.py"
    script.write_text(
        "import os, signal, sys\n"
        "from mlpot.training.view import ProgressView\n"
        "from mlpot.cli.app import main\n"
        "told = ProgressView.step\n"
        "def step(self, epoch, loss):\n"
        "    told(self, epoch, loss)\n"
        "    if self.done == 4: os.kill(os.getpid(), signal.SIGTERM)\n"
        "ProgressView.step = step\n"
        "sys.argv = ['mlpot', 'train', sys.argv[1]]\n"
        "main()\n"
    )
    stopped = subprocess.run(
        [sys.executable, script, config],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"TMPDIR": str(folder), "MLPOT_NUM_THREADS": "1"},
    )
    assert "mlpot resume" in stopped.stderr, stopped.stderr
    result = launch(2, folder, "resume", folder / "mixed")
    assert result.returncode == 0, result.stderr
    assert_same_curve(rows(folder / "one"), rows(folder / "mixed"))


def test_all_stop_when_one_cannot_go_on(folder):
    result = launch(2, folder, "train", write_config(folder, batch_size=8, out=str(folder / "one")))
    # mlx.launch itself ends with exit code 0, and may end the second before it has said this.
    assert "exited with code 1" in result.stderr
    assert result.stderr.count("exited with code") == 2
    assert "holds a run already" in result.stderr
