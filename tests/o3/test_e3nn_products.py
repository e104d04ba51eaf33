"""Tensor products, linear maps and layers against numbers of e3nn 0.6 (torch float64).

The cases and how their inputs are drawn: scripts/fixtures_tensor_products.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from operations import PLAIN, build

from mlpot import o3

FIXTURES = np.load(Path(__file__).parent.parent / "fixtures" / "tensor_products.npz")
CASES = json.loads(str(FIXTURES["meta"]))
ENDS = FIXTURES["ends"]
DATA = np.split(FIXTURES["data"], ENDS[:-1])
TOLERANCE = {mx.float64: 1e-10, mx.float32: 2e-5}
HAS_LAYOUT = (
    "TensorProduct",
    "FullyConnectedTensorProduct",
    "FullTensorProduct",
    "ElementwiseTensorProduct",
    "TensorSquare",
    "Linear",
    "Norm",
    "Gate",
    "NormActivation",
    "BatchNorm",
)


def inputs(case, dtype):
    """Inputs and a stream of the numbers that follow."""
    rng = np.random.default_rng(case["seed"])
    arrays = [rng.standard_normal(shape) for shape in case["shapes"]]
    if case["op"] in PLAIN:
        arrays = [np.abs(a) for a in arrays]
    return [mx.array(a, dtype=dtype) for a in arrays], rng


def derivatives(f, xs, rng):
    """Output, gradient of <output, v>, and Hessian times direction in three nestings."""
    out = f(*xs)
    v = mx.array(rng.standard_normal(out.shape), dtype=out.dtype)
    directions = [mx.array(rng.standard_normal(x.shape), dtype=x.dtype) for x in xs]
    which = [i for i, x in enumerate(xs) if x.size]

    def value(*some):
        full = list(xs)
        for i, x in zip(which, some, strict=True):
            full[i] = x
        return mx.sum(f(*full) * v)

    some, along = [xs[i] for i in which], [directions[i] for i in which]
    numbers = list(range(len(which)))

    def gradients(function):
        def run(*some):
            found = mx.grad(function, argnums=numbers)(*some) if some else ()
            return found if isinstance(found, list | tuple) else (found,)

        return run

    gradient = gradients(value)

    def slope(*some):
        return sum(mx.sum(g * t) for g, t in zip(gradient(*some), along, strict=True))

    def directional(*some):
        return mx.jvp(value, list(some), along)[1][0]

    first = list(gradient(*some))
    second = {
        "reverse over reverse": list(gradients(slope)(*some)),
        "forward over reverse": list(mx.jvp(gradient, some, along)[1]) if some else [],
        "reverse over forward": list(gradients(directional)(*some)),
    }

    def spread(arrays):
        full = [mx.zeros_like(x) for x in xs]
        for i, a in zip(which, arrays, strict=True):
            full[i] = a
        return full

    return out, spread(first), {k: spread(s) for k, s in second.items()}


def flat(arrays):
    return np.concatenate([np.array(a, dtype=np.float64).ravel() for a in arrays])


def assert_close(found, wanted, tolerance, what):
    assert found.shape == wanted.shape, what
    if wanted.size:
        error = np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-6)
        assert error < tolerance, f"{what}: relative error {error:.2e}"


@pytest.mark.parametrize("k", range(len(CASES)), ids=lambda k: f"{k}-{CASES[k]['op']}")
@pytest.mark.parametrize("dtype", [mx.float64, mx.float32], ids=["float64", "float32"])
def test_values_and_derivatives(k, dtype):
    case, wanted = CASES[k], DATA[k]
    with mx.stream(mx.cpu):
        f, _ = build(case)
        xs, rng = inputs(case, dtype)
        out, first, second = derivatives(f, xs, rng)
        size = sum(x.size for x in xs)
        out_w, first_w, second_w = np.split(wanted, [out.size, out.size + size])
        assert_close(flat([out]), out_w, TOLERANCE[dtype], "output")
        assert_close(flat(first), first_w, TOLERANCE[dtype], "gradient")
        for name, hessian in second.items():
            assert_close(flat(hessian), second_w, TOLERANCE[dtype], name)


def keeps_blocks(case):
    """Whether the operation handles the blocks of the input as they are given."""
    facts, spec = case["facts"], case["spec"]
    name = "irreps_in1" if "irreps_in1" in spec else "irreps_in"
    if name not in spec or ("irreps_out" in spec and case["op"] != "TensorSquare"):
        return True
    return o3.Irreps(spec[name]).remove_zero_multiplicities() == o3.Irreps(facts[name])


@pytest.mark.parametrize(
    "k",
    [k for k, case in enumerate(CASES) if case["op"] in HAS_LAYOUT and keeps_blocks(case)],
    ids=lambda k: f"{k}-{CASES[k]['op']}",
)
def test_component_major_layout_gives_the_same(k):
    case = CASES[k]
    with mx.stream(mx.cpu):
        f, _ = build(case)
        g, _ = build(case, layout="ir_mul")
        xs, _ = inputs(case, mx.float64)
        irreps_in = case["spec"].get("irreps") or case["facts"].get(
            "irreps_in", case["facts"].get("irreps_in1")
        )
        irreps_out = irreps_in if case["op"] == "BatchNorm" else case["facts"]["irreps_out"]
        wanted = f(*xs)
        swapped = o3.convert_layout(xs[0], irreps_in, "mul_ir", "ir_mul")
        found = o3.convert_layout(g(swapped, *xs[1:]), irreps_out, "ir_mul", "mul_ir")
        assert_close(flat([found]), flat([wanted]), 1e-13, "output")


@pytest.mark.parametrize(
    "k",
    [k for k, case in enumerate(CASES) if case["facts"]],
    ids=lambda k: f"{k}-{CASES[k]['op']}",
)
def test_irreps_and_path_weights(k):
    case = CASES[k]
    _, module = build(case)
    facts = case["facts"]
    for name in ("irreps_in", "irreps_in1", "irreps_in2", "irreps_out"):
        if name in facts and hasattr(module, name):
            assert getattr(module, name) == o3.Irreps(facts[name]), name
    if "weight_numel" in facts:
        assert module.weight_numel == int(facts["weight_numel"])
    if "path_weights" in facts:
        found = [ins.path_weight for ins in module.instructions]
        assert np.allclose(found, facts["path_weights"], rtol=1e-14)
        assert np.array_equal(np.array(module.output_mask), facts["mask"])


def test_every_operation_and_mode_is_covered():
    assert len(CASES) >= 300
    modes = {
        ins[3]
        for case in CASES
        if case["op"] == "TensorProduct"
        for ins in case["spec"]["instructions"]
    }
    assert modes == {"uvw", "uvu", "uvv", "uuw", "uuu", "uvuv", "uvu<v", "u<vw"}
    assert {case["op"] for case in CASES} >= {*HAS_LAYOUT, "Activation", *PLAIN}
