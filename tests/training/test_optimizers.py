"""The optimisers against their published formulas, written out in numpy, and against MLX's."""

from __future__ import annotations

import mlx.core as mx
import mlx.optimizers
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlpot.models import Potential, PotentialConfig
from mlpot.training.config_sections import OptimizerSection
from mlpot.training.matrices import Block, matrices
from mlpot.training.muon import orthogonalized
from mlpot.training.optimizers import make_optimizer


def section(name: str, **options) -> OptimizerSection:
    return OptimizerSection(name=name, **options)


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def double(array) -> mx.array:
    return mx.array(array, dtype=mx.float64)


def run(optimizer, start: dict, gradients: list[dict], rates: list[float]) -> list[dict]:
    """Parameters after each step, in numpy."""
    parameters = {name: double(a) for name, a in start.items()}
    optimizer.init(parameters)
    found = []
    for gradient, rate in zip(gradients, rates, strict=True):
        optimizer.state["learning_rate"] = double(rate)
        parameters = optimizer.apply_gradients(
            {name: double(a) for name, a in gradient.items()}, parameters
        )
        found.append({name: np.array(a) for name, a in parameters.items()})
    return found


def test_schedule_free_is_what_the_paper_says():
    beta1, beta2, eps, decay = 0.9, 0.99, 1e-6, 0.05
    rates = [0.01, 0.02, 0.03, 0.03, 0.03]
    start, gradients = numbers(0, 4), numbers(1, 5, 4)
    with mx.stream(mx.cpu):
        options = {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": decay}
        optimizer = make_optimizer(section("schedule_free", **options), 0.01, {})
        found = run(optimizer, {"w": start}, [{"w": g} for g in gradients], rates)
        y = z = x = start
        v, total = np.zeros(4), 0.0
        for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
            v = beta2 * v + (1 - beta2) * g**2
            z = z - rate * (g / (np.sqrt(v / (1 - beta2**t)) + eps) + decay * y)
            total += rate**2
            x = (1 - rate**2 / total) * x + rate**2 / total * z
            y = (1 - beta1) * z + beta1 * x
            np.testing.assert_allclose(found[t - 1]["w"], y, rtol=1e-6)
        np.testing.assert_allclose(np.array(optimizer.state["w"]["x"]), x, rtol=1e-6)


def test_schedule_free_reaches_the_minimum():
    """Of a quadratic with noise: the average is much closer than the point that is moved."""
    with mx.stream(mx.cpu):
        optimizer = make_optimizer(section("schedule_free", weight_decay=0.0), 0.05, {})
        target, rng = numbers(2, 6), np.random.default_rng(3)
        parameters = {"w": double(np.zeros(6))}
        optimizer.init(parameters)
        for _ in range(600):
            optimizer.state["learning_rate"] = mx.array(0.05)
            gradient = np.array(parameters["w"]) - target + rng.normal(size=6)
            parameters = optimizer.apply_gradients({"w": double(gradient)}, parameters)
            mx.eval(parameters, optimizer.state)
        away = {key: np.abs(np.array(optimizer.state["w"][key]) - target).max() for key in "xz"}
    assert away["x"] < 0.25
    assert away["x"] < 0.5 * away["z"]


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (6, 6)])
def test_orthogonalized(shape):
    with mx.stream(mx.cpu):
        matrix = numbers(4, *shape)
        u, _, vt = np.linalg.svd(matrix, full_matrices=False)
        stack = np.array(orthogonalized(double(np.stack([matrix, 7 * matrix]))))
        np.testing.assert_allclose(stack[0], stack[1], atol=1e-6)
        inner = u.T @ stack[0] @ vt.T
        values = np.diag(inner)
        assert np.abs(inner - np.diag(values)).max() < 1e-8  # the same singular vectors
        assert values.min() > 0.3
        assert values.max() < 1.3


@pytest.mark.parametrize("shape", [(4, 4), (3, 8)])
def test_muon_moves_a_matrix_as_mlx_does(shape):
    """MLX's own Muon, whose steps for wide matrices lack the factor that matches AdamW's."""
    start, gradients = numbers(5, *shape), list(numbers(6, 3, *shape))
    n, m = shape
    with mx.stream(mx.cpu):
        own = make_optimizer(section("muon", weight_decay=0.0), 0.1, {"w": [Block(0, n, m)]})
        factor = 0.2 * max(n, m) ** 0.5
        found = run(own, {"w": start}, [{"w": g} for g in gradients], [0.1] * 3)
        other = mlx.optimizers.Muon(0.1 * factor, momentum=0.95, weight_decay=0.0)
        parameters = {"w": double(start)}
        for step, gradient in enumerate(gradients):
            parameters = other.apply_gradients({"w": double(gradient)}, parameters)
            np.testing.assert_allclose(found[step]["w"], np.array(parameters["w"]), rtol=1e-6)


