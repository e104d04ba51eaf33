"""Point models: equivariance, periodic edges, singular inputs and errors."""

from __future__ import annotations

import mlx.core as mx
import model_cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlpot import kernels, o3
from mlpot.models import gate_points, v2103, v2106
from mlpot.models.messages import MessageSum

IRREPS = "2x0e+1x0o+1x1o+1x1e"


def simple(module=v2106, **changes):
    sizes = {"mul": 4, "layers": 2, "lmax": 2} | changes
    return module.SimpleNetwork(IRREPS, IRREPS, 2.0, 3.0, 5.0, pool_nodes=False, **sizes)


def gated(factory=gate_points.Network):
    hidden = "4x0e+4x0o+4x1o+4x1e+4x2e+4x2o"
    return factory(
        IRREPS, hidden, IRREPS, None, "0e+1o+2e", 2, 2.0, 4, 1, 8, 3.0, 5.0, reduce_output=False
    )


MODELS = {
    "v2106": simple,
    "v2103": lambda: simple(v2103),
    "2102": gated,
    "2101": lambda: gated(gate_points.Network2101),
}


def in_float64(model):
    model.set_dtype(mx.float64)
    if isinstance(model, v2106.SimpleNetwork) and "alpha" in str(list(model.mp.layers[-1])):
        for layer in model.mp.layers:
            alpha = getattr(layer, "first", layer).alpha
            alpha.weight = mx.ones_like(alpha.weight)
    return model


def double(values) -> mx.array:
    return mx.array(np.asarray(values), dtype=mx.float64)


@pytest.fixture(params=list(MODELS))
def model(request):
    mx.random.seed(0)
    return in_float64(MODELS[request.param]())


@settings(max_examples=5)
@given(seed=st.integers(0, 2**31), improper=st.booleans())
@pytest.mark.parametrize("name", list(MODELS))
def test_equivariance(name, seed, improper):
    mx.random.seed(0)
    model = in_float64(MODELS[name]())
    rng = np.random.default_rng(seed)
    pos, x = 0.8 * rng.standard_normal((6, 3)), rng.standard_normal((6, 9))
    angles = [double(a) for a in rng.uniform(0, 3, 3)]
    D = np.array(o3.Irreps(IRREPS).D_from_angles(*angles))
    R = np.array(o3.angles_to_matrix(*angles))
    if improper:
        parity = [np.full(block.dim, block.ir.p) for block in o3.Irreps(IRREPS)]
        D, R = D * np.concatenate(parity), -R
    first = np.array(model({"pos": double(pos), "x": double(x)}))
    second = np.array(model({"pos": double(pos @ R.T), "x": double(x @ D.T)}))
    assert np.abs(second - first @ D.T).max() < 1e-11 * np.abs(first).max()
    assert np.abs(first[:, 3:]).max() > 1e-9


def test_cell_shifts_give_periodic_neighbors(model):
    """Two atoms of a chain, and the same atoms in a cell of twice the length."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 9))
    pos = np.array([[0.0, 0.1, 0.0], [1.1, 0.0, 0.2]])
    length = 2.3

    def chain(copies: int):
        n = 2 * copies
        cell = np.diag([length * copies, 50.0, 50.0])
        place = np.concatenate([pos + np.array([length * c, 0, 0]) for c in range(copies)])
        edges, shifts = [], []
        for s in range(n):
            for r in range(n):
                for k in (-1, 0, 1):
                    distance = np.linalg.norm(place[s] + k * cell[0] - place[r])
                    if 0 < distance < 2.0:
                        edges.append((s, r))
                        shifts.append((k, 0, 0))
        return model(
            {
                "pos": double(place),
                "x": double(np.tile(x, (copies, 1))),
                "edge_index": mx.array(np.array(edges).T.astype(np.int32)),
                "edge_shifts": mx.array(np.array(shifts).astype(np.int32)),
                "cell": double(cell),
            }
        )

    one, two = np.array(chain(1)), np.array(chain(2))
    assert np.abs(two - np.tile(one, (2, 1))).max() < 1e-12 * np.abs(one).max()


def test_one_node_and_no_edges(model):
    x = double(np.random.default_rng(3).standard_normal((1, 9)))
    alone = model({"pos": mx.zeros((1, 3), dtype=mx.float64), "x": x})
    apart = model({"pos": double([[0, 0, 0], [9.0, 0, 0]]), "x": mx.concatenate([x, x])})
    slope = mx.grad(lambda p: model({"pos": p, "x": x}).sum())(mx.ones((1, 3), dtype=mx.float64))
    assert np.isfinite(np.array(alone)).all()
    assert np.abs(np.array(apart) - np.array(alone)).max() < 1e-13
    assert not np.array(slope).any()


def test_zero_vectors_have_finite_derivatives(model):
    """An edge of length zero, e.g. a self loop in a user's edge list."""
    x = double(np.random.default_rng(4).standard_normal((2, 9)))
    data = {"x": x, "edge_index": mx.array([[0, 1, 0], [0, 0, 1]])}
    pos = double([[0.0, 0, 0], [0.9, 0, 0]])

    def value(p):
        return (model({"pos": p, **data}) ** 2).sum()

    first = mx.grad(value)(pos)
    second = mx.jvp(mx.grad(value), [pos], [mx.ones_like(pos)])[1][0]
    assert np.isfinite(np.array(first)).all()
    assert np.isfinite(np.array(second)).all()


