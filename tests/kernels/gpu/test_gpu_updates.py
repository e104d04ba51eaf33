"""Steps of Adam and running averages on an emulated GPU against float64."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import mlx.core as mx
import mlx.optimizers
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array, to_float64
from training_runs import SMALL

from mlpot import kernels
from mlpot.config import validate
from mlpot.kernels import gpu
from mlpot.models import Potential, PotentialConfig
from mlpot.training import TrainConfig
from mlpot.training.average import mixed
from mlpot.training.config_sections import OptimizerSection
from mlpot.training.matrices import Block
from mlpot.training.optimizers import make_optimizer
from mlpot.training.state import TrainState

pytestmark = pytest.mark.emulated

SHAPES = {"a": (5, 3), "b": (1,), "c": (300,)}


class Reference:
    """Adam with bias correction and a running average with decay 0.75, in float64."""

    def __init__(self, start: mx.array) -> None:
        self.p = self.average = np.array(start, np.float64)
        self.m = self.v = np.zeros(start.shape)
        self.step = 0

    def move(self, g: np.ndarray, weight_decay: float, rate: float = 0.05) -> None:
        self.step += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.999 * self.v + 0.001 * g**2
        m, v = self.m / (1 - 0.9**self.step), self.v / (1 - 0.999**self.step)
        self.p = self.p * (1 - rate * weight_decay) - rate * m / (np.sqrt(v) + 1e-8)
        self.average = 0.75 * self.average + 0.25 * self.p


@pytest.mark.parametrize(
    ("name", "limit", "n_arrays", "dialect", "launches"),
    [
        ("adam", math.inf, 3, "metal", {"squares": 1, "step_numbers": 1, "adam": 1}),
        ("adamw", 0.5, 17, "metal", {"squares": 2, "step_numbers": 1, "adam": 6}),
        ("adamw", 1e3, 7, "cuda", {"squares": 1, "step_numbers": 1, "adam": 2}),
    ],
)
def test_three_steps(name, limit, n_arrays, dialect, launches, monkeypatch):
    """More arrays than one kernel takes, too: each kind of GPU has its limit."""
    monkeypatch.setattr(gpu.updates, "running_dialect", lambda: dialect)
    monkeypatch.setattr(gpu.updates, "CUDA_BYTES", 450)
    shapes = {str(k): list(SHAPES.values())[k % 3] for k in range(n_arrays)}
    section = OptimizerSection(name=name, weight_decay=0.1)
    parameters = {key: random_array(shape, seed=k) for k, (key, shape) in enumerate(shapes.items())}
    own: Any = make_optimizer(section, 0.05, {})
    found, averages = dict(parameters), dict(parameters)
    own.init(found)
    wanted = {key: Reference(p) for key, p in parameters.items()}
    for step in range(3):
        slopes = {k: random_array(s, seed=10 + step) for k, s in shapes.items()}
        with emulated_gpu() as device:
            assert own.has_kernels(slopes, found)
            found, averages, norm = own.by_kernels(slopes, found, averages, mx.array(0.75), limit)
        assert dict(Counter(device.kernels)) == launches
        length = math.sqrt(
            sum(float(np.sum(np.array(s, np.float64) ** 2)) for s in slopes.values())
        )
        assert_close(norm, length, 1e-6)
        for key, one in wanted.items():
            decay = 0.1 if name == "adamw" else 0.0
            one.move(np.array(slopes[key], np.float64) * min(1.0, limit / length), decay)
    for theirs, ours in (
        ({key: one.p for key, one in wanted.items()}, found),
        ({key: one.average for key, one in wanted.items()}, averages),
        ({key: one.m for key, one in wanted.items()}, {k: own.state[k]["m"] for k in shapes}),
        ({key: one.v for key, one in wanted.items()}, {k: own.state[k]["v"] for k in shapes}),
    ):
        # Together: a number that happens to be near zero has the rounding of its terms.
        joined = mx.concatenate([ours[key].reshape(-1) for key in shapes])
        assert_close(joined, np.concatenate([theirs[key].ravel() for key in shapes]), 5e-7)
    assert int(own.state["step"]) == 3
    assert own.state["step"].dtype == mx.uint64


def test_late_steps():
    """The corrections of the means vanish where beta to the power of the steps does."""
    start, slope = random_array((5,)), random_array((5,), seed=1)
    section = OptimizerSection(name="adam")
    own: Any = make_optimizer(section, 0.05, {})
    for done in (0, 3, 200, 100_000):
        own.init({"a": start})
        own.state["step"] = mx.array(done, mx.uint64)
        own.state["a"] = {"m": slope, "v": slope * slope}
        with emulated_gpu():
            moved, _, _ = own.by_kernels({"a": slope}, {"a": start}, {}, mx.array(0.0), math.inf)
        one, two = 1 - 0.9 ** (done + 1), 1 - 0.999 ** (done + 1)
        step = 0.05 / one * np.sign(slope) * np.sqrt(two)
        assert_close(moved["a"], mx.array(np.array(start) - step), 2e-6)


def test_the_state_of_a_run(tmp_path):
    """A step of the state by kernels is the step that plain MLX makes."""
    config = validate(SMALL, TrainConfig, "test")
    mx.random.seed(3)
    potential = Potential(PotentialConfig(numbers=[2, 10], cutoff=4.0, model=config.model))
    state = TrainState(potential, config)
    trained = state.trained(state.arrays)
    slopes = {name: random_array(p.shape, seed=k) for k, (name, p) in enumerate(trained.items())}
    numbers = mx.array(0.01), mx.array(0.9), 10.0
    wanted, length = state.moved(state.arrays, slopes, *numbers)
    with emulated_gpu() as device:
        found, norm = state.moved(state.arrays, slopes, *numbers)
    assert {"adam", "step_numbers", "squares"} == set(device.kernels)
    assert list(found) == list(wanted)
    assert_close(norm, length, 1e-6)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        if array.ndim:
            # MLX's own corrections of the means have four digits at the first step.
            assert_close(found[name], array, 1e-4)
    assert any("average." in name for name in wanted)


def muon_parameters() -> tuple[dict[str, mx.array], dict[str, list[Block]]]:
    """Wide, tall and square matrices, several of them in one array, and others."""
    shapes = {"one": [(5, 9)], "two": [(70, 6), (4, 4), (3, 300)], "three": [(8, 2), (66, 67)]}
    blocks: dict[str, list[Block]] = {}
    for name, several in shapes.items():
        blocks[name], start = [], 0
        for n, m in several:
            blocks[name].append(Block(start, n, m))
            start += n * m
    sizes = {name: (sum(b.n_rows * b.n_columns for b in parts),) for name, parts in blocks.items()}
    sizes |= {"one": (5, 9), "plain": (4, 3)}
    return {n: random_array(s, seed=k) for k, (n, s) in enumerate(sizes.items())}, blocks


@pytest.mark.parametrize(("averaged", "adamw_lr"), [(True, None), (False, None), (True, 0.002)])
def test_two_steps_of_muon(averaged, adamw_lr):
    parameters, blocks = muon_parameters()
    section = OptimizerSection(name="muon", weight_decay=0.1, adamw_lr=adamw_lr)
    ours: Any = make_optimizer(section, 0.05, blocks)
    theirs: Any = make_optimizer(section, 0.05, blocks)
    found, wanted = dict(parameters), {key: to_float64(p) for key, p in parameters.items()}
    ours.init(found)
    averages, means = (dict(found), dict(wanted)) if averaged else ({}, {})
    decay = mx.array(0.75)
    with mx.stream(mx.cpu):
        theirs.init(wanted)
        for step in range(2):
            slopes = {k: random_array(p.shape, seed=10 + step) for k, p in parameters.items()}
            with emulated_gpu() as device:
                assert ours.has_kernels(slopes, found)
                found, averages, norm = ours.by_kernels(slopes, found, averages, decay, 3.0)
            kind = "muon_average" if averaged else "muon_move"
            assert sorted(device.kernels) == sorted(
                ["squares", "step_numbers", "adam", "muon_gather", kind]
            )
            exact = {k: to_float64(g) for k, g in slopes.items()}
            clipped, length = mlx.optimizers.clip_grad_norm(exact, 3.0)
            assert_close(norm, length, 1e-6)
            wanted = theirs.apply_gradients(clipped, wanted)
            means = mixed(means, wanted, decay)
        mx.eval(wanted, means, theirs.state)
    for key in parameters:
        # MLX's own corrections of the means of Adam have four digits at the first step.
        assert_close(found[key], wanted[key], 1e-5)
        if averaged:
            assert_close(averages[key], means[key], 1e-5)
        if key in blocks:
            assert_close(ours.state[key]["momentum"], theirs.state[key]["momentum"], 1e-6)
    assert int(ours.state["step"]) == 2


def test_running_average():
    old = {key: random_array(shape) for key, shape in SHAPES.items()}
    new = {key: random_array(shape, seed=5) for key, shape in SHAPES.items()}
    with emulated_gpu() as device:
        found = mixed(old, new, mx.array(0.9))
    assert device.kernels == ["mix"]
    for key in SHAPES:
        assert_close(found[key], 0.9 * to_float64(old[key]) + 0.1 * to_float64(new[key]), 2e-6)


def test_other_precisions_stay_with_mlx():
    a = random_array((3,), mx.float16)
    with emulated_gpu():
        assert not kernels.takes_adam(a, a)
        assert kernels.takes_adam(random_array((3,)), random_array((3,)))
    assert not kernels.takes_adam(random_array((3,)), random_array((3,)))


@pytest.mark.parametrize(
    ("dialect", "n_arrays", "refused"),
    [("metal", 7, False), ("metal", 8, True), ("cuda", 121, False), ("cuda", 122, True)],
)
def test_muon_for_more_arrays_than_a_kernel_takes(monkeypatch, dialect, n_arrays, refused):
    """Four pointers an array, one for its only class and two more: 31 on Metal, 487 on CUDA."""
    monkeypatch.setattr(gpu.muon, "running_dialect", lambda: dialect)
    pieces = tuple(gpu.Piece(k, 0, 4, 4) for k in range(n_arrays))
    told = gpu.muon_refusal(gpu.MuonLayout(n_arrays, pieces, 0.95, 0.0))
    assert (told is not None) == refused
    assert not refused or told == f"{n_arrays} arrays"
