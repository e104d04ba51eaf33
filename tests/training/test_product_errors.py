"""Errors of Hessian-vector products, against differences of forces and errors put in by hand."""

from __future__ import annotations

import csv

import mlx.core as mx
import numpy as np
import pytest
from morse_frames import morse_frames
from training_runs import SMALL, make_potential

from mlpot import io
from mlpot.cli import app
from mlpot.datasets import Frame, write
from mlpot.training.errors import error_rows
from mlpot.training.evaluate import compare, predict, predict_all
from mlpot.training.tables import error_cells

OFF = 0.05  # eV/Angstrom^2, how far labels are off


def differences(potential, frame: Frame, vectors: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """Products from forces at displaced positions, in float64."""
    found = []
    for v in vectors:
        ends = [frame.replace(positions=frame.positions + s * h * v) for s in (1, -1)]
        above, below = predict(potential, ends).forces
        found.append((below - above) / (2 * h))
    return np.array(found)


@pytest.fixture(scope="module")
def labelled():
    """A potential in float64 and frames with one, no and three products, in crystals too."""
    potential = make_potential(SMALL["model"])
    rng = np.random.default_rng(7)
    frames = morse_frames(3, crystals=True)
    for index, k in ((0, 1), (2, 3)):
        bare = frames[index].replace(hvps=None, hvp_vectors=None)
        vectors = rng.normal(size=(k, bare.n_atoms, 3))
        products = differences(potential, bare, vectors)
        frames[index] = bare.replace(hvp_vectors=vectors, hvps=products)
    return potential, frames


@pytest.mark.parametrize("batch_size", [1, 3])
def test_predictions_are_differences_of_forces(labelled, batch_size):
    potential, frames = labelled
    with mx.stream(mx.cpu):
        said = predict(potential, frames, batch_size)
    assert said.hvps[1] is None
    for index in (0, 2):
        assert said.hvps[index].shape == frames[index].hvps.shape
        scale = np.abs(frames[index].hvps).max()
        assert scale > 1e-3
        assert np.abs(said.hvps[index] - frames[index].hvps).max() < 1e-6 * scale


def test_errors_are_those_put_in(labelled):
    potential, frames = labelled
    wrong = [f if f.hvps is None else f.replace(hvps=f.hvps + OFF) for f in frames]
    said = predict(potential, wrong)
    row = error_rows("s", "m", wrong, said)[0]
    assert row.n_labels["hvps"] == 3 * (frames[0].n_atoms + 3 * frames[2].n_atoms)
    assert row.mae["hvps"] == pytest.approx(1e3 * OFF, rel=1e-4)
    assert row.rmse["hvps"] == pytest.approx(1e3 * OFF, rel=1e-4)
    baseline = compare("s", wrong, said)[-1]
    labels = np.concatenate([f.hvps.ravel() for f in wrong if f.hvps is not None])
    assert baseline.mae["hvps"] == pytest.approx(1e3 * np.abs(labels).mean())
    head, cells = error_cells([row])
    assert head[-1] == "hvps\nmeV/Å²"
    assert cells[0][-1] == "50.0 / 50.0"


def test_no_labels_no_column(labelled):
    potential, frames = labelled
    said = predict(potential, frames[1:2])
    assert said.hvps is None
    assert "hvps" not in error_rows("s", "m", frames[1:2], said)[0].mae


def test_committees_have_the_mean(labelled):
    first, frames = labelled
    members = [first, make_potential(SMALL["model"], seed=4)]
    mean, _ = predict_all(members, frames)
    each = [predict(one, frames).hvps[2] for one in members]
    assert np.abs(each[0] - each[1]).max() > 1e-3
    np.testing.assert_allclose(mean.hvps[2], (each[0] + each[1]) / 2)
    assert mean.hvps[1] is None


def test_command_for_frames_with_nothing_else(labelled, tmp_path, capsys):
    potential, frames = labelled
    only = [f.replace(energy=None, forces=None, stress=None) for f in (frames[0], frames[2])]
    write(tmp_path / "products.h5", only)
    io.save(tmp_path / "model.safetensors", potential)
    files = [str(tmp_path / name) for name in ("model.safetensors", "products.h5", "out")]
    with pytest.raises(SystemExit) as ended:
        app.main(["eval", *files[:2], "--dtype", "float64", "--out", files[2]])
    assert not ended.value.code
    assert "hvps" in capsys.readouterr().out
    with open(tmp_path / "out" / "errors.csv") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["hvps_mae [meV/A^2]"]) < 1e-2 < float(rows[1]["hvps_mae [meV/A^2]"])
    assert rows[0]["forces_mae [meV/A]"] == ""
    assert r"hvps [meV/\AA$^2$]" in (tmp_path / "out" / "errors.tex").read_text()
