"""Fine-tuning: frozen parameters, adapters, old data beside new, new elements."""

from __future__ import annotations

import io

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from morse_frames import E0, isolated_atoms, morse_frames
from reference_outputs import FIXTURES
from rich.console import Console
from training_runs import write_config, write_data

import mlpot
from mlpot import datasets, graph
from mlpot.models import Potential, PotentialConfig
from mlpot.training import Interrupted, load_config, predict, resume, train
from mlpot.training.checkpoint import read_checkpoint
from mlpot.training.matrices import matrices
from mlpot.training.new_elements import most_similar, with_elements
from mlpot.training.preparation import make_potential, read_data
from mlpot.training.rehearsal import MixedBatches, MixedFrames
from mlpot.training.selection import chosen
from mlpot.training.view import ProgressView

SMALL = {"channels": 4, "layers": 1, "lmax": 1, "radial_neurons": [8]}
NAMES = [
    "network.embedding.weight",
    "network.layers.0.radial.layer0.weight",
    "network.readout.weight",
]


def make_base(path, name: str = "v2106", numbers=(2, 10), **options) -> Potential:
    mx.random.seed(7)
    model = SMALL | {"name": name} | options
    E0s = {z: E0.get(z, -9.0) for z in numbers}
    potential = Potential(
        PotentialConfig(numbers=list(numbers), cutoff=4.0, model=model, E0s=E0s, scale=0.5)
    )
    if path is not None:
        mlpot.save(path, potential)
    return potential


@pytest.fixture
def base(tmp_path):
    """A folder with a model and data."""
    write_data(tmp_path)
    return make_base(tmp_path / "base.safetensors")


def config(folder, **changes):
    keys = {"model": None, "start_from": "base.safetensors", "lr": 0.003} | changes
    return load_config(write_config(folder, **keys))


def arrays(potential) -> dict[str, np.ndarray]:
    return {name: np.array(a) for name, a in tree_flatten(potential.parameters())}


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["embedding.*"], NAMES[:1]),
        (["network.embedding.weight", "readout.*"], [NAMES[0], NAMES[2]]),
        (["*.layer0.*"], NAMES[1:2]),
        (["*"], NAMES),
        ([], []),
    ],
)
def test_patterns(patterns, expected):
    assert chosen(NAMES, patterns, "freeze") == expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("embedding", r"freeze: no parameter matches 'embedding': did you mean 'embedding\.\*'"),
        ("embeding.*", r"did you mean 'embedding\.\*'"),
        ("layers.0", r"did you mean 'layers\.0\.\*'"),
        ("qqqq", "there are embedding.weight, "),
    ],
)
def test_patterns_that_match_nothing(pattern, message):
    with pytest.raises(ValueError, match=message):
        chosen(NAMES, [pattern], "freeze")


def test_frozen_parameters_stay_as_they_are(base, tmp_path):
    text = io.StringIO()
    settings = config(tmp_path, freeze=["embedding.*", "*.fc.*"])
    run = train(settings, console=Console(file=text, width=200))
    n_trained = sum(
        array.size
        for name, array in arrays(base).items()
        if "embedding" not in name and ".fc." not in name
    )
    assert f"trained: {n_trained} of " in text.getvalue()
    before, after = arrays(base), arrays(run.potential)
    for name in before:
        frozen = "embedding" in name or ".fc." in name
        assert np.array_equal(before[name], after[name]) == frozen, name
    names = read_checkpoint(run.folder.last).arrays.keys()
    assert not [n for n in names if n.startswith(("optimizer.", "average.")) and "embedding" in n]
    with pytest.raises(ValueError, match="did you mean"):
        train(config(tmp_path, freeze=["embedding"], out=str(tmp_path / "other")))
    assert not (tmp_path / "other").exists()
    with pytest.raises(ValueError, match="leave no parameter to train"):
        train(config(tmp_path, freeze=["*"], out=str(tmp_path / "other")))


def interrupt_after(monkeypatch, step: int) -> None:
    import signal

    told = ProgressView.step

    def stop(self, epoch, loss):
        told(self, epoch, loss)
        if self.done == step:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressView, "step", stop)