def test_muon_treats_every_block_of_a_flat_weight_by_itself():
    blocks = [Block(0, 3, 4), Block(12, 2, 2), Block(16, 3, 4)]
    start, gradient = numbers(7, 28), numbers(8, 28)
    with mx.stream(mx.cpu):
        optimizer = make_optimizer(section("muon"), 0.1, {"w": blocks})
        (found,) = run(optimizer, {"w": start, "v": start}, [{"w": gradient, "v": gradient}], [0.1])
        for begin, n, m in blocks:
            part = slice(begin, begin + n * m)
            single = make_optimizer(section("muon"), 0.1, {"w": [Block(0, n, m)]})
            (own,) = run(
                single,
                {"w": start[part].reshape(n, m)},
                [{"w": gradient[part].reshape(n, m)}],
                [0.1],
            )
            np.testing.assert_allclose(found["w"][part], own["w"].reshape(-1), rtol=1e-6)
        adamw = make_optimizer(section("adamw"), 0.1, {})
        (other,) = run(adamw, {"v": start}, [{"v": gradient}], [0.1])
        np.testing.assert_allclose(found["v"], other["v"], rtol=1e-12)


def test_muon_moves_the_rest_with_a_rate_of_its_own():
    """A fixed part of the scheduled rate; matrices, and their decay, do not notice."""
    blocks, rates = {"w": [Block(0, 3, 4)]}, [0.1, 0.05, 0.02]
    start = {"w": numbers(9, 12), "v": numbers(10, 5)}
    gradients = [{"w": numbers(11 + k, 12), "v": numbers(21 + k, 5)} for k in range(3)]
    with mx.stream(mx.cpu):
        own = make_optimizer(section("muon", adamw_lr=0.004), 0.1, blocks)
        found = run(own, start, gradients, rates)
        shared = run(make_optimizer(section("muon"), 0.1, blocks), start, gradients, rates)
        adamw = make_optimizer(section("adamw"), 0.004, {})
        rest = [{"v": gradient["v"]} for gradient in gradients]
        other = run(adamw, {"v": start["v"]}, rest, [0.04 * rate for rate in rates])
    for ours, theirs, alone in zip(found, shared, other, strict=True):
        np.testing.assert_array_equal(ours["w"], theirs["w"])
        np.testing.assert_allclose(ours["v"], alone["v"], rtol=1e-12)
        assert np.abs(ours["v"] - theirs["v"]).max() > 0.01
    assert float(np.array(own.state["learning_rate"])) == 0.02


def test_adamw_lr_belongs_to_muon():
    with pytest.raises(ValueError, match="adamw_lr goes with the optimizer muon, not with adam"):
        section("adam", adamw_lr=0.01)


def test_lion_has_its_own_decay():
    lion = make_optimizer(section("lion"), 0.1, {})
    assert list(lion.betas) == [0.9, 0.99]
    assert list(make_optimizer(section("adam"), 0.1, {}).betas) == [0.9, 0.999]
    assert list(make_optimizer(section("lion", beta2=0.8), 0.1, {}).betas) == [0.9, 0.8]


@pytest.mark.parametrize("name", ["v2106", "nequip", "gate_points"])
def test_matrices_of_a_model_fill_its_weights(name):
    model = {"name": name, "channels": 4, "layers": 2}
    potential = Potential(PotentialConfig(numbers=[1, 8], cutoff=4.0, model=model))
    found = matrices(potential)
    arrays = dict(tree_flatten(potential.parameters()))
    assert found.keys() == arrays.keys()  # no biases in these
    for key, blocks in found.items():
        assert sum(b.n_rows * b.n_columns for b in blocks) == arrays[key].size
        assert [b.start for b in blocks] == np.cumsum(
            [0, *(b.n_rows * b.n_columns for b in blocks[:-1])]
        ).tolist()
    assert len(found["network.embedding.weight"]) == 1
