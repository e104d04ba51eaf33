"""The C++ convolution family against einsum in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from random_convolutions import (
    CASES,
    GRAPHS,
    TOLERANCE,
    cancels,
    random_edges,
    random_spec,
    relative_error,
)
from seeds import generator

from mlpot.kernels import EdgeIndex, native


def einsum_family(spec, arrays, edges, of=lambda a: a) -> dict[str, np.ndarray]:
    """The four maps in float64; with `np.square` for ``of`` sums of squares."""
    x, y, w, g = (of(np.array(arrays[name], dtype=np.float64)) for name in "xywg")
    senders, receivers = np.array(edges.senders), np.array(edges.receivers)
    out = np.zeros((x.shape[0], spec.dim_out))
    x_bar, y_bar, w_bar = np.zeros_like(x), np.zeros_like(y), np.zeros_like(w)
    for p in spec.paths:
        to_x, to_out = p.x_columns(), p.out_columns()
        to_y = slice(p.y_offset, p.y_offset + p.d2)
        to_w = slice(p.w_offset, p.w_offset + p.mul)
        c = of(p.coefficients)
        xe, ge = x[senders][:, to_x], g[receivers][:, to_out]
        ye, we = y[:, to_y], w[:, to_w]
        message = np.einsum("ijk,ec,eic,ej->ekc", c, we, xe, ye)
        for e, n in enumerate(receivers):
            out[n, to_out] += message[e]
        for e, n in enumerate(senders):
            x_bar[n, to_x] += np.einsum("ijk,c,kc,j->ic", c, we[e], ge[e], ye[e])
        y_bar[:, to_y] += np.einsum("ijk,ec,eic,ekc->ej", c, we, xe, ge)
        w_bar[:, to_w] += np.einsum("ijk,eic,ej,ekc->ec", c, xe, ye, ge)
    return {"conv": out, "conv_x": x_bar, "conv_y": y_bar, "conv_w": w_bar}


def random_inputs(spec, n_nodes, edges, rng, dtype):
    shapes = {
        "x": (n_nodes, spec.dim_x),
        "y": (edges.n_edges, spec.dim_y),
        "w": (edges.n_edges, spec.n_weights),
        "g": (n_nodes, spec.dim_out),
    }
    return {k: mx.array(rng.normal(size=s), dtype=dtype) for k, s in shapes.items()}


def evaluate(spec, arrays, edges) -> dict[str, list[np.ndarray]]:
    with mx.stream(mx.cpu):
        return {
            name: [
                np.array(r)
                for r in native.convolution(spec, name, [arrays[a] for a in names], edges)
            ]
            for name, names in native.CONVOLUTION_MAPS.items()
        }


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_einsum(case, graph, dtype):
    rng = generator()
    n_nodes, n_edges = GRAPHS[graph]
    spec = random_spec(CASES[case], rng, gap=int(rng.integers(0, 3)))
    edges = random_edges(n_nodes, n_edges, rng)
    for _ in range(100):
        arrays = random_inputs(spec, n_nodes, edges, rng, dtype)
        want = einsum_family(spec, arrays, edges)
        if not cancels(want, einsum_family(spec, arrays, edges, np.square)):
            break
    else:
        raise AssertionError("a hundred inputs whose results cancel")
    got = evaluate(spec, arrays, edges)
    for name, value in want.items():
        assert relative_error(got[name][0], value) <= TOLERANCE[dtype], name
    assert np.array_equal(got["conv_yw"][0], got["conv_y"][0])
    assert np.array_equal(got["conv_yw"][1], got["conv_w"][0])


def test_kernels_are_available():
    assert native.available(), native.why_not()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
def test_same_bits_in_two_runs_and_with_any_number_of_threads(dtype):
    rng = generator()
    spec = random_spec(CASES["all l up to 2"], rng)
    edges = random_edges(300, 3000, rng)
    arrays = random_inputs(spec, 300, edges, rng, dtype)
    before = native.num_threads()
    results = []
    try:
        for n in (1, 2, 2, 5):
            native.set_num_threads(n)
            assert native.num_threads() == n
            results.append(evaluate(spec, arrays, edges))
    finally:
        native.set_num_threads(before)
    for other in results[1:]:
        for name, values in results[0].items():
            for a, b in zip(values, other[name], strict=True):
                assert a.tobytes() == b.tobytes(), name


def test_not_a_number_stays_where_it_belongs():
    """Vectors reach beyond the channels of a block: what lies there must not matter."""
    rng = generator()
    spec = random_spec([(1, 1, 1, 5), (0, 2, 2, 5)], rng)
    edges = random_edges(6, 30, rng)
    arrays = random_inputs(spec, 6, edges, rng, mx.float32)
    clean = evaluate(spec, arrays, edges)
    poisoned = mx.where(mx.arange(spec.n_weights) >= 5, mx.array(np.nan), arrays["w"])
    got = evaluate(spec, {**arrays, "w": poisoned}, edges)
    first = spec.paths[0].out_columns().ravel()
    assert np.array_equal(got["conv"][0][:, first], clean["conv"][0][:, first])
    assert np.isnan(got["conv"][0][:, spec.paths[1].out_columns().ravel()]).any()
    block = spec.paths[0].x_columns().ravel()
    assert np.array_equal(got["conv_x"][0][:, block], clean["conv_x"][0][:, block])
    assert np.array_equal(got["conv_y"][0][:, :3], clean["conv_y"][0][:, :3])
    assert np.isnan(got["conv_y"][0][:, 3:]).any()


def test_last_rows_are_not_read_beyond_their_array():
    """One-column arrays: a vector reaches over the ends of many rows."""
    rng = generator()
    spec = random_spec([(0, 0, 0, 1)], rng)
    for n in range(1, 40):
        edges = EdgeIndex.from_pairs(np.arange(n), np.arange(n), n)
        arrays = random_inputs(spec, n, edges, rng, mx.float64)
        got = evaluate(spec, arrays, edges)["conv"][0]
        want = 0.7 * np.array(arrays["x"]) * np.array(arrays["y"]) * np.array(arrays["w"])
        assert relative_error(got, want) <= 1e-15


def test_views_and_transposed_arrays_are_taken():
    rng = generator()
    spec = random_spec(CASES["one channel"], rng)
    edges = random_edges(7, 20, rng)
    arrays = random_inputs(spec, 7, edges, rng, mx.float64)
    with mx.stream(mx.cpu):
        views = {k: mx.concatenate([v, v]).T.reshape(v.shape[1], -1).T for k, v in arrays.items()}
        views = {k: v[: arrays[k].shape[0]] for k, v in views.items()}
    for name, values in evaluate(spec, arrays, edges).items():
        for a, b in zip(values, evaluate(spec, views, edges)[name], strict=True):
            assert np.array_equal(a, b)


def test_vmap_is_a_loop_over_the_batch():
    rng = generator()
    spec = random_spec(CASES["48 and 64"], rng)
    edges = random_edges(5, 12, rng)
    arrays = random_inputs(spec, 5, edges, rng, mx.float64)
    with mx.stream(mx.cpu):
        batch = mx.stack([arrays["x"], 2 * arrays["x"], arrays["x"] - 1], axis=1)

        def of_x(x):
            return native.convolution(spec, "conv", [x, arrays["y"], arrays["w"]], edges)[0]

        got = mx.vmap(of_x, in_axes=1)(batch)
        want = mx.stack([of_x(batch[:, i]) for i in range(3)])
    assert np.array_equal(np.array(got), np.array(want))


def test_wrong_arrays_are_refused():
    rng = generator()
    spec = random_spec(CASES["one channel"], rng)
    edges = random_edges(5, 12, rng)
    a = random_inputs(spec, 5, edges, rng, mx.float32)
    with mx.stream(mx.cpu):
        with pytest.raises(ValueError, match="wrong shape"):
            native.convolution(spec, "conv", [a["x"], a["y"], a["w"][:, :1]], edges)
        with pytest.raises(ValueError, match="one dtype"):
            native.convolution(spec, "conv", [a["x"], a["y"], a["w"].astype(mx.float64)], edges)
        with pytest.raises(ValueError, match="wrong number"):
            native.convolution(spec, "conv", [a["x"], a["y"]], edges)
        with pytest.raises(ValueError, match="no map"):
            native.convolution(spec, "conv_z", [a["x"], a["y"], a["w"]], edges)
        half = [a[k].astype(mx.float16) for k in "xyw"]
        with pytest.raises(ValueError, match="float32 and float64"):
            native.convolution(spec, "conv", half, edges)


@pytest.mark.parametrize("field", ["senders", "sender_perm", "receiver_ptr", "sender_ptr"])
def test_edge_lists_that_point_outside_give_nan(field, capfd):
    rng = generator()
    spec = random_spec(CASES["one channel"], rng)
    edges = random_edges(5, 12, rng)
    broken = EdgeIndex(**{**edges.arrays(), field: edges.arrays()[field] + 5})
    a = random_inputs(spec, 5, edges, rng, mx.float32)
    with mx.stream(mx.cpu):
        found = native.convolution(spec, "conv", [a["x"], a["y"], a["w"]], broken)[0]
        assert np.isnan(np.array(found)).all()
    message = capfd.readouterr().err
    assert "outside" in message or "divide" in message


def test_takes_only_what_the_kernels_are_made_for():
    single, double = mx.ones(3), mx.ones(3, dtype=mx.float64)
    with mx.stream(mx.cpu):
        assert native.refusal(single, single) is None
        assert native.refusal(double) is None
        assert "mixed precision" in native.refusal(single, double)
        assert "float16" in native.refusal(single.astype(mx.float16))