def test_adapters_end_as_a_plain_model(base, tmp_path, monkeypatch):
    keys = {"adapters": {"rank": 2}, "max_num_epochs": 3, "lr": 0.02}
    run = train(config(tmp_path, out=str(tmp_path / "whole"), **keys))
    found = mlpot.load(run.folder.best)
    before, after, blocks = arrays(base), arrays(found), matrices(found)
    assert before.keys() == after.keys()
    changed = 0
    for name, parts in blocks.items():
        change = (after[name] - before[name]).reshape(-1)
        for start, n, m in parts:
            values = np.linalg.svd(change[start : start + n * m].reshape(n, m), compute_uv=False)
            assert (values[2:] < 1e-5).all()
            changed += values[0] > 1e-3
    assert changed > 5
    # The weights that adapters add to are the base's, and are not trained.
    state = read_checkpoint(run.folder.last).arrays
    for name, array in before.items():
        assert np.array_equal(np.array(state[f"model.{name}"]), array)
        assert f"adapter.{name}.a" in state
        assert f"optimizer.{name}.m" not in state
    rows = run.folder.read_metrics()
    assert rows[-1]["train_loss"] < rows[0]["train_loss"]
    # What was validated is what was saved.
    valid = read_data(config(tmp_path, **keys)).valid
    said = np.concatenate(predict(found, valid).forces)
    squares = (said - np.concatenate([frame.forces for frame in valid])) ** 2
    assert np.sqrt(squares.mean()) == pytest.approx(rows[-1]["valid_forces_rmse"], rel=1e-4)
    # Going on is exact with adapters too.
    with monkeypatch.context() as patch:
        interrupt_after(patch, 4)
        with pytest.raises(Interrupted):
            train(config(tmp_path, **keys))
    resume(tmp_path / "run")
    again = read_checkpoint(tmp_path / "run" / "last.safetensors").arrays
    assert all(np.array_equal(np.array(again[n]), np.array(a)) for n, a in state.items())


def test_adapters_of_some_weights(base, tmp_path):
    run = train(config(tmp_path, adapters={"rank": 1, "weights": ["*.lin2.*"]}, max_num_epochs=1))
    before, after = arrays(base), arrays(run.potential)
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    assert moved == {name for name in before if ".lin2." in name}
    with pytest.raises(ValueError, match=r"adapters\.weights: no parameter matches"):
        train(config(tmp_path, adapters={"weights": ["nothing.*"]}, out=str(tmp_path / "other")))


def test_old_frames_come_in_turn():
    new, old = morse_frames(6, seed=1), morse_frames(5, seed=2)
    mixed = MixedFrames(new, old, 0.5, {2: 1.0, 10: -2.0})
    batches = MixedBatches(mixed, 4, 4.0, n_old=3, seed=0)
    assert len(batches) == 3
    seen = set()
    for epoch in range(12):
        order = batches.order(epoch)
        assert np.array_equal(order, batches.order(epoch))
        assert sorted(order[order < 6]) == list(range(6))
        assert len(set(order[order >= 6])) == 3
        seen |= set(order[order >= 6])
        assert sum(len(batch.indices) for batch in batches.epoch(epoch)) == 9
    assert seen == set(range(6, 11))
    frame, own = old[2], mixed[8]
    shift = np.sum(np.where(frame.numbers == 2, 1.0, -2.0))
    assert own.energy == pytest.approx(frame.energy + shift)
    assert own.weight == 0.5 * frame.weight
    assert mixed[3] is new[3]
    # More than there are: every one of them before any comes again.
    many = MixedBatches(mixed, 4, 4.0, n_old=12, seed=0).order(0)
    counts = np.bincount(many[many >= 6], minlength=11)[6:]
    assert counts.sum() == 12
    assert set(counts) == {2, 3}


def test_rehearsal_keeps_what_the_model_knew(tmp_path):
    """New data stiffer than the old: without old frames their errors grow."""
    old = morse_frames(24, seed=5)
    datasets.write(tmp_path / "train.h5", [*old, *isolated_atoms()])
    first = train(load_config(write_config(tmp_path, max_num_epochs=12, lr=0.03)))
    mlpot.save(tmp_path / "base.safetensors", first.potential)
    new = [
        frame.replace(energy=3 * frame.energy + 1.5 * frame.n_atoms, forces=3 * frame.forces)
        for frame in morse_frames(12, seed=6)
    ]
    datasets.write(tmp_path / "train.h5", new)
    datasets.write(tmp_path / "old.h5", [*old[:16], *isolated_atoms()])
    errors = {}
    for name, section in (
        ("alone", None),
        ("both", {"file": "old.h5", "ratio": 1.5, "weight": 2.0}),
    ):
        keys = {"rehearsal": section, "out": str(tmp_path / name), "max_num_epochs": 8, "lr": 0.01}
        run = train(config(tmp_path, **keys))
        said = predict(run.potential, old[16:])
        errors[name] = np.sqrt(
            np.mean(
                (np.concatenate(said.forces) - np.concatenate([f.forces for f in old[16:]])) ** 2
            )
        )
    assert errors["both"] < 0.7 * errors["alone"], errors


