"""Runs that start from another model."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from morse_frames import E0
from training_runs import write_config, write_data

import mlpot
from mlpot import datasets
from mlpot.models import NequIPConfig, Potential, PotentialConfig
from mlpot.training import load_config, resume, train
from mlpot.training.preparation import make_potential, read_data

#: Energies of the isolated atoms of the model are off by these.
OFF = {2: 1.5, 10: -0.7, 79: 0.0}


@pytest.fixture
def base(tmp_path):
    mx.random.seed(7)
    model = NequIPConfig(channels=4, layers=1, lmax=1, radial_neurons=[8])
    E0s = {z: E0.get(z, -9.0) + off for z, off in OFF.items()}
    potential = Potential(
        PotentialConfig(numbers=[2, 10, 79], cutoff=4.0, model=model, E0s=E0s, scale=0.05)
    )
    mlpot.save(tmp_path / "base.safetensors", potential)
    return potential


def started(folder, **changes):
    keys = {"model": None, "start_from": "base.safetensors"} | changes
    return load_config(write_config(folder, **keys))


def test_network_and_cutoff_are_kept_and_E0s_follow_the_data(base, tmp_path):
    write_data(tmp_path)
    with mx.stream(mx.cpu):
        config = started(tmp_path)
        potential = make_potential(config, read_data(config))
    assert potential.config.model == base.config.model
    assert potential.config.scale == base.config.scale
    for (key, a), (_, b) in zip(
        tree_flatten(potential.parameters()), tree_flatten(base.parameters()), strict=True
    ):
        assert np.array_equal(np.array(a), np.array(b)), key
    # Frames of isolated atoms are exact, an element without frames keeps what it had.
    assert potential.config.E0s == E0 | {79: -9.0}


def test_fitted_E0s_take_up_what_the_model_misses(base, tmp_path):
    write_data(tmp_path, n_frames=24)
    with mx.stream(mx.cpu):
        config = started(tmp_path, E0s="least_squares")
        data = read_data(config)
        potential = make_potential(config, data)

        def errors(model):
            found = []
            for frame in data.train:
                graph = mlpot.graph.build(frame.numbers, frame.positions, cutoff=4.0)
                own = model.interaction_energy(graph).item() + model.reference_energy(graph)[0]
                found.append(frame.energy - own)
            return np.array(found)

        before, after = errors(base), errors(potential)
    shares = np.array([[np.mean(f.numbers == z) for z in (2, 10)] for f in data.train])
    per_atom = after / [len(f.numbers) for f in data.train]
    # What is left of the energies per atom has no part that constants could take up.
    assert np.abs(shares.T @ per_atom).max() < 1e-4
    assert np.sqrt(np.mean(after**2)) < 0.5 * np.sqrt(np.mean(before**2))


def test_a_run_goes_on_from_the_model(base, tmp_path):
    write_data(tmp_path)
    run = train(started(tmp_path))
    again = resume(run.folder.path)
    assert again.potential.numbers == [2, 10, 79]
    changed = [
        not np.array_equal(np.array(a), np.array(b))
        for (_, a), (_, b) in zip(
            tree_flatten(run.potential.parameters()), tree_flatten(base.parameters()), strict=True
        )
    ]
    assert any(changed)
    text = (run.folder.path / "config.yaml").read_text()
    assert "start_from" in text
    assert "model:" not in text


def test_what_does_not_fit_is_refused(base, tmp_path):
    write_data(tmp_path)
    for changes, problem in (
        ({"r_max": 5.0}, "set r_max: 4"),
        ({"start_from": "nothing.safetensors"}, "does not exist"),
        ({"start_from": "nequix-mp1"}, "did you mean the published potential"),
    ):
        config = started(tmp_path, **changes)
        with pytest.raises((ValueError, FileNotFoundError), match=problem):
            train(config)
    for changes in ({"zbl": False}, {"model": {"channels": 4}}):
        with pytest.raises(ValueError, match="start_from brings its own"):
            started(tmp_path, **changes)
    frames = datasets.read(tmp_path / "train.h5")
    for frame in frames:
        frame.numbers[:] = 3
    datasets.write(tmp_path / "lithium.h5", frames)
    with pytest.raises(ValueError, match="does not know Li"):
        train(started(tmp_path, rehearsal={"file": "lithium.h5"}))
    with pytest.raises(ValueError, match="rehearsal goes with start_from"):
        load_config(write_config(tmp_path, rehearsal={"file": "lithium.h5"}))
