"""Irrep and Irreps: construction, arithmetic, errors. Numbers: test_e3nn_algebra.py."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlpot.o3 import Irrep, Irreps, MulIr

irrep = st.builds(Irrep, st.integers(0, 6), st.sampled_from([-1, 1]))
block = st.tuples(st.integers(0, 5), irrep)
irreps = st.lists(block, max_size=6).map(Irreps)


def test_irrep_from_strings_pairs_and_irreps():
    assert Irrep("1o") == Irrep(1, -1) == Irrep((1, -1)) == Irrep(Irrep("1o")) == Irrep(" 1o ")
    assert Irrep("3y") == Irrep("3o")
    assert Irrep("2y") == Irrep("2e")
    assert Irrep(np.int64(2), 1) == Irrep("2e")
    assert (Irrep("11e").l, Irrep("11e").p, Irrep("11e").dim) == (11, 1, 23)
    assert [Irrep(ir).is_scalar() for ir in ("0e", "0o", "1e")] == [True, False, False]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("1x",), "'1x' is not an irrep"),
        (("o",), "'o' is not an irrep"),
        (("-1e",), "'-1e' is not an irrep"),
        ((1,), "parity of l=1 is None"),
        ((1, 2), "parity of l=1 is 2"),
        ((-1, 1), "l is -1"),
        ((1.0, 1), "l is 1.0"),
        ((True, 1), "l is True"),
    ],
)
def test_wrong_irreps_are_named(args, message):
    with pytest.raises(ValueError, match=message):
        Irrep(*args)


@given(irrep, irrep)
def test_product_of_irreps(a, b):
    results = list(a * b)
    assert sum(ir.dim for ir in results) == a.dim * b.dim
    assert {ir.p for ir in results} == {a.p * b.p}
    assert results == list(b * a)


def test_irrep_arithmetic():
    assert 3 * Irrep("1o") == Irreps("3x1o")
    assert Irrep("1o") + Irrep("1e") == Irrep("1o") + "1e" == Irreps("1o+1e")
    assert sorted([Irrep("1e"), Irrep("0e"), Irrep("1o"), Irrep("0o")]) == [
        Irrep(name) for name in ("0o", "0e", "1o", "1e")
    ]
    for refused in (lambda ir: ir.count(1), lambda ir: ir.index(1), lambda ir: 1 in ir):
        with pytest.raises(NotImplementedError):
            refused(Irrep("1o"))


def test_irreps_from_every_form():
    expected = Irreps("2x1o + 3x2e")
    assert expected == Irreps([(2, "1o"), (3, (2, 1))]) == Irreps([[2, "1o"], (3, Irrep("2e"))])
    assert expected == Irreps(expected) == Irreps(list(expected)) == Irreps(str(expected))
    assert Irreps(Irrep("1o")) == Irreps("1x1o") == Irreps(["1o"]) == Irreps([Irrep("1o")])
    assert Irreps(MulIr(2, Irrep("1o"))) == Irreps("2x1o")
    assert Irreps(None) == Irreps("") == Irreps([]) == Irreps()
    assert [type(b) for b in expected] == [MulIr, MulIr]
    assert (expected[1].mul, expected[1].ir, expected[1].dim) == (3, Irrep("2e"), 15)
    assert expected[1:] == Irreps("3x2e")
    assert isinstance(expected[1:], Irreps)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1o++2e", "'' in '1o\\+\\+2e'"),
        ("2x1o,3x2e", "'2x1o,3x2e' in"),
        ("-2x1o", "'-2x1o' in"),
        (3, "3 is not irreps"),
        ([(-2, "1o")], "is not a block"),
        ([(2.0, "1o")], "is not a block"),
        ([(2, 1, -1)], "is not a block"),
        ([2], "2 is not a block"),
    ],
)
def test_wrong_irreps_lists_are_named(value, message):
    with pytest.raises(ValueError, match=message):
        Irreps(value)


@given(irreps, irreps)
def test_sums_and_order(a, b):
    total = a + b
    assert total.dim == a.dim + b.dim
    assert total == a + str(b) == str(a) + b
    assert str(a) == repr(a)
    assert Irreps(str(total)) == total
    assert total.regroup() == (b + a).regroup()
    assert total.simplify().simplify() == total.simplify()
    order = total.sort()
    assert list(order.irreps) == sorted(total, key=lambda item: item.ir)
    for old, new in enumerate(order.p):
        assert order.irreps[new] == total[old]
        assert order.inv[new] == old
    for ir in {ir for _, ir in total}:
        assert total.count(ir) == a.count(ir) + b.count(ir)
        assert ir in total
    assert 3 * a == a * 3 == a + a + a


@given(irreps)
def test_copies_are_equal(a):
    for other in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert other == a
        assert hash(other) == hash(a)
        assert isinstance(other, Irreps)
        assert all(isinstance(item, MulIr) and isinstance(item.ir, Irrep) for item in other)


@given(irreps, st.integers(0, 20), st.integers(0, 20))
def test_slices_by_multiplicity_join(a, i, j):
    i, j = sorted((min(i, a.num_irreps), min(j, a.num_irreps)))
    parts = a.slice_by_mul[:i] + a.slice_by_mul[i:j] + a.slice_by_mul[j:]
    assert parts.simplify() == a.simplify()
    assert a.slice_by_mul[i:j].num_irreps == j - i


def test_filters():
    a = Irreps("2x1o+3x2e+0e")
    assert a.filter(keep="1o+2e") == a.filter(["1o", "2e"]) == Irreps("2x1o+3x2e")
    assert a.filter(keep=Irrep("0e")) == a.filter(lmax=0) == Irreps("0e")
    assert a.filter(drop=lambda item: item.mul > 2) == Irreps("2x1o+0e")
    assert a.filter() == a
    with pytest.raises(ValueError, match="keep and lmax"):
        a.filter(keep="0e", lmax=1)


def test_what_has_no_answer_says_so():
    a = Irreps("2x1o")
    with pytest.raises(ValueError, match="lmax"):
        _ = Irreps("0x1o").lmax
    with pytest.raises(NotImplementedError, match="index"):
        a.index("1o")
    with pytest.raises(NotImplementedError, match="TensorProduct"):
        _ = a * a
    with pytest.raises(IndexError, match="slice"):
        a.slice_by_mul[1]
    with pytest.raises(NotImplementedError, match="stride"):
        a.slice_by_mul[::2]


def test_random_features():
    a = Irreps("4x0e+0x1e+3x1o+2x2e")
    assert a.randn(5, -1, 2).shape == (5, a.dim, 2)
    assert a.randn(-1, dtype=mx.float32).dtype == mx.float32
    assert Irreps("").randn(3, -1).shape == (3, 0)
    key = mx.random.key(3)
    assert mx.array_equal(a.randn(-1, key=key), a.randn(-1, key=key)).item()
    x = np.array(a.randn(2, -1, 3, normalization="norm", key=key))
    start = 0
    for mul, ir in a:
        single = x[:, start : start + mul * ir.dim].reshape(2, mul, ir.dim, 3)
        np.testing.assert_allclose(np.linalg.norm(single, axis=2), 1.0, atol=1e-6)
        start += mul * ir.dim
    x = np.array(a.randn(4000, -1, key=key))
    np.testing.assert_allclose((x**2).mean(axis=0), 1.0, atol=0.15)
    with pytest.raises(ValueError, match="-1 once"):
        a.randn(3)
    with pytest.raises(ValueError, match="normalization"):
        a.randn(-1, normalization="integral")


def test_irreps_load_without_mlx():
    code = (
        "import sys, importlib.util as u\n"
        "sys.modules['mlpot'] = type(sys)('mlpot'); sys.modules['mlpot'].__path__ = ['mlpot']\n"
        "sys.modules['mlpot.o3'] = type(sys)('mlpot.o3')\n"
        "sys.modules['mlpot.o3'].__path__ = ['mlpot/o3']\n"
        "from mlpot.o3.irreps import Irreps\n"
        "assert Irreps('2x1o').dim == 6 and 'mlx.core' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