def test_energies_of_old_frames_follow_the_E0s(tmp_path):
    base = make_base(tmp_path / "base.safetensors")
    frames = [f.replace(energy=f.energy + 7.0 * f.n_atoms) for f in morse_frames(12, seed=1)]
    datasets.write(tmp_path / "train.h5", frames)
    datasets.write(tmp_path / "old.h5", morse_frames(4, seed=3))
    settings = config(tmp_path, rehearsal={"file": "old.h5"})
    with mx.stream(mx.cpu):
        data = read_data(settings)
        potential = make_potential(settings, data)
    now = potential.config.E0s
    assert data.shifts == {z: now[z] - base.config.E0s[z] for z in (2, 10)}
    run = train(settings)
    progress = read_checkpoint(run.folder.last).progress
    assert {int(z): shift for z, shift in progress["shifts"].items()} == data.shifts
    # Other old data than at the start are refused.
    datasets.write(tmp_path / "old.h5", morse_frames(4, seed=4))
    with pytest.raises(ValueError, match="not what they were"):
        resume(run.folder.path)


@pytest.mark.parametrize(
    ("number", "known", "expected"),
    [
        (17, [1, 8, 9], 9),  # Cl like F
        (11, [1, 3, 10], 3),  # Na like Li
        (79, [8, 29, 78], 29),  # Au like Cu
        (72, [22, 71, 73], 22),  # Hf like Ti
        (2, [1, 10, 6], 10),  # He like Ne, not like H or Be
        (8, [6, 7], 7),
    ],
)
def test_most_similar(number, known, expected):
    assert most_similar(number, known) == expected


def clusters(numbers, n: int = 3):
    rng = np.random.default_rng(1)
    for _ in range(n):
        positions = 2.0 * rng.random((8, 3)) + np.array([[0, 0, 1.4 * k] for k in range(8)])
        yield rng.choice(numbers, 8), positions


@pytest.mark.parametrize("name", ["v2106", "gate_points", "nequip"])
def test_new_elements_leave_the_known_ones(name):
    base = make_base(None, name, numbers=(1, 8, 26))
    with mx.stream(mx.cpu):
        potential, similar = with_elements(base, [16, 3])
        assert potential.numbers == [1, 3, 8, 16, 26]
        assert similar == {16: 8, 3: 1}
        for numbers, positions in clusters([1, 8, 26]):
            one, other, like = (
                np.array(p.node_energies(graph.build(z, positions, cutoff=4.0)))
                for p, z in (
                    (base, numbers),
                    (potential, numbers),
                    (potential, np.where(numbers == 8, 16, numbers)),
                )
            )
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
            # Sulfur begins as oxygen; what nuclei repel apart.
            assert np.abs(one).max() > 0.01
            if not potential.config.zbl:
                np.testing.assert_allclose(like, one, rtol=1e-4, atol=1e-5)


def test_new_elements_of_published_formats():
    base = mlpot.io.import_potential(FIXTURES / "sevennet_parity.pth")
    unknown = next(z for z in range(1, 80) if z not in base.numbers)
    potential, _ = with_elements(base, [unknown])
    assert unknown in potential.numbers
    for numbers, positions in clusters(base.numbers):
        atoms = graph.build(numbers, positions, cutoff=base.cutoff)
        one, other = (np.array(p.node_energies(atoms)) for p in (base, potential))
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    # Its hidden features are one for each element, and mix.
    nequix = mlpot.io.import_potential(FIXTURES / "nequix_small.nqx")
    with pytest.raises(ValueError, match="elements cannot be added to this model"):
        with_elements(nequix, [next(z for z in range(1, 80) if z not in nequix.numbers)])


def test_a_run_adds_an_element_and_says_so(base, tmp_path):
    frames = morse_frames(16)
    for frame in frames[::2]:
        frame.numbers[frame.numbers == 2] = 18
    datasets.write(tmp_path / "train.h5", frames)
    text = io.StringIO()
    run = train(config(tmp_path, E0s="least_squares"), console=Console(file=text, width=200))
    assert "Ar is new to" in text.getvalue()
    assert "it begins with the weights of Ne" in text.getvalue()
    found = mlpot.load(run.folder.best)
    assert found.numbers == [2, 10, 18]
    assert set(found.config.E0s) == {2, 10, 18}