def test_only_scalars():
    net = v2106.SimpleNetwork("2x0e", "1x0e", 2.0, 3.0, 5.0, mul=3, layers=2, lmax=0)
    out = net({"pos": 0.5 * mx.random.normal((4, 3)), "x": mx.ones((4, 2))})
    assert out.shape == (1, 1)
    assert np.isfinite(np.array(out)).all()


def test_blocks_without_channels():
    layer = v2106.Convolution("2x0e+0x1o", "0e", "0x0e+1o", "2x0e+1x1o", [3], 2.0)
    out = layer(
        mx.ones((3, 2)),
        mx.ones((3, 1)),
        mx.array([1, 0, 2]),
        mx.array([0, 1, 1]),
        mx.ones((3, 3)),
        mx.ones((3, 3)),
    )
    assert out.shape == (3, 5)
    assert np.isfinite(np.array(out)).all()


def test_edges_in_any_order_give_the_same():
    rng = np.random.default_rng(5)
    mx.random.seed(1)
    layer = gate_points.Convolution("4x0e+2x1o", "0e", "0e+1o", None, 3, 1, 8, 2.0)
    x, z = mx.array(rng.standard_normal((5, 10))), mx.ones((5, 1))
    src, dst = rng.integers(0, 5, 12), rng.integers(0, 5, 12)
    a, f = rng.standard_normal((12, 4)), rng.standard_normal((12, 3))
    order = rng.permutation(12)
    first = layer(x, z, mx.array(src), mx.array(dst), mx.array(a), mx.array(f))
    second = layer(
        x, z, mx.array(src[order]), mx.array(dst[order]), mx.array(a[order]), mx.array(f[order])
    )
    assert np.abs(np.array(first) - np.array(second)).max() < 1e-5


def test_channels_of_edge_attributes_are_summed():
    """Against the tensor product with weights for each edge."""
    rng = np.random.default_rng(6)
    irreps, attr = o3.Irreps("3x0e+2x1o"), o3.Irreps("2x0e+3x1o")
    messages = MessageSum(irreps, attr, o3.Irreps("0e+1o+1e"))
    mid = messages.irreps_out
    triples, k = [], []
    for i, (mul, ir) in enumerate(irreps):
        for j, (_, edge) in enumerate(attr):
            k += [(mul, out) for out in ir * edge if out in o3.Irreps("0e+1o+1e")]
            triples += [(i, j) for out in ir * edge if out in o3.Irreps("0e+1o+1e")]
    place = o3.Irreps(k).sort().p
    instructions = [(i, j, p, "uvu", True) for (i, j), p in zip(triples, place, strict=True)]
    product = o3.TensorProduct(irreps, attr, mid, instructions, shared_weights=False)
    n = 5
    edges = kernels.EdgeIndex.from_pairs(np.arange(n), np.arange(n), n)
    x, y = double(rng.standard_normal((n, irreps.dim))), double(rng.standard_normal((n, attr.dim)))
    w = double(rng.standard_normal((n, messages.weight_numel)))
    got = messages(o3.convert_layout(x, irreps, "mul_ir", "ir_mul"), y, w, edges)
    wanted = product(x, y, w)
    back = o3.convert_layout(got, mid, "ir_mul", "mul_ir")
    assert messages.weight_numel == product.weight_numel
    assert np.abs(np.array(back) - np.array(wanted)).max() < 1e-13


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": mx.ones((2, 9))}, "'pos' is needed"),
        ({"pos": mx.eye(3)}, "'x' or 'node_input' is needed"),
        ({"pos": mx.zeros((2, 3)), "batch": mx.array([0])}, "batch has the shape"),
        (
            {
                "pos": mx.zeros((2, 3)),
                "edge_index": mx.array([[0], [1]]),
                "edge_shifts": mx.zeros((1, 3)),
            },
            "no cell",
        ),
    ],
)
def test_missing_inputs_are_named(data, message):
    with pytest.raises(ValueError, match=message):
        simple()(data)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="num_neighbors is 0"):
        v2106.Convolution("0e", "0e", "0e", "0e", [3], 0)
    with pytest.raises(ValueError, match="irreps of the input and of the output"):
        v2106.MessagePassing(["0e"], "0e", "0e", [3], 1.0)


def test_shared_cases_have_edges():
    for case in model_cases.cases():
        data = model_cases.inputs(case)
        assert model_cases.edge_list(data["pos"], data["batch"]).shape[1] >= 4
