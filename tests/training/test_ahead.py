"""Items prepared in a thread: order, errors, and that the thread ends."""

from __future__ import annotations

import threading

import pytest

from mlpot.training.ahead import ahead, grouped


def test_order():
    assert list(ahead(iter(range(50)), depth=3)) == list(range(50))


def test_an_error_comes_where_its_item_would():
    def items():
        yield 1
        yield 2
        raise ValueError("third")

    taken = ahead(items())
    assert [next(taken), next(taken)] == [1, 2]
    with pytest.raises(ValueError, match="third"):
        next(taken)


def test_runs_ahead_but_not_far():
    made = []
    third = threading.Event()

    def items():
        for index in range(100):
            made.append(index)
            if index == 2:
                third.set()
            yield index

    taken = ahead(items(), depth=2)
    assert next(taken) == 0
    assert third.wait(5), "nothing was prepared while the first item was in use"
    assert len(made) <= 4
    taken.close()
    assert not [t for t in threading.enumerate() if t.name == "mlpot-ahead"]


def test_groups():
    assert list(grouped(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(grouped([], 3)) == []
