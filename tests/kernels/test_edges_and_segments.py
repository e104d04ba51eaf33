"""Edge lists, gather and segment sum."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlpot import kernels


def test_both_forms_of_the_edge_list():
    edges = kernels.EdgeIndex.from_pairs([2, 0, 1, 2], [0, 0, 2, 2], 4)
    assert np.array(edges.receiver_ptr).tolist() == [0, 2, 2, 4, 4]
    assert np.array(edges.sender_perm).tolist() == [1, 2, 0, 3]
    assert np.array(edges.sender_ptr).tolist() == [0, 1, 2, 4, 4]
    assert (edges.n_edges, edges.n_nodes) == (4, 4)
    assert list(edges.arrays()) == [
        "senders",
        "receivers",
        "receiver_ptr",
        "sender_perm",
        "sender_ptr",
    ]


@pytest.mark.parametrize(
    ("senders", "receivers", "message"),
    [
        ([0, 1], [0], "2 senders but 1 receivers"),
        ([0, 5], [0, 1], "edge index 5 is outside 0..2"),
        ([0, -1], [0, 1], "edge index -1 is outside"),
        ([0, 1], [1, 0], "not sorted by receiver"),
    ],
)
def test_wrong_edge_lists_are_refused(senders, receivers, message):
    with pytest.raises(ValueError, match=message):
        kernels.EdgeIndex.from_pairs(senders, receivers, 3)


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_gather_and_segment_sum_are_transposes(backend):
    rng = np.random.default_rng(0)
    index = rng.integers(0, 6, 20)
    x, g = rng.normal(size=(6, 3)), rng.normal(size=(20, 3))
    place = mx.array(index.astype(np.int32))
    a, b = mx.array(x, dtype=mx.float64), mx.array(g, dtype=mx.float64)
    with kernels.use(backend):
        rows = np.array(kernels.gather(a, place))
        sums = np.array(kernels.segment_sum(b, place, 6))
        through = np.array(mx.grad(lambda q: (kernels.gather(q, place) * b).sum())(a))
    wanted = np.zeros((6, 3))
    np.add.at(wanted, index, g)
    assert np.array_equal(rows, x[index])
    assert np.abs(sums - wanted).max() < 1e-14
    assert np.abs(through - wanted).max() < 1e-14


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize(
    ("function", "values"),
    [
        (kernels.exp, [np.exp, np.exp, np.exp]),
        (kernels.sin, [np.sin, np.cos, lambda x: -np.sin(x)]),
        (kernels.cos, [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]),
        (
            kernels.tanh,
            [
                np.tanh,
                lambda x: 1 / np.cosh(x) ** 2,
                lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2,
            ],
        ),
        (
            kernels.silu,
            [
                lambda x: x / (1 + np.exp(-x)),
                lambda x: (1 + np.exp(-x) * (1 + x)) / (1 + np.exp(-x)) ** 2,
                lambda x: (
                    np.exp(-x) * (2 + 2 * np.exp(-x) + x * np.exp(-x) - x) / (1 + np.exp(-x)) ** 3
                ),
            ],
        ),
    ],
)
def test_elementary_functions_and_two_derivatives(function, values, backend):
    x = np.linspace(-6, 6, 301)
    with kernels.use(backend):
        for dtype, tolerance in ((mx.float64, 2e-14), (mx.float32, 2e-6)):
            at = mx.array(x, dtype=dtype)
            got = [np.array(function(at))]
            first = mx.grad(lambda q: function(q).sum())
            got += [np.array(first(at)), np.array(mx.jvp(first, [at], [mx.ones_like(at)])[1][0])]
            for have, want in zip(got, values, strict=True):
                reference = want(x)
                error = np.abs(have - reference) / np.maximum(1, np.abs(reference))
                assert error.max() < tolerance


def test_norm_of_zero_has_finite_derivatives():
    zero = mx.zeros((1, 3))
    first = mx.grad(lambda v: kernels.lengths(v).sum())
    second = mx.jvp(first, [zero], [mx.ones_like(zero)])[1][0]
    assert np.array(first(zero)).tolist() == [[0, 0, 0]]
    assert np.array(second).tolist() == [[0, 0, 0]]


def test_constants_keep_their_digits_and_are_cached():
    third = kernels.Constant(np.array([1 / 3]))
    assert third(mx.float64).item() == 1 / 3
    assert third(mx.float32) is third(mx.float32)


def orders(index: np.ndarray, n_segments: int) -> dict[str, kernels.SegmentOrder | None]:
    """What can be known of an index."""
    ptr = np.concatenate([[0], np.cumsum(np.bincount(index, minlength=n_segments))])
    perm = np.argsort(index, kind="stable")
    known: dict[str, kernels.SegmentOrder | None] = {
        "nothing": None,
        "permutation": kernels.SegmentOrder(mx.array(ptr), mx.array(perm.astype(np.int32))),
    }
    if np.all(np.diff(index) >= 0):
        known["nondecreasing"] = kernels.SegmentOrder()
        known["offsets"] = kernels.SegmentOrder(mx.array(ptr))
    return known


@pytest.mark.parametrize("index", [[0, 0, 2, 5, 5, 5], [5, 0, 2, 0, 5, 0]])
def test_what_is_known_of_the_order_changes_nothing(index):
    index, rng = np.array(index), np.random.default_rng(5)
    x, g = mx.array(rng.normal(size=(6, 2))), mx.array(rng.normal(size=(6, 2)))
    place = mx.array(index)
    wanted = np.zeros((6, 2))
    np.add.at(wanted, index, np.array(x))
    for order in orders(index, 6).values():
        sums = kernels.segment_sum(x, place, 6, order)
        there = mx.grad(lambda q, o=order: (kernels.segment_sum(q, place, 6, o) * g).sum())(x)
        back = mx.grad(lambda q, o=order: (kernels.gather(q, place, o) * x).sum())(g)
        assert np.abs(np.array(sums) - wanted).max() < 1e-6
        assert np.array_equal(np.array(there), np.array(g)[index])
        assert np.abs(np.array(back) - wanted).max() < 1e-6


def test_permutation_without_offsets_is_refused():
    with pytest.raises(ValueError, match="without ptr"):
        kernels.SegmentOrder(perm=mx.array([0, 1]))


@pytest.mark.parametrize("jvp_safe", [True, False])
@pytest.mark.parametrize("use_custom_kernel", [None, True, False])
def test_scatter_sum_has_all_derivatives_with_any_switches(use_custom_kernel, jvp_safe):
    rng = np.random.default_rng(7)
    index = rng.integers(0, 4, 9)
    x, v = (mx.array(rng.normal(size=(9, 2)), dtype=mx.float64) for _ in range(2))

    def energy(q):
        sums = kernels.scatter_sum(q, mx.array(index), 4, use_custom_kernel, jvp_safe)
        return (sums * sums * sums).sum()

    with mx.stream(mx.cpu):
        kernels.clear_report()
        forward = np.array(mx.jvp(mx.grad(energy), [x], [v])[1][0])
        backend = {choice.backend for choice in kernels.report()}
    sums, along = np.zeros((4, 2)), np.zeros((4, 2))
    np.add.at(sums, index, np.array(x))
    np.add.at(along, index, np.array(v))
    assert np.abs(forward - (6 * sums * along)[index]).max() < 1e-13
    assert backend == {"reference" if use_custom_kernel is False else "native"}


@pytest.mark.parametrize("use_custom_kernel", [None, True, False])
def test_scatter_sum_of_nothing(use_custom_kernel):
    nothing, nowhere = mx.zeros((0, 2)), mx.zeros((0,), dtype=mx.int32)
    energy = lambda q: mx.sum(kernels.scatter_sum(q, nowhere, 3, use_custom_kernel))  # noqa: E731
    assert np.array_equal(kernels.scatter_sum(nothing, nowhere, 3, use_custom_kernel), [[0, 0]] * 3)
    assert kernels.scatter_sum(nothing, nowhere, 0, use_custom_kernel).shape == (0, 2)
    assert mx.jvp(mx.grad(energy), [nothing], [nothing])[1][0].shape == (0, 2)


@pytest.mark.parametrize("kind", [mx.int32, mx.int64, mx.uint32])
def test_plain_sums_do_not_write_beyond_their_end(kind):
    index = mx.array([0, 2, 3, 10**6, 2]).astype(kind)
    x = mx.array([[1.0], [2.0], [4.0], [8.0], [16.0]])
    sums = kernels.scatter_sum(x, index, 3, use_custom_kernel=False)
    assert np.array(sums).tolist() == [[1], [0], [18]]
    if kind != mx.uint32:
        below = kernels.scatter_sum(x, index - 3, 3, use_custom_kernel=False)
        assert np.array(below).tolist() == [[4], [0], [0]]


@pytest.mark.parametrize(
    ("shape", "index", "dim_size", "message"),
    [
        ((3, 2), [0, 1], 2, "one index for each row"),
        ((2, 2), [[0, 1]], 2, "one index for each row"),
        ((2, 2), [0, 1], -1, "dim_size is -1"),
        ((2, 2), [0.0, 1.0], 2, "give integers"),
    ],
)
def test_scatter_sum_refuses_what_does_not_fit(shape, index, dim_size, message):
    with pytest.raises(ValueError, match=message):
        kernels.scatter_sum(mx.zeros(shape), mx.array(index), dim_size)
