"""One step: one lazy graph, one evaluation, right gradients."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map
from morse_frames import E0, morse_frames
from training_runs import SMALL

from mlpot.config import validate
from mlpot.datasets import Labels, collate
from mlpot.graph import Graph
from mlpot.models import Potential, PotentialConfig
from mlpot.training import Objective, TrainConfig
from mlpot.training.state import TrainState, averaged
from mlpot.training.step import TrainStep

CONFIG = validate(SMALL, TrainConfig, "test")


def make_step(dtype: mx.Dtype = mx.float32, clip: float | None = 10.0) -> TrainStep:
    mx.random.seed(3)
    potential = Potential(
        PotentialConfig(numbers=[2, 10], cutoff=4.0, model=CONFIG.model, E0s=E0, scale=0.5)
    )
    potential.set_dtype(dtype)
    objective = Objective(CONFIG.loss, {"energy": 1.0, "forces": 10.0, "stress": 100.0})
    return TrainStep(TrainState(potential, CONFIG), objective, stress=True, clip_grad=clip)


def make_batch(dtype: mx.Dtype = mx.float32, pad: bool = False) -> tuple[Graph, Labels]:
    return collate(morse_frames(4, crystals=True), 4.0, dtype, E0s=E0, pad=pad)


def test_traces_without_evaluating_anything():
    """Under mx.compile every hidden evaluation raises; nothing is evaluated here at all."""
    step = make_step()
    before = step.state.arrays()

    def function(state: dict, graph: dict, labels: dict, rate: mx.array, decay: mx.array):
        step.state.load(state)
        result = step(Graph.from_arrays(graph), Labels(**labels), rate, decay)
        return step.state.arrays(), result

    graph, labels = make_batch(pad=True)
    arguments = before, graph.arrays(), labels.arrays(), mx.array(0.01), mx.array(0.9)
    after, (_, _, sums) = mx.compile(function)(*arguments)
    assert after.keys() == before.keys()
    assert sums.shape == (3, 4)


def test_a_hidden_evaluation_would_be_seen():
    step = make_step()
    loss = step.objective.loss
    step.objective.loss = lambda sums: loss(sums) * float(sums[0, 0] > -1)
    graph, labels = make_batch()
    traced = mx.compile(lambda arrays: step.gradient(graph, Labels(**arrays))[0].loss)
    with pytest.raises(ValueError, match="eval"):
        traced(labels.arrays())


def test_gradient_is_that_of_the_loss():
    with mx.stream(mx.cpu):
        step = make_step(mx.float64, clip=None)
        potential = step.state.potential
        graph, labels = make_batch(mx.float64)
        result, gradient = step.gradient(graph, labels)
        own = potential.trainable_parameters()
        rng = np.random.default_rng(0)
        direction = tree_map(lambda p: mx.array(rng.normal(size=p.shape), dtype=p.dtype), own)
        slope = sum(
            float(np.sum(np.array(g) * np.array(d)))
            for (_, g), (_, d) in zip(tree_flatten(gradient), tree_flatten(direction), strict=True)
        )

        def loss_at(h: float) -> float:
            moved = tree_map(lambda p, d: p + mx.array(h, dtype=p.dtype) * d, own, direction)
            potential.update(moved)
            return float(np.array(step.objective.loss(step.sums(graph, labels))))

        h = 1e-5
        numeric = (8 * (loss_at(h) - loss_at(-h)) - loss_at(2 * h) + loss_at(-2 * h)) / (12 * h)
        assert slope == pytest.approx(numeric, rel=1e-6)
        potential.update(own)
        assert loss_at(0.0) == pytest.approx(float(np.array(result.loss)), rel=1e-12)
        squares = sum(float(np.sum(np.array(g) ** 2)) for _, g in tree_flatten(gradient))
        assert float(np.array(result.gradient_norm)) == pytest.approx(np.sqrt(squares), rel=1e-6)


def test_padding_changes_nothing():
    with mx.stream(mx.cpu):
        step = make_step(mx.float64)
        plain, padded = (step.gradient(*make_batch(mx.float64, pad)) for pad in (False, True))
        np.testing.assert_allclose(np.array(padded[0].sums), np.array(plain[0].sums), rtol=1e-12)
        for (name, a), (_, b) in zip(tree_flatten(padded[1]), tree_flatten(plain[1]), strict=True):
            scale = np.abs(np.array(b)).max(initial=1e-3)
            np.testing.assert_allclose(np.array(a), np.array(b), atol=1e-11 * scale, err_msg=name)


def test_clipping():
    step, free = make_step(clip=0.01), make_step(clip=None)
    batch = make_batch()
    clipped, whole = step.gradient(*batch)[1], free.gradient(*batch)[1]
    norms = [
        np.sqrt(sum(float(np.sum(np.array(g, dtype=np.float64) ** 2)) for _, g in tree_flatten(t)))
        for t in (clipped, whole)
    ]
    assert norms[0] == pytest.approx(0.01, rel=1e-3)
    assert norms[1] > 0.1


def test_a_step_moves_state_and_average():
    step = make_step()
    before = step.state.arrays()
    step(*make_batch(), mx.array(0.01), mx.array(0.75))
    after = step.state.arrays()
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


def test_state_returns_to_a_moment():
    step = make_step()
    before = step.state.arrays()
    step(*make_batch(), mx.array(0.01), mx.array(0.75))
    step.state.load(before)
    after = step.state.arrays()
    assert after.keys() == before.keys()
    assert all(np.array_equal(after[name], before[name]) for name in before)
    step(*make_batch(), mx.array(0.01), mx.array(0.75))  # the structure is whole
    with pytest.raises(ValueError, match=r"does not fit.*missing"):
        step.state.load({name: a for name, a in before.items() if name != "optimizer.step"})
    other = before | {"optimizer.step": mx.zeros((3,), dtype=mx.uint64)}
    with pytest.raises(ValueError, match=r"optimizer\.step"):
        step.state.load(other)


def test_averaged_puts_back():
    step = make_step()
    step(*make_batch(), mx.array(0.01), mx.array(0.5))
    own = dict(tree_flatten(step.state.potential.trainable_parameters()))
    with averaged(step.state):
        inside = dict(tree_flatten(step.state.potential.trainable_parameters()))
    outside = dict(tree_flatten(step.state.potential.trainable_parameters()))
    average = dict(tree_flatten(step.state.average.state["parameters"]))
    assert all(np.array_equal(inside[name], average[name]) for name in own)
    assert all(np.array_equal(outside[name], own[name]) for name in own)
    assert any(not np.array_equal(inside[name], own[name]) for name in own)
