"""The NequIP family beyond what the battery checks of every backbone."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlpot import graph, o3
from mlpot.models import NequIPConfig, Potential, PotentialConfig, nequip
from mlpot.models.nequip import RadialBasis, RMSLayerNorm
from mlpot.testing import available_backends, run_battery

VARIANTS = {
    "both parities": {"parity": "both", "self_connection": "linear"},
    "Nequix": {"layer_norm": True, "embedding": False, "self_connection": "linear"},
    "SevenNet": {
        "parity": "even", "envelope": "xplor", "xplor_on": 2.5, "train_basis": True,
        "self_connection": "linear",
    },
}  # fmt: skip


def small(layers: int = 2, cutoff: float = 3.0, **options) -> Potential:
    mx.random.seed(layers)
    model = NequIPConfig(**{"channels": 4, "lmax": 2, "layers": layers, **options})
    return Potential(
        PotentialConfig(numbers=[1, 8], cutoff=cutoff, model=model, avg_num_neighbors=30.0)
    )


#: What differs between variants; the other checks run on the backbone as it is by default.
CHOSEN = ["forces", "stress", "rotation", "reflection", "supercell", "isolated atom", "continuity",
          "padding", "HVP", "derivative modes"]  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_pass_the_checks(variant):
    potential = small(**VARIANTS[variant])
    results = run_battery(potential, CHOSEN, backends=[available_backends()[-1]])
    assert [r.check for r in results] == CHOSEN
    assert [f"{r.check}: {r.message}" for r in results if not r.passed] == []


def test_only_even_harmonics_break_mirror_symmetry():
    # A handed invariant needs three vectors, one a layer.
    rng = np.random.default_rng(0)
    xyz = rng.uniform(-1.2, 1.2, (5, 3))
    difference = {}
    for parity in ("natural", "both", "even"):
        potential = small(layers=4, parity=parity)
        with mx.stream(mx.cpu):
            potential.set_dtype(mx.float64)
            energies = [
                potential.interaction_energy(
                    graph.build([1, 8, 1, 8, 1], x, cutoff=3.0, dtype=mx.float64)
                ).item()
                for x in (xyz, -xyz)
            ]
        difference[parity] = abs(energies[0] - energies[1]) / abs(energies[0])
        assert potential.mirror_symmetric == (parity != "even")
    assert difference["natural"] < 1e-12
    assert difference["both"] < 1e-12
    assert difference["even"] > 1e-6


def test_layer_norm_follows_its_equation():
    irreps = o3.Irreps("3x0e+2x1o+1x2e")
    norm = RMSLayerNorm(irreps)
    rng = np.random.default_rng(1)
    gammas = rng.normal(size=6)
    norm.weight = mx.array(gammas)
    x = rng.normal(size=(4, irreps.dim))
    blocks = [x[:, :3], x[:, 3:9], x[:, 9:]]
    square = sum((b**2).sum(axis=1) / (3 * d**2) for b, d in zip(blocks, (1, 3, 5), strict=True))
    # Component-major: the channels of a block follow each other.
    per_column = np.concatenate([gammas[:3], np.tile(gammas[3:5], 3), np.tile(gammas[5:], 5)])
    expected = x * per_column / np.sqrt(square + 1e-12)[:, None]
    np.testing.assert_allclose(np.array(norm(mx.array(x))), expected, rtol=2e-6)


def test_basis_follows_its_equation():
    r = np.linspace(0.2, 3.9, 9)
    n = np.arange(1, 5)
    waves = 2 / 4.0 * np.sin(n * np.pi / 4.0 * r[:, None]) / r[:, None]
    u = r / 4.0
    polynomial = 1 - 28 * u**6 + 48 * u**7 - 21 * u**8
    on, rc = 3.0, 4.0
    xplor = (rc**2 - r**2) ** 2 * (rc**2 + 2 * r**2 - 3 * on**2) / (rc**2 - on**2) ** 3
    xplor = np.where(r < on, 1.0, xplor)
    for options, envelope in (
        ({}, polynomial),
        ({"train_basis": True}, polynomial),
        ({"envelope": "xplor", "xplor_on": on}, xplor),
    ):
        basis = RadialBasis(NequIPConfig(number_of_basis=4, **options), 4.0)
        with mx.stream(mx.cpu):
            basis.set_dtype(mx.float64)
            found = np.array(basis(mx.array(r, dtype=mx.float64)))
        tolerance = 1e-6 if "train_basis" in options else 1e-13
        np.testing.assert_allclose(found, waves * envelope[:, None], rtol=0, atol=tolerance)


def test_trained_frequencies_are_weights_and_fixed_ones_are_not():
    def names(potential):
        return {name for name, _ in tree_flatten(potential.parameters())}

    assert names(small(train_basis=True)) - names(small()) == {"network.basis.frequencies"}


def test_irreps_can_be_given():
    potential = small(irreps="6x0e+4x1o+2x2e", lmax=2)
    assert str(potential.network.layers[0].irreps_out) == "6x0e+4x1o+2x2e"
    assert str(potential.network.layers[-1].irreps_out) == "6x0e"


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="xplor_on belongs to envelope"):
        NequIPConfig(envelope="xplor")
    with pytest.raises(ValueError, match="xplor_on belongs to envelope"):
        NequIPConfig(xplor_on=3.0)
    with pytest.raises(ValueError, match="less than the cutoff"):
        small(envelope="xplor", xplor_on=3.0)
    with pytest.raises(ValueError, match="no 0e channels"):
        NequIPConfig(irreps="4x1o")


@pytest.mark.parametrize("options", [{}, {"radial_neurons": [8, 8, 8]}])
def test_radial_networks_together(options, monkeypatch):
    """As on GPUs: energies, gradients of slopes to weights, and products are the same."""
    rng = np.random.default_rng(1)
    one = graph.build([1, 8, 1, 8], rng.uniform(-1.2, 1.2, (4, 3)), cutoff=3.0, dtype=mx.float64)
    found = []
    for device in (mx.cpu, mx.gpu):
        potential = small(layers=3, radial="exact", **options)
        with mx.stream(mx.cpu):
            potential.set_dtype(mx.float64)
            parameters = potential.trainable_parameters()

            def loss(parameters, potential=potential):
                potential.update(parameters)
                slope = mx.grad(lambda r: potential.node_energies(one, r).sum())
                return (slope(one.edge_vectors()) ** 2).sum()

            with monkeypatch.context() as patch:
                patch.setattr(nequip.mx, "default_device", lambda device=device: mx.Device(device))
                assert len(potential.network._together(one.n_edges)) == (
                    3 if device == mx.gpu else 0
                )
                assert not potential.network._together(10**6)
                value, slopes = mx.value_and_grad(loss)(parameters)
            mx.eval(value, slopes)
        found.append([np.array(array) for _, array in tree_flatten(slopes)] + [np.array(value)])
    assert np.abs(found[0][-1]).max() > 1e-6
    for plain, together in zip(*found, strict=True):
        np.testing.assert_allclose(together, plain, rtol=1e-9, atol=1e-11 * np.abs(plain).max())


def test_basis_scale_is_a_factor_of_what_enters_the_radial_networks():
    scaled, plain = small(basis_scale=8.0), small()
    weights = dict(tree_flatten(plain.parameters()))
    first = [name for name in weights if name.endswith("radial.layer0.weight")]
    assert len(first) == 2
    xyz, numbers = np.random.default_rng(1).uniform(-1.2, 1.2, (5, 3)), [1, 8, 1, 8, 1]
    energies = []
    with mx.stream(mx.cpu):
        for factor, potential in ((1.0, scaled), (8.0, plain), (1.0, plain)):
            own = weights | {name: factor * weights[name] for name in first}
            potential.load_weights(list(own.items()))
            potential.set_dtype(mx.float64)
            atoms = graph.build(numbers, xyz, cutoff=3.0, dtype=mx.float64)
            energies.append(potential.interaction_energy(atoms).item())
    assert energies[0] == pytest.approx(energies[1], rel=1e-12)
    assert energies[0] != pytest.approx(energies[2], rel=1e-2)
