"""Constants of activations, Activation, Gate, NormActivation, FullyConnectedNet, S2 and SO3."""

from __future__ import annotations

import math

import mlx.core as mx
import mlx.nn
import numpy as np
import pytest
from algebra import close, numbers, rotation
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx.utils import tree_flatten

from mlpot import kernels, nn, o3
from mlpot.nn.normalization_constants import torch_normal


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def relu(x):
    return mx.maximum(x, 0.0)


# What e3nn 0.6 on torch, e3nn-jax, and an adaptive integral give.
@pytest.mark.parametrize(
    ("act", "convention", "wanted", "tolerance"),
    [
        ("silu", "exact", 1.676532, 1e-6),
        ("sigmoid", "exact", 1.84623, 1e-5),
        ("tanh", "exact", 1.59254, 1e-5),
        ("silu", "e3nn", 1.6791767923989418, 1e-14),
        ("sigmoid", "e3nn", 1.8467055342154763, 1e-14),
        ("tanh", "e3nn", 1.5937334472592695, 1e-14),
        (relu, "e3nn", 1.4163393446331365, 1e-13),
        (kernels.sin, "e3nn", 1.5218334864623193, 1e-13),
        ("silu", "e3nn_jax", 1.676562, 1e-6),
        (relu, "exact", math.sqrt(2), 1e-9),
        (kernels.sin, "exact", (0.5 - 0.5 * math.exp(-2)) ** -0.5, 1e-12),
        (lambda x: 3 * x, "exact", 1 / 3, 1e-12),
        ("silu", "none", 1.0, 0),
    ],
)
def test_constants(act, convention, wanted, tolerance):
    assert abs(nn.activation_constant(act, convention) - wanted) <= tolerance


def test_tabulated_constants_are_those_that_the_rules_give():
    for name in ("silu", "sigmoid", "tanh"):
        for convention in ("exact", "e3nn", "e3nn_jax"):
            known = nn.activation_constant(name, convention)
            # The same function under another identity is not found in the table.
            function = getattr(kernels, name)
            computed = nn.activation_constant(lambda x, f=function: f(x), convention)
            assert abs(known - computed) < 1e-12, (name, convention)


def test_constants_do_not_depend_on_how_a_function_is_named():
    for act in ("silu", kernels.silu, mlx.nn.silu):
        assert nn.activation_constant(act, "e3nn") == 1.6791767923989418


def test_a_constant_near_one_is_left_out():
    assert nn.activation_constant(lambda x: 1.00005 * mx.sign(x), "e3nn") == 1.0
    assert nn.activation_constant(lambda x: 1.0002 * mx.sign(x), "e3nn") != 1.0


def test_normal_numbers_are_those_of_torch():
    # torch.randn(1_000_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = torch_normal(1_000_000, seed=0)
    assert np.allclose(
        drawn[[0, 1, 2, 3, 16, 17, -3, -1]],
        [
            -2.3104118,
            -0.37325086,
            -1.06081668,
            0.99950935,
            0.15351884,
            -0.63327461,
            -0.29732493,
            -1.52299686,
        ],
        atol=1e-6,
    )


def test_activation_rules():
    act = nn.Activation("2x0e+3x0o+1x0o+1x1o", ["silu", "tanh", "abs", None])
    assert act.irreps_out == o3.Irreps("2x0e+3x0o+1x0e+1x1o")
    x = numbers(0, 4, 9)
    out = np.array(act(x))
    xs = np.array(x)
    silu = xs[:, :2] / (1 + np.exp(-xs[:, :2])) * 1.6791767923989418
    assert np.abs(out[:, :2] - silu).max() < 1e-14
    assert np.array_equal(out[:, 6:], xs[:, 6:])
    turned = nn.Activation("2x0e+3x0o+1x0o+1x1o", ["silu", "tanh", "abs", None])(x.T, dim=0)
    assert close(turned.T, out, 0)
    with pytest.raises(ValueError, match="neither even"):
        nn.Activation("2x0o", ["silu"])
    with pytest.raises(ValueError, match="only scalars"):
        nn.Activation("2x1o", ["tanh"])
    with pytest.raises(ValueError, match="2 activations"):
        nn.Activation("2x0e", ["tanh", "tanh"])
    with pytest.raises(ValueError, match="the names are"):
        nn.Activation("2x0e", ["gelu"])


