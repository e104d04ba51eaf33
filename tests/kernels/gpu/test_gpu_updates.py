"""Steps of Adam and running averages on an emulated GPU against MLX's own optimisers in float64."""

from __future__ import annotations

import mlx.core as mx
import mlx.optimizers
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array, to_float64

from mlpot import kernels
from mlpot.training.average import mixed
from mlpot.training.config_sections import OptimizerSection
from mlpot.training.optimizers import make_optimizer

pytestmark = pytest.mark.emulated

SHAPES = {"a": (5, 3), "b": (1,), "c": (300,)}


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_three_steps(name):
    section = OptimizerSection(name=name, weight_decay=0.1)
    parameters = {key: random_array(shape) for key, shape in SHAPES.items()}
    own = make_optimizer(section, 0.05, {})
    options = {"learning_rate": 0.05, "betas": [0.9, 0.999], "eps": 1e-8, "bias_correction": True}
    kind = mlx.optimizers.AdamW if name == "adamw" else mlx.optimizers.Adam
    theirs = kind(**options, **({"weight_decay": 0.1} if name == "adamw" else {}))
    found, wanted = dict(parameters), {key: to_float64(p) for key, p in parameters.items()}
    own.init(found)
    with mx.stream(mx.cpu):
        theirs.init(wanted)
        for step in range(3):
            slopes = {k: random_array(s, seed=10 + step) for k, s in SHAPES.items()}
            with emulated_gpu() as device:
                found = own.apply_gradients(slopes, found)
            assert device.kernels == ["adam"] * len(SHAPES)
            wanted = theirs.apply_gradients({k: to_float64(g) for k, g in slopes.items()}, wanted)
    for key in SHAPES:
        assert_close(found[key], wanted[key], 2e-6)
        assert_close(own.state[key]["m"], theirs.state[key]["m"], 2e-6)
        assert_close(own.state[key]["v"], theirs.state[key]["v"], 2e-6)
    assert int(own.state["step"]) == 3


def test_running_average():
    old = {key: random_array(shape) for key, shape in SHAPES.items()}
    new = {key: random_array(shape, seed=5) for key, shape in SHAPES.items()}
    with emulated_gpu() as device:
        found = mixed(old, new, mx.array(0.9))
    assert device.kernels == ["mix"] * len(SHAPES)
    for key in SHAPES:
        assert_close(found[key], 0.9 * to_float64(old[key]) + 0.1 * to_float64(new[key]), 2e-6)


def test_other_precisions_stay_with_mlx():
    a = random_array((3,), mx.float16)
    with emulated_gpu():
        assert not kernels.takes_adam(a, a)
        assert kernels.takes_adam(random_array((3,)), random_array((3,)))
    assert not kernels.takes_adam(random_array((3,)), random_array((3,)))
