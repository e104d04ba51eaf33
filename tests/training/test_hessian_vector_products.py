"""Hessian-vector products as labels: files, the loss and its gradient, and what they teach."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from morse_frames import E0, isolated_atoms, morse_frames
from training_runs import SMALL, make_potential, write_config

import mlpot
from mlpot import datasets, derivatives, graph, training
from mlpot.config import validate
from mlpot.datasets import Batches, Frame, StoredFrames, collate
from mlpot.models import Potential
from mlpot.training import Objective, TrainConfig, label_hvps, load_config
from mlpot.training.config_sections import LossSection
from mlpot.training.objective import COUNT, errors
from mlpot.training.state import TrainState
from mlpot.training.step import TrainStep

EXACT = SMALL["model"] | {"radial": "exact"}


def labelled(n_frames: int, k: int = 2, seed: int = 0) -> list[Frame]:
    """Frames with random products; the second one has none."""
    rng = np.random.default_rng(seed)
    frames = morse_frames(n_frames, crystals=True)
    return [
        frame
        if index == 1
        else frame.replace(
            hvp_vectors=rng.normal(size=(k, frame.n_atoms, 3)),
            hvps=rng.normal(size=(k, frame.n_atoms, 3)),
            hvps_weight=1 + index,
        )
        for index, frame in enumerate(frames)
    ]


@pytest.mark.parametrize(("name", "tolerance"), [("frames.h5", 0), ("frames.xyz", 1e-8)])
def test_files_keep_them(tmp_path, name, tolerance):
    frames = [morse_frames(1)[0], *labelled(4)]
    frames[-1] = frames[-1].replace(
        hvp_vectors=frames[-1].hvp_vectors[:1], hvps=frames[-1].hvps[:1]
    )
    datasets.write(tmp_path / name, frames)
    for found, frame in zip(datasets.read(tmp_path / name), frames, strict=True):
        assert (found.hvps is None) == (frame.hvps is None)
        if frame.hvps is not None:
            assert found.hvps.shape == frame.hvps.shape
            assert np.abs(found.hvps - frame.hvps).max() <= tolerance
            assert np.abs(found.hvp_vectors - frame.hvp_vectors).max() <= tolerance
            assert found.hvps_weight == frame.hvps_weight
    assert "Hessian-vector products 3" in str(datasets.summary(frames))


def test_stored_frames_have_them_and_files_without_stay_as_they_were(tmp_path):
    datasets.write(tmp_path / "with.h5", labelled(5))
    datasets.write(tmp_path / "without.h5", morse_frames(2))
    assert datasets.HDF5Dataset(tmp_path / "with.h5").has_products
    assert not datasets.HDF5Dataset(tmp_path / "without.h5").has_products
    datasets.HDF5Dataset(tmp_path / "with.h5").verify()
    stored = StoredFrames([tmp_path / "without.h5", tmp_path / "with.h5"])
    assert np.array_equal(stored[4].hvps, labelled(5)[2].hvps)


def test_units_and_names_of_columns(tmp_path):
    frame = labelled(1)[0]
    atoms = frame.to_atoms()
    atoms.arrays["mine"] = atoms.arrays.pop("REF_hvps")
    found = Frame.from_atoms(atoms, hvps_key="mine", energy_unit="Hartree", length_unit="Bohr")
    units = mlpot.units.HARTREE / mlpot.units.BOHR**2
    np.testing.assert_allclose(found.hvps, units * frame.hvps, rtol=1e-12)
    np.testing.assert_allclose(found.hvp_vectors, frame.hvp_vectors)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hvps": None}, "hvps is missing"),
        ({"hvp_vectors": None}, "hvp_vectors is missing"),
        ({"hvps": np.zeros((1, 2, 3))}, r"hvps has shape \(1, 2, 3\)"),
        ({"hvp_vectors": np.zeros((0, 4, 3))}, "hvp_vectors has shape"),
        ({"hvps": np.full((2, 4, 3), np.nan)}, "hvps is nan"),
    ],
)
def test_wrong_labels(changes, message):
    frame = next(f for f in labelled(8) if f.n_atoms == 4)
    with pytest.raises(ValueError, match=message):
        frame.replace(**changes)


def test_directions_take_turns():
    frames = labelled(3, k=3)
    batches = Batches(frames, 3, 4.0, dtype=mx.float64, shuffle=False, pad=False)
    for epoch in range(5):
        (batch,) = batches.epoch(epoch)
        expected = np.concatenate([f.hvps[epoch % 3] for f in (frames[0], frames[2])])
        mask = np.array(batch.labels.hvps_mask)
        np.testing.assert_allclose(np.array(batch.labels.hvps)[mask], expected)
        assert mask.sum() == frames[0].n_atoms + frames[2].n_atoms


def test_the_loss_is_that_of_the_hessian():
    """Against whole Hessians, frame by frame; structures of a batch do not act on each other."""
    with mx.stream(mx.cpu):
        potential = make_potential(EXACT)
        frames = labelled(4)
        weights = {"energy": 0.0, "forces": 0.0, "hvps": 1.0}
        objective = Objective(LossSection(), weights)
        config = validate(SMALL | {"model": EXACT}, TrainConfig, "test")
        step = TrainStep(TrainState(potential, config), objective, False, None, hvps=True)
        part = collate(frames, 4.0, mx.float64, E0s=E0, pad=True, turn=1)
        sums = np.array(step.sums(*part))
        expected, absolute, n = 0.0, 0.0, 0
        for frame in frames:
            if frame.hvps is None:
                continue
            atoms = graph.build(
                frame.numbers, frame.positions, frame.cell, frame.pbc, cutoff=4.0, dtype=mx.float64
            )
            hessian = derivatives.hessian(potential, atoms)
            error = hessian @ frame.hvp_vectors[1].reshape(-1) - frame.hvps[1].reshape(-1)
            expected += frame.hvps_weight * np.sum(error**2)
            absolute, n = absolute + np.abs(error).sum(), n + error.size
        assert sums[3, COUNT] == n
        assert objective.total(sums) == pytest.approx(expected / n, rel=1e-10)
        assert errors(sums)["hvps_mae"] == pytest.approx(absolute / n, rel=1e-10)


@pytest.mark.parametrize("name", ["v2106", "nequip", "gate_points"])
def test_gradient_is_that_of_the_loss(name):
    """Reverse over forward over reverse mode, against finite differences in float64."""
    model = {"name": name, "channels": 4, "layers": 1, "lmax": 1, "radial_neurons": [8]}
    model |= {"radial": "exact"}
    with mx.stream(mx.cpu):
        potential = make_potential(model)
        config = validate(SMALL | {"model": model}, TrainConfig, "test")
        weights = {"energy": 1.0, "forces": 1.0, "stress": 1.0, "hvps": 1.0}
        state = TrainState(potential, config)
        step = TrainStep(state, Objective(config.loss, weights), True, None, hvps=True)
        part = collate(labelled(4), 4.0, mx.float64, E0s=E0, pad=True)
        found = step.gradient([part])
        own, rng = state.trained(state.arrays), np.random.default_rng(0)
        direction = {
            name: mx.array(rng.normal(size=a.shape), dtype=a.dtype) for name, a in own.items()
        }
        slope = sum(
            float(np.sum(np.array(found.slopes[name]) * np.array(d)))
            for name, d in direction.items()
        )

        def loss_at(h: float) -> float:
            step_to = {
                name: a + mx.array(h, dtype=a.dtype) * direction[name] for name, a in own.items()
            }
            state.weights.write(step_to)
            return float(np.array(step.objective.loss(step.sums(*part))))

        h = 1e-4
        numeric = (8 * (loss_at(h) - loss_at(-h)) - loss_at(2 * h) + loss_at(-2 * h)) / (12 * h)
        assert slope == pytest.approx(numeric, rel=1e-8)


def test_a_teacher_labels_frames():
    with mx.stream(mx.cpu):
        teacher = make_potential(EXACT)
        frames = [*morse_frames(3, crystals=True), isolated_atoms()[0]]
        found = list(label_hvps(frames, teacher, 3, seed=5))
        again = list(label_hvps(frames, teacher, 3, seed=5))
        assert found[-1].hvps is None
        for frame, same in zip(found[:-1], again, strict=False):
            assert frame.hvps.shape == (3, frame.n_atoms, 3)
            assert np.array_equal(frame.hvps, same.hvps)
            atoms = graph.build(
                frame.numbers, frame.positions, frame.cell, frame.pbc, cutoff=4.0, dtype=mx.float64
            )
            hessian = derivatives.hessian(teacher, atoms)
            expected = frame.hvp_vectors.reshape(3, -1) @ hessian
            np.testing.assert_allclose(frame.hvps.reshape(3, -1), expected, atol=1e-9)
        argon = Frame([18, 18], [[0, 0, 0], [3.0, 0, 0]], source="argon.xyz:0")
        with pytest.raises(ValueError, match=r"argon\.xyz:0: .*Ar"):
            list(label_hvps([argon], teacher, 1))


def hvp_rmse(potential: Potential, frames: list[Frame]) -> float:
    squares, n = 0.0, 0
    for frame in frames:
        atoms = graph.build(frame.numbers, frame.positions, frame.cell, frame.pbc, cutoff=4.0)
        error = derivatives.hvps(potential, atoms, frame.hvp_vectors) - frame.hvps
        squares, n = squares + float(np.sum(error**2)), n + error.size
    return (squares / n) ** 0.5


def test_a_student_learns_second_derivatives(tmp_path):
    """Few frames of a teacher: with its products the student's are much closer, forces no worse."""
    with mx.stream(mx.cpu):
        teacher = make_potential(EXACT | {"channels": 6}, seed=11)
        frames = []
        for frame in label_hvps(morse_frames(28, seed=4), teacher, 4):
            atoms = graph.build(frame.numbers, frame.positions, cutoff=4.0, dtype=mx.float64)
            said = derivatives.energy_forces_stress(teacher, atoms, stress=False)
            taught = {"energy": said.energy[0], "forces": np.array(said.forces)}
            frames.append(frame.replace(**taught))
        datasets.write(tmp_path / "train.h5", [*frames[:16], *isolated_atoms()])
        keys = {"model": EXACT, "max_num_epochs": 40, "lr": 0.03, "batch_size": 4}
        errors_of = {}
        for weight in (0.0, 0.1):
            out = str(tmp_path / f"run{weight}")
            config = load_config(write_config(tmp_path, out=out, hvps_weight=weight, **keys))
            run = training.train(config)
            said = training.predict(run.potential, frames[16:])
            forces = np.concatenate(said.forces) - np.concatenate([f.forces for f in frames[16:]])
            errors_of[weight] = hvp_rmse(run.potential, frames[16:]), np.sqrt(np.mean(forces**2))
    assert errors_of[0.1][0] < 0.7 * errors_of[0.0][0], errors_of
    assert errors_of[0.1][1] < 1.1 * errors_of[0.0][1], errors_of
    rows = mlpot.training.run_folder.RunFolder(out).read_metrics()
    assert rows[-1]["valid_hvps_rmse"] < 0.5 * rows[0]["valid_hvps_rmse"]


def test_weights_without_labels_are_refused(tmp_path):
    datasets.write(tmp_path / "train.h5", [*morse_frames(8), *isolated_atoms()])
    with pytest.raises(ValueError, match="no training frame has hvps"):
        training.train(load_config(write_config(tmp_path, hvps_weight=1.0)))
