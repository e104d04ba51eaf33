"""Which frames are chosen for labels, and ``mlpot select``."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from morse_frames import E0, morse_frames

import mlpot
from mlpot import datasets, training
from mlpot.cli.app import main
from mlpot.datasets import Frame
from mlpot.models import Potential, PotentialConfig, V2106Config


def member(seed: int) -> Potential:
    mx.random.seed(seed)
    sizes = V2106Config(channels=4, layers=1, lmax=1)
    config = PotentialConfig(numbers=[2, 10], cutoff=4.0, model=sizes, E0s=E0, scale=1.0)
    return Potential(config)


@pytest.fixture(scope="module")
def committee():
    return [member(1), member(2)]


def spreads(committee, frames) -> np.ndarray:
    forces = [training.predict(one, frames).forces for one in committee]
    return np.array(
        [
            np.sqrt(np.stack(pair).var(axis=0).sum(axis=1)).max()
            for pair in zip(*forces, strict=True)
        ]
    )


def test_disputed_frames_unlike_each_other_are_chosen(committee):
    frames = morse_frames(12)
    found = training.select(committee, [*frames, *frames], 6)
    expected = spreads(committee, frames)
    assert found.disagreement[:12] == pytest.approx(expected, rel=1e-4)
    assert found.index[0] % 12 == expected.argmax()
    assert len({index % 12 for index in found.index}) == 6  # no frame twice
    assert found.distance is None


def test_bounds_and_labelled_frames_leave_frames_out(committee):
    frames = morse_frames(12)
    order = np.argsort(spreads(committee, frames))
    values = spreads(committee, frames)[order]
    bounds = (values[3] + values[4]) / 2, (values[8] + values[9]) / 2
    found = training.select(committee, frames, 12, lower=bounds[0], upper=bounds[1])
    assert sorted(found.index) == sorted(order[4:9].tolist())
    assert found.candidates == 5
    labelled = [frames[i] for i in order[4:7]]
    found = training.select(
        committee, frames, 12, lower=bounds[0], upper=bounds[1], labelled=labelled
    )
    assert sorted(found.index) == sorted(order[7:9].tolist())
    assert found.distance is not None
    assert found.distance[order[4:7]] == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="hold nothing between"):
        training.select(committee, frames, 3, lower=1.0, upper=0.5)
    with pytest.raises(ValueError, match="at least two potentials"):
        training.select(committee[:1], frames, 3)


def run(*words):
    with pytest.raises(SystemExit) as ending:
        main(["select", *map(str, words)])
    return ending.value.code or 0


def test_the_command_writes_frames_without_labels(committee, tmp_path, capsys):
    for number, one in enumerate(committee):
        mlpot.save(tmp_path / f"{number}.safetensors", one)
    frames = morse_frames(8)
    datasets.write(tmp_path / "pool.xyz", frames)
    datasets.write(tmp_path / "known.h5", frames[:3])
    pattern, out = tmp_path / "*.safetensors", tmp_path / "next.xyz"
    words = (pattern, tmp_path / "pool.xyz", "--labelled", tmp_path / "known.h5", "--out", out)
    assert run(*words, "-n", 2) == 0
    printed = capsys.readouterr().out
    assert "2 of 8 disputed frames (8 in all)" in printed
    chosen = datasets.read(out)
    assert len(chosen) == 2
    assert all(frame.energy is None and frame.forces is None for frame in chosen)
    again = training.select(committee, datasets.read(tmp_path / "pool.xyz"), 2, labelled=frames[:3])
    for index, frame in zip(again.index, chosen, strict=True):
        assert isinstance(frame, Frame)
        np.testing.assert_allclose(frame.positions, frames[index].positions, atol=1e-7)
    assert run(*words) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert run(*words, "--overwrite", "--lower", "1e6") == 1
    assert "change --lower or --upper" in capsys.readouterr().err
