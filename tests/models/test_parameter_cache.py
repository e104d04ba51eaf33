"""What follows from parameters is kept exactly as long as they stay."""

from __future__ import annotations

import copy
import pickle

import mlx.core as mx
import pytest

from mlpot.models.parameter_cache import ParameterCache, addresses


class Counted:
    """A cache of the sum of one array, and how often it was computed with numbers or traced."""

    def __init__(self) -> None:
        self.cache, self.fixed, self.traced = ParameterCache(), 0, 0

    def __call__(self, w: mx.array, further=None) -> mx.array:
        def make(fixed: bool) -> mx.array:
            self.fixed, self.traced = self.fixed + fixed, self.traced + (not fixed)
            total = (w * mx.arange(w.size).reshape(w.shape)).sum()
            if fixed:
                mx.eval(total)
            return total

        return self.cache.get([w], further, make)


def array() -> mx.array:
    w = mx.array([[1.0, 2.0], [3.0, 5.0]])
    mx.eval(w)
    return w


def test_kept_while_nothing_changes():
    total, w = Counted(), array()
    assert [total(w).item() for _ in range(3)] == [23.0] * 3
    assert (total.fixed, total.traced) == (1, 0)
    total(w, further="other")
    assert total.fixed == 2


def scaled(w):
    w *= 2
    return w


def assigned(w):
    w[0, 1] = 7.0
    return w


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (scaled, 46.0),
        (assigned, 28.0),
        (lambda w: w.T, 22.0),
        (lambda w: w + 1, 29.0),
        (lambda w: w.astype(mx.float16), 23.0),
    ],
)
def test_changes_are_noticed(change, value):
    total, w = Counted(), array()
    total(w)
    w = change(w)
    mx.eval(w)
    assert total(w).item() == value
    assert total.fixed == 2


def test_numbers_in_the_place_of_old_ones_are_noticed():
    total = Counted()
    for k in range(50):
        w = mx.full((16, 16), float(k))
        mx.eval(w)
        assert total(w).item() == k * 256 * 255 / 2
        del w


def test_traced_arrays_are_not_kept():
    total, w = Counted(), array()
    x = mx.ones((2,))
    expected = mx.arange(4).reshape(2, 2)
    for transform in (
        lambda: mx.grad(total)(w),
        lambda: mx.compile(mx.grad(total))(w),
        lambda: mx.vmap(mx.grad(total))(w[None])[0],
        lambda: mx.grad(lambda v: mx.jvp(total, [v], [v])[1][0])(w),
    ):
        before = total.traced
        assert mx.array_equal(transform(), expected)
        assert total.traced > before
    assert total.fixed == 0
    # The arrays that are not traced have numbers inside too.
    assert mx.grad(lambda y: y.sum() * total(w))(x).tolist() == [23.0, 23.0]
    assert mx.compile(lambda y: y * total(w))(x).tolist() == [23.0, 23.0]
    assert mx.vmap(lambda y: y * total(w))(x).tolist() == [23.0, 23.0]
    assert total.fixed == 1


def test_arrays_not_computed_yet_are_not_kept():
    w = array() * 2
    assert addresses([w]) is None
    mx.eval(w)
    assert addresses([w]) is not None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_copies_start_empty(copied):
    total, w = Counted(), array()
    total(w)
    other = copied(total.cache)
    assert other.get([w], None, lambda fixed: "anew") == "anew"
    assert total.cache.get([w], None, lambda fixed: "anew").item() == 23.0
