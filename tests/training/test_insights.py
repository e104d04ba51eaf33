"""What the report tells: worst frames, distances from the training data, speed."""

from __future__ import annotations

import numpy as np
import pytest
from morse_frames import isolated_atoms, morse_frames

from mlpot.datasets import Frame
from mlpot.training import Predictions
from mlpot.training.insights import distances, timing, worst_cells, worst_frames


def predictions(frames, errors) -> Predictions:
    return Predictions(
        np.zeros(len(frames)),
        np.array([(f.energy or 0) + e for f, e in zip(frames, errors, strict=True)]),
        [
            (np.zeros((f.n_atoms, 3)) if f.forces is None else f.forces) + e
            for f, e in zip(frames, errors, strict=True)
        ],
    )


def test_the_worst_frames_come_first():
    frames = [frame.replace(source=f"x:{k}") for k, frame in enumerate(morse_frames(5))]
    frames[3] = frames[3].replace(energy=None)
    sets = {"valid": (frames, predictions(frames, [0.1, 0.4, 0.2, 0.5, 0.3]))}
    worst = worst_frames(sets, 3)
    assert [bad.source for bad in worst] == ["x:3", "x:1", "x:4"]
    assert worst[0].energy is None and worst[0].forces == pytest.approx(0.5)
    assert worst[1].energy == pytest.approx(0.4 / frames[1].n_atoms)
    assert worst[1].largest is not None
    assert worst[1].largest[0] == pytest.approx(0.4 * np.sqrt(3))
    head, lines = worst_cells(worst)
    assert len(head) == len(lines[0]) == 7
    assert lines[0][:5] == ["valid", "x:3", "cluster", frames[3].formula, "-"]
    energies = [Frame(f.numbers, f.positions, energy=f.energy) for f in frames[:3]]
    sets = {"valid": (energies, predictions(energies, [0.1, -4.0, 0.2]))}
    assert worst_frames(sets, 1)[0].source == "1"


def test_distances_are_zero_for_training_frames_and_grow():
    train = morse_frames(20)
    noise = np.random.default_rng(0).normal(size=train[0].positions.shape)
    positions = train[0].positions
    moved = [train[0].replace(positions=positions + step * noise) for step in (0.0, 0.01, 0.1)]
    none = [isolated_atoms()[0].replace(forces=[[0, 0, 0]])]
    sets = {
        "train": (train, predictions(train, [0.0] * 20)),
        "moved": (moved, predictions(moved, [0.1, 0.2, 0.3])),
        "atoms": (none, predictions(none, [0.0])),
    }
    found = distances(sets, 4.0)
    assert [*found] == ["moved"]
    distance, error = found["moved"]
    assert distance[0] == pytest.approx(0, abs=1e-12) and 0 < distance[1] < distance[2]
    np.testing.assert_allclose(error, [0.1, 0.2, 0.3])


def test_timing_is_the_median():
    rows = [{"seconds": s, "step": n} for s, n in ((10.0, 5), (12.0, 10), (14.0, 15), (19.0, 20))]
    text = timing(rows, 100)
    assert text.startswith("3.5 s an epoch") and "700 ms a step" in text
    assert "28.57 frames/s" in text and "first epoch 10 s" in text
    assert timing([], 5) == "no epoch is complete"
