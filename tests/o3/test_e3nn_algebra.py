"""Irreps, rotations, harmonics and grids against numbers of e3nn 0.6 (torch float64).

The cases and how their inputs are drawn: scripts/fixtures_o3.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from drawn_inputs import draw_all, draw_directions

from mlpot import o3

FIXTURES = np.load(Path(__file__).parent.parent / "fixtures" / "o3.npz")
CASES = json.loads(str(FIXTURES["cases"]))
FACTS = json.loads(str(FIXTURES["facts"]))
ROWS = np.split(FIXTURES["data"], FIXTURES["ends"][:-1])
TOLERANCE = {mx.float64: 1e-10, mx.float32: 2e-5}


def name(case):
    settings = ",".join(f"{k}={v}" for k, v in case["kwargs"].items())
    return f"{case['op']}{case['args']}{settings}"


def build(case):
    if case["kind"] == "function":
        target, args = getattr(o3, case["op"]), case["args"]
        if case["op"] in ("rfft", "irfft"):
            return lambda *xs: target(*xs, **case["kwargs"])
        return lambda *xs: target(*args, *xs, **case["kwargs"])
    args = [tuple(a) if isinstance(a, list) and "Grid" in case["op"] else a for a in case["args"]]
    return getattr(getattr(o3, case["op"])(*args, **case["kwargs"]), case["method"])


def flat(result):
    parts = result if isinstance(result, tuple) else (result,)
    return mx.concatenate([part.reshape(-1) for part in parts])


def close(found, expected, tolerance):
    found = np.asarray(found, dtype=np.float64).reshape(-1)
    assert found.shape == expected.shape
    if expected.size:
        assert np.abs(found - expected).max() <= tolerance * max(np.abs(expected).max(), 1e-3)


@pytest.mark.parametrize("dtype", [mx.float64, mx.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda i: name(CASES[i]))
def test_output_gradient_and_hessian_vector_product(number, dtype):
    case, expected = CASES[number], ROWS[number]
    with mx.stream(mx.cpu):
        xs = [mx.array(x, dtype=dtype) for x in draw_all(case)]
        operation = build(case)
        out = flat(operation(*xs))
        assert out.dtype == dtype
        close(out, expected[: out.size], TOLERANCE[dtype])
        if not case["derivatives"]:
            assert expected.size == out.size
            return
        shapes = [*(x.shape for x in xs), out.shape]
        *ts, v = (mx.array(d, dtype=dtype) for d in draw_directions(case, shapes))

        # MLX takes the gradient in all arrays of a list.
        first = mx.grad(lambda xs: mx.sum(flat(operation(*xs)) * v))

        def along(xs):
            return sum(mx.sum(g * t) for g, t in zip(first(xs), ts, strict=True))

        second = mx.grad(along)
        sizes = np.cumsum([out.size, *(x.size for x in xs)] + [x.size for x in xs])
        rows = np.split(expected, sizes[:-1])
        close(flat(tuple(first(xs))), np.concatenate(rows[1 : len(xs) + 1]), TOLERANCE[dtype])
        close(flat(tuple(second(xs))), np.concatenate(rows[len(xs) + 1 :]), TOLERANCE[dtype])


def test_every_coupling_through_degree_11():
    start = 0
    for number, triple in enumerate(FIXTURES["triples"].tolist()):
        l1, l2, l3 = triple
        rng = np.random.default_rng(number)
        u, v = rng.normal(size=2 * l1 + 1), rng.normal(size=2 * l2 + 1)
        found = np.einsum("i,j,ijk->k", u, v, o3.wigner_3j_numpy(l1, l2, l3))
        np.testing.assert_allclose(
            found, FIXTURES["wigner"][start : start + 2 * l3 + 1], rtol=0, atol=1e-13
        )
        start += 2 * l3 + 1
    assert start == FIXTURES["wigner"].size


@pytest.mark.parametrize("fact", FACTS["irreps"], ids=lambda fact: fact["irreps"] or "empty")
def test_irreps(fact):
    irreps = o3.Irreps(fact["irreps"])
    order = irreps.sort()
    begin, end = fact["slice"]
    found = {
        "irreps": fact["irreps"],
        "str": str(irreps),
        "dim": irreps.dim,
        "num_irreps": irreps.num_irreps,
        "ls": irreps.ls,
        "simplify": str(irreps.simplify()),
        "regroup": str(irreps.regroup()),
        "nonzero": str(irreps.remove_zero_multiplicities()),
        "sort": str(order.irreps),
        "p": list(order.p),
        "inv": list(order.inv),
        "slices": [[s.start, s.stop] for s in irreps.slices()],
        "filter": fact["filter"],
        "kept": str(irreps.filter(keep=fact["filter"])),
        "dropped": str(irreps.filter(drop=fact["filter"])),
        "lmax2": str(irreps.filter(lmax=2)),
        "count": irreps.count(fact["filter"][0]),
        "contains": fact["filter"][0] in irreps,
        "slice": fact["slice"],
        "sliced": str(irreps.slice_by_mul[begin:end]),
        "twice": str(2 * irreps),
        "sum": str(irreps + "1o+2x0e"),
    }
    assert found == fact


def test_irrep_order_and_products():
    assert [str(ir) for ir in o3.Irrep.iterator(5)] == FACTS["iterator"]
    for first, second, results in FACTS["products"]:
        assert [str(ir) for ir in o3.Irrep(first) * o3.Irrep(second)] == results
    for l, p, irreps in FACTS["harmonics"]:
        assert str(o3.Irreps.spherical_harmonics(l, p)) == irreps


@pytest.mark.parametrize(
    "case", [c for c in CASES if "irreps_out" in c], ids=lambda case: case["args"][0]
)
def test_irreps_of_reduced_products(case):
    product = o3.ReducedTensorProducts(*case["args"], **case["kwargs"])
    assert str(product.irreps_out) == case["irreps_out"]
