"""The point models with given weights against e3nn: outputs, first and second derivatives."""

from __future__ import annotations

import itertools
from pathlib import Path

import mlx.core as mx
import model_cases
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlpot.io import load_e3nn_weights
from mlpot.models import gate_points, v2103, v2106

FIXTURES = np.load(Path(__file__).parents[1] / "fixtures" / "models.npz")
CASES = model_cases.cases()


def build(case: dict):
    """Our model of a case, in float64, with the case's weights."""
    if case["module"][0] == "v":
        factory = getattr({"v2103": v2103, "v2106": v2106}[case["module"]], case["name"])
    else:
        factory = {"2101": gate_points.Network2101, "2102": gate_points.Network}[case["module"]]
    model = factory(**case["arguments"])
    model.set_dtype(mx.float64)
    shapes = {k: v.shape for k, v in tree_flatten(model.parameters()) if v.size}
    load_e3nn_weights(model, model_cases.weights(case, shapes))
    return model


def evaluate(model, case: dict, dtype: mx.Dtype) -> np.ndarray:
    """Numbers in the order of the fixtures."""
    numbers = model_cases.inputs(case)
    fixed = {
        k: mx.array(v, dtype=mx.int32 if k in ("batch", "edge_index") else dtype)
        for k, v in numbers.items()
        if k not in ("pos", "x", "node_input")
    }
    pos, x = mx.array(numbers["pos"], dtype=dtype), mx.array(numbers["x"], dtype=dtype)
    senders, receivers = model_cases.edge_list(numbers["pos"], numbers["batch"])
    fixed.setdefault("edge_index", mx.array(np.stack([senders, receivers]).astype(np.int32)))
    out = model({"pos": pos, "x": x, **fixed})
    cotangent, direction = model_cases.directions(case, out.shape[1])

    def value(pos, x):
        result = model({"pos": pos, "x": x, **fixed})
        return (result * mx.array(cotangent, dtype=dtype)).sum()

    gradient = mx.grad(value, argnums=(0, 1))
    first = gradient(pos, x)
    along = mx.array(direction, dtype=dtype)
    second = mx.jvp(lambda p: gradient(p, x)[0], [pos], [along])[1][0]
    return np.concatenate([np.array(a).ravel() for a in (out, *first, second)])


def identify(case: dict) -> str:
    return f"{case['module']}-{case['name']}-{case['arguments']['layers']}"


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_output_gradient_and_curvature(case):
    wanted = FIXTURES[f"{case['seed']:02d}"]
    model = build(case)
    sizes = [0, 2 * 10, model_cases.N_NODES * 3, model_cases.N_NODES * 6, model_cases.N_NODES * 3]
    got = evaluate(model, case, mx.float64)
    model.set_dtype(mx.float32)
    rough = evaluate(model, case, mx.float32)
    ends = np.cumsum(sizes)
    for start, end in itertools.pairwise(ends):
        part = slice(start, end)
        scale = np.abs(wanted[part]).max()
        assert np.abs(got[part] - wanted[part]).max() < 1e-10 * scale
        assert np.abs(rough[part] - wanted[part]).max() < 2e-5 * scale


@pytest.mark.parametrize("case", CASES[:1], ids=identify)
def test_own_neighbor_search_gives_the_same(case):
    model = build(case)
    numbers = model_cases.inputs(case)
    data = {k: mx.array(v, dtype=mx.float64) for k, v in numbers.items() if k != "batch"}
    data["batch"] = mx.array(numbers["batch"].astype(np.int32))
    wanted = FIXTURES[f"{case['seed']:02d}"][:20].reshape(2, 10)
    assert np.abs(np.array(model(data)) - wanted).max() < 1e-10 * np.abs(wanted).max()