def gate(layout="mul_ir"):
    return nn.Gate(
        "3x0e+2x0o",
        ["silu", "tanh"],
        "2x0e+3x0o",
        ["sigmoid", "tanh"],
        "3x1o+2x2e",
        layout=layout,
    )


def test_gate_multiplies_each_channel_by_its_own_gate():
    g = gate()
    assert g.irreps_in == o3.Irreps("5x0o+5x0e+3x1o+2x2e")
    assert g.irreps_out == o3.Irreps("3x0e+2x0o+2x1o+1x1e+2x2o")
    x = np.array(numbers(0, 6, g.irreps_in.dim))
    odd, even, vectors, tensors = np.split(x, [5, 10, 19], axis=1)
    gates = np.concatenate(
        [
            1.8467055342154763 / (1 + np.exp(-even[:, 3:])),
            1.5937334472592695 * np.tanh(odd[:, 2:]),
        ],
        axis=1,
    )
    wanted = np.concatenate(
        [
            1.6791767923989418 * even[:, :3] / (1 + np.exp(-even[:, :3])),
            1.5937334472592695 * np.tanh(odd[:, :2]),
            (vectors.reshape(6, 3, 3) * gates[:, :3, None]).reshape(6, -1),
            (tensors.reshape(6, 2, 5) * gates[:, 3:, None]).reshape(6, -1),
        ],
        axis=1,
    )
    assert close(g(mx.array(x, dtype=mx.float64)), wanted, 1e-13)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), improper=st.booleans())
def test_gate_is_equivariant(seed, improper):
    g = gate()
    x, R = numbers(seed, 3, g.irreps_in.dim), rotation(seed, improper)
    turned = g(x @ g.irreps_in.D_from_matrix(R).T)
    assert close(turned, g(x) @ g.irreps_out.D_from_matrix(R).T)


def test_gate_without_gates_and_without_items():
    plain = nn.Gate("3x0e", ["silu"], "", [], "")
    assert close(plain(numbers(0, 2, 3)), nn.Activation("3x0e", ["silu"])(numbers(0, 2, 3)), 0)
    assert gate()(mx.zeros((0, 29))).shape == (0, 24)
    empty = nn.Gate("0x0e", ["silu"], "0x0e", ["sigmoid"], "0x1o")
    assert empty(mx.zeros((2, 0))).shape == (2, 0)


def test_gate_errors():
    with pytest.raises(ValueError, match="each channel needs one gate"):
        nn.Gate("1x0e", ["silu"], "2x0e", ["sigmoid"], "3x1o")
    with pytest.raises(ValueError, match="only have scalars"):
        nn.Gate("1x1e", [None], "2x0e", ["sigmoid"], "2x1o")


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), improper=st.booleans(), normalize=st.booleans())
def test_norm_activation(seed, improper, normalize):
    irreps = o3.Irreps("2x0e+1x1o+2x1o+1x2e")
    act = nn.NormActivation(irreps, "sigmoid", normalize=normalize, bias=True)
    act.set_dtype(mx.float64)
    act.biases = numbers(seed + 1, 6)
    x, R = numbers(seed, 3, irreps.dim), rotation(seed, improper)
    D = irreps.D_from_matrix(R).T
    assert close(act(x @ D), act(x) @ D)
    norms = np.array(o3.Norm(irreps)(x))
    factor = 1 / (1 + np.exp(-norms - np.array(act.biases)))
    wanted = factor if normalize else factor * norms
    assert close(o3.Norm(irreps)(act(x)), wanted)


@pytest.mark.parametrize("normalize", [True, False])
def test_norm_activation_at_zero(normalize):
    act = nn.NormActivation("2x0e+2x1o", "silu", normalize=normalize)
    x = mx.zeros((1, 8), dtype=mx.float64)

    def total(x):
        return act(x).sum()

    second = mx.jvp(mx.grad(total), [x], [mx.ones_like(x)])[1][0]
    assert close(act(x), x, 0)
    assert np.isfinite(np.array(mx.grad(total)(x))).all()
    assert np.isfinite(np.array(second)).all()


def test_norm_activation_errors():
    with pytest.raises(ValueError, match="normalize=False does not use it"):
        nn.NormActivation("1x1o", "silu", normalize=False, epsilon=0.1)
    with pytest.raises(ValueError, match="must be positive"):
        nn.NormActivation("1x1o", "silu", epsilon=0.0)


