"""One step: one lazy graph, one evaluation, right gradients."""

from __future__ import annotations

import itertools

import mlx.core as mx
import numpy as np
import pytest
from morse_frames import E0, morse_frames
from training_runs import SMALL

from mlpot.config import validate
from mlpot.datasets import Labels, collate
from mlpot.graph import Graph
from mlpot.models import Potential, PotentialConfig
from mlpot.training import Objective, TrainConfig
from mlpot.training.config_sections import OptimizerSection
from mlpot.training.state import TrainState, averaged
from mlpot.training.step import TrainStep

CONFIG = validate(SMALL, TrainConfig, "test")


WEIGHTS = {"energy": 1.0, "forces": 10.0, "stress": 100.0}


def make_step(dtype: mx.Dtype = mx.float32, clip: float | None = 10.0, **options) -> TrainStep:
    mx.random.seed(3)
    potential = Potential(
        PotentialConfig(numbers=[2, 10], cutoff=4.0, model=CONFIG.model, E0s=E0, scale=0.5)
    )
    potential.set_dtype(dtype)
    objective = Objective(CONFIG.loss, WEIGHTS)
    state = TrainState(potential, CONFIG)
    return TrainStep(state, objective, stress=True, clip_grad=clip, **options)


def make_batch(
    dtype: mx.Dtype = mx.float32, pad: bool = False, first: int = 0, last: int = 4
) -> tuple[Graph, Labels]:
    frames = morse_frames(8, crystals=True)[first:last]
    return collate(frames, 4.0, dtype, E0s=E0, pad=pad)


def rates(rate: float = 0.01, decay: float = 0.75) -> tuple[mx.array, mx.array]:
    return mx.array(rate), mx.array(decay)


def largest_difference(a: dict, b: dict) -> float:
    """Largest difference of arrays, relative to the largest number in each."""
    assert a.keys() == b.keys()
    pairs = [(np.array(a[name]), np.array(b[name])) for name in a]
    return max(np.abs(x - y).max() / max(np.abs(y).max(), 1e-3) for x, y in pairs)


def test_traces_without_evaluating_anything():
    """Under mx.compile every hidden evaluation raises; nothing is evaluated here at all."""
    step = make_step()
    before = step.state.arrays

    def function(state: dict, graph: dict, labels: dict, rate: mx.array, decay: mx.array):
        step.state.arrays = state
        result = step([(Graph.from_arrays(graph), Labels(**labels))], rate, decay)
        return step.state.arrays, result

    graph, labels = make_batch(pad=True)
    arguments = before, graph.arrays(), labels.arrays(), *rates()
    after, (_, _, sums) = mx.compile(function)(*arguments)
    assert after.keys() == before.keys()
    assert sums.shape == (4, 4)


def test_a_hidden_evaluation_would_be_seen():
    step = make_step()
    loss = step.objective.loss
    step.objective.loss = lambda sums, *rest: loss(sums, *rest) * float(sums[0, 0] > -1)
    graph, labels = make_batch()
    traced = mx.compile(lambda arrays: step.gradient([(graph, Labels(**arrays))]).loss)
    with pytest.raises(ValueError, match="eval"):
        traced(labels.arrays())


def test_gradient_is_that_of_the_loss():
    with mx.stream(mx.cpu):
        step = make_step(mx.float64, clip=None)
        state = step.state
        graph, labels = make_batch(mx.float64)
        found = step.gradient([(graph, labels)])
        own = state.trained(state.arrays)
        assert found.slopes.keys() == own.keys()
        rng = np.random.default_rng(0)
        direction = {
            name: mx.array(rng.normal(size=p.shape), dtype=p.dtype) for name, p in own.items()
        }
        slope = sum(
            float(np.sum(np.array(found.slopes[name]) * np.array(d)))
            for name, d in direction.items()
        )

        def loss_at(h: float) -> float:
            moved = {
                name: p + mx.array(h, dtype=p.dtype) * direction[name] for name, p in own.items()
            }
            state.weights.write(moved)
            return float(np.array(step.objective.loss(step.sums(graph, labels))))

        h = 1e-5
        numeric = (8 * (loss_at(h) - loss_at(-h)) - loss_at(2 * h) + loss_at(-2 * h)) / (12 * h)
        assert slope == pytest.approx(numeric, rel=1e-6)
        assert loss_at(0.0) == pytest.approx(float(np.array(found.loss)), rel=1e-12)
        squares = sum(float(np.sum(np.array(g) ** 2)) for g in found.slopes.values())
        result = step([(graph, labels)], *rates())
        assert float(np.array(result.gradient_norm)) == pytest.approx(np.sqrt(squares), rel=1e-6)


def test_padding_changes_nothing():
    with mx.stream(mx.cpu):
        step = make_step(mx.float64)
        plain, padded = (step.gradient([make_batch(mx.float64, pad)]) for pad in (False, True))
        np.testing.assert_allclose(np.array(padded.sums), np.array(plain.sums), rtol=1e-12)
        assert largest_difference(padded.slopes, plain.slopes) < 1e-11


def test_parts_are_the_batch():
    """Accumulated gradients are those of the large batch, whatever labels each part lacks."""
    with mx.stream(mx.cpu):
        step = make_step(mx.float64)
        whole = step.gradient([make_batch(mx.float64, last=8)])
        cuts = (0, 1, 4, 6, 8)  # the first part has no stress at all
        parts = [
            make_batch(mx.float64, first=first, last=last)
            for first, last in itertools.pairwise(cuts)
        ]
        found = step.gradient(parts)
        assert float(np.array(found.loss)) == pytest.approx(float(np.array(whole.loss)), rel=1e-13)
        np.testing.assert_allclose(np.array(found.sums), np.array(whole.sums), rtol=1e-13)
        assert largest_difference(found.slopes, whole.slopes) < 1e-12
        # A mean of the parts' gradients would be something else.
        single = [step.gradient([part]).slopes for part in parts]
        mean = {name: sum([s[name] for s in single[1:]], single[0][name]) / 4 for name in single[0]}
        assert largest_difference(mean, whole.slopes) > 0.01