def test_fully_connected_net():
    net = nn.FullyConnectedNet([4, 64, 64, 3], "silu", normalization="exact")
    net.set_dtype(mx.float64)
    names = [name for name, _ in tree_flatten(net.parameters())]
    assert sorted(names) == ["layer0.weight", "layer1.weight", "layer2.weight"]
    x = np.array(numbers(0, 5, 4))
    h, k = x, 1.6765324703315558
    for i, width in enumerate([4, 64, 64]):
        h = h @ np.array(net[f"layer{i}"].weight) / math.sqrt(width)
        if i < 2:
            h = k * h / (1 + np.exp(-h))
    assert close(net(mx.array(x, dtype=mx.float64)), h, 1e-12)
    assert net(mx.zeros((2, 0, 4))).shape == (2, 0, 3)
    assert net(mx.zeros((2, 3, 4))).shape == (2, 3, 3)
    with pytest.raises(ValueError, match="at least the input and the output"):
        nn.FullyConnectedNet([4], "silu")


def test_fully_connected_net_keeps_the_variance():
    mx.random.seed(1)
    net = nn.FullyConnectedNet([64, 256, 256, 256], "silu", variance_in=4.0, variance_out=0.25)
    out = np.array(
        net(2 * mx.array(np.random.default_rng(0).standard_normal((400, 64)), mx.float32))
    )
    assert 0.2 < out.var() < 0.3


@pytest.mark.parametrize("random_rot", [False, True])
@pytest.mark.parametrize(("irreps", "act"), [("0e+1o+2e", "tanh"), ("0o+1e+2o", "abs")])
def test_s2_activation_is_equivariant_up_to_its_grid(irreps, act, random_rot):
    smooth = kernels.tanh if act == "tanh" else lambda x: x * x
    layer = nn.S2Activation(irreps, smooth, 40, random_rot=random_rot, lmax_out=3)
    x = 0.3 * numbers(0, 4, 9)
    for improper in (False, True):
        R = rotation(3, improper)
        turned = layer(x @ layer.irreps_in.D_from_matrix(R).T)
        assert close(turned, layer(x) @ layer.irreps_out.D_from_matrix(R).T, 1e-5)


def test_s2_and_so3_activation_of_a_linear_function_give_the_input():
    x = numbers(0, 3, 9)
    s2 = nn.S2Activation("0e+1o+2e", lambda x: x, 20, act_normalization="none")
    assert close(s2(x), x, 1e-12)
    x = numbers(0, 3, 10)
    so3 = nn.SO3Activation(1, 1, lambda x: x, 6, act_normalization="none")
    assert close(so3(x), x, 1e-12)


def test_s2_activation_errors():
    with pytest.raises(ValueError, match="neither even nor odd"):
        nn.S2Activation("0o+1e", "silu", 10)
    with pytest.raises(ValueError, match="no signal on the sphere"):
        nn.S2Activation("0e+2x1o", "tanh", 10)
    with pytest.raises(ValueError, match="no signal on the sphere"):
        nn.S2Activation("0e+1o+2o", "tanh", 10)


def test_so3_activation_is_equivariant_up_to_its_grid():
    """A rotated signal: degree l has (2l+1) columns of multiplicity 2l+1, each of irrep l."""
    layer = nn.SO3Activation(1, 2, "tanh", 12)
    irreps_in, irreps_out = ("+".join(f"{2 * l + 1}x{l}e" for l in range(n + 1)) for n in (1, 2))
    x, R = 0.3 * numbers(0, 4, 10), rotation(5, False)
    turned = layer(x @ o3.Irreps(irreps_in).D_from_matrix(R).T)
    assert close(turned, layer(x) @ o3.Irreps(irreps_out).D_from_matrix(R).T, 1e-4)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), improper=st.booleans())
def test_dropout_and_extraction_are_equivariant(seed, improper):
    irreps = o3.Irreps("2x1o+3x0e+1x0o+1x2e")
    x, R = numbers(seed, 5, irreps.dim), rotation(seed, improper)
    turned = x @ irreps.D_from_matrix(R).T
    dropout = nn.Dropout(irreps, 0.5)
    mx.random.seed(seed)
    first = dropout(x)
    mx.random.seed(seed)
    assert close(dropout(turned), first @ irreps.D_from_matrix(R).T)
    extract = nn.Extract(irreps, ["1x2e+2x1o", "3x0e"], [[3, 0], [1]])
    for got, plain, out in zip(extract(turned), extract(x), extract.irreps_outs, strict=True):
        assert close(got, plain @ out.D_from_matrix(R).T)