@pytest.mark.parametrize("record", [False, True])
def test_memory_holds_one_part_at_a_time(record):
    frames = morse_frames(48, crystals=True)[1::2]
    parts = [collate(frames[k : k + 6], 4.0, E0s=E0, pad=True) for k in (0, 6, 12, 18)]
    mx.eval([part[0].arrays() for part in parts], [part[1].arrays() for part in parts])
    peaks = []
    for some in (parts[:1], parts, [collate(frames, 4.0, E0s=E0, pad=True)]):
        step = make_step(record=record)
        for _ in range(2):
            before = mx.get_active_memory()
            mx.reset_peak_memory()
            mx.eval(step(some, *rates()), step.state.arrays)
            peak = mx.get_peak_memory() - before
        peaks.append(peak)
    assert peaks[1] < 1.4 * peaks[0]
    assert peaks[2] > 2.5 * peaks[0]


def test_clipping():
    sizes = []
    for clip in (0.01, None):
        step = make_step(clip=clip)
        result = step([make_batch()], *rates())
        assert float(np.array(result.gradient_norm)) > 0.1
        # Adam's first average is a tenth of the gradient.
        averages = [np.array(a) for name, a in step.state.arrays.items() if name.endswith(".m")]
        sizes.append(10 * np.sqrt(sum(np.sum(m.astype(np.float64) ** 2) for m in averages)))
    assert sizes[0] == pytest.approx(0.01, rel=1e-3)
    assert sizes[1] > 0.1


def test_a_step_moves_state_and_average():
    step = make_step()
    before = step.state.arrays
    step([make_batch()], *rates())
    after = step.state.arrays
    assert int(after["optimizer.step"]) == int(before["optimizer.step"]) + 1
    moved = [
        name
        for name in before
        if name.startswith("model.") and not np.array_equal(before[name], after[name])
    ]
    assert len(moved) > 3
    for name in moved:
        average = after[name.replace("model.", "average.")]
        expected = 0.75 * np.array(before[name]) + 0.25 * np.array(after[name])
        np.testing.assert_allclose(np.array(average), expected, rtol=1e-5, atol=1e-7)
        # Adam's first step is lr in each direction.
        assert np.abs(np.array(after[name]) - np.array(before[name])).max() <= 0.0101


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon", "lion", "schedule_free"])
def test_recorded_steps_have_the_same_bits(optimizer):
    config = CONFIG.model_copy(update={"optimizer": OptimizerSection(name=optimizer)})
    batches = [make_batch(pad=True, first=k % 2, last=4 + k % 2) for k in range(7)]
    found = {}
    for record in (False, True):
        step = make_step(record=record)
        step.state = TrainState(step.state.potential, config)
        losses = []
        for number, batch in enumerate(batches):
            result = step([batch, batches[0]], *rates(0.01 / (1 + number)))
            mx.eval(result, step.state.arrays)
            losses.append(np.array(result.loss).tobytes())
        traces = step._slopes.n_traces
        found[record] = losses, {n: np.array(a).tobytes() for n, a in step.state.arrays.items()}
        sizes = {(batch[0].n_atoms, batch[0].n_edges) for batch in batches}
        assert traces == (len(sizes) if record else 14)
    assert found[True] == found[False]


def test_records_follow_the_radial_tables():
    model = SMALL["model"] | {"radial": "table"}
    config = validate(SMALL | {"model": model}, TrainConfig, "test")
    mx.random.seed(3)
    potential = Potential(PotentialConfig(numbers=[2, 10], cutoff=4.0, model=config.model, E0s=E0))
    step = TrainStep(
        TrainState(potential, config), Objective(config.loss, WEIGHTS), True, 10.0, record=True
    )
    batch = make_batch(pad=True)
    losses = []
    for intervals in (64, 64, 64, 32, 32, 32):
        potential.set_radial_intervals([intervals] * len(potential.radial_intervals))
        losses.append(np.array(step.gradient([batch]).loss).tobytes())
    assert len(set(losses[:3])) == len(set(losses[3:])) == 1
    assert losses[0] != losses[3]
    assert step.n_traces == 2


def test_state_returns_to_a_moment():
    step = make_step()
    before = step.state.arrays
    step([make_batch()], *rates())
    step.state.load(before)
    after = step.state.arrays
    assert after.keys() == before.keys()
    assert all(np.array_equal(after[name], before[name]) for name in before)
    step([make_batch()], *rates())  # the structure is whole
    with pytest.raises(ValueError, match=r"does not fit.*missing"):
        step.state.load({name: a for name, a in before.items() if name != "optimizer.step"})
    other = before | {"optimizer.step": mx.zeros((3,), dtype=mx.uint64)}
    with pytest.raises(ValueError, match=r"optimizer\.step"):
        step.state.load(other)


def test_averaged_puts_back():
    step = make_step()
    step([make_batch()], *rates(decay=0.5))
    state = step.state
    with averaged(state):
        inside = state.weights.read()
    outside = state.weights.read()
    for name, array in outside.items():
        assert np.array_equal(array, state.arrays[f"model.{name}"])
        assert np.array_equal(inside[name], state.arrays[f"average.{name}"])
    assert any(not np.array_equal(inside[name], outside[name]) for name in inside)
