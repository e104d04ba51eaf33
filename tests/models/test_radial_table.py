"""Potentials with radial tables against the same potentials with the exact networks."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map
from radial_potentials import BACKBONES, CUTOFF, edges_of_kind, potential, relative, structure

from mlpot import derivatives, graph, models
from mlpot.models import Potential
from mlpot.models.radial_layers import radial_layers
from mlpot.models.radial_strategy import TOLERANCES
from mlpot.models.radial_table import interpolation_errors


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


@pytest.mark.parametrize("name", BACKBONES)
def test_energies_forces_and_products_are_those_of_the_exact_network(name):
    exact, own = potential("exact", name), potential("table", name)
    where = structure()
    direction = mx.array(np.random.default_rng(0).normal(size=(5, 3)), dtype=mx.float64)
    a, b = (derivatives.energy_forces_stress(p, where) for p in (exact, own))
    assert 0 < relative(b.node_energies, a.node_energies) < 1e-7
    assert 0 < relative(b.forces, a.forces) < 1e-6
    assert 0 < relative(b.stress, a.stress) < 1e-6
    products = [derivatives.hvp(p, where, direction) for p in (own, exact)]
    assert 0 < relative(*products) < 1e-5
    assert all(n > 0 for n in own.needed_radial_intervals())
    assert all(n == 0 for n in exact.needed_radial_intervals())


@pytest.mark.parametrize("name", BACKBONES)
def test_gradients_of_a_loss_are_those_of_the_exact_network(name):
    wanted = mx.array(np.random.default_rng(1).normal(size=(5, 3)), dtype=mx.float64)
    gradients = []
    for radial in ("exact", "table"):
        own = potential(radial, name)
        own.set_radial_intervals(own.needed_radial_intervals())

        def loss(where, own=own):
            result = derivatives.energy_forces_stress(own, where)
            squares = [(result.forces - wanted) ** 2, result.stress**2, result.node_energies**2]
            return sum(s.sum() for s in squares)

        found = mlx.nn.value_and_grad(own, loss)(structure())[1]
        gradients.append({k: np.array(g) for k, g in tree_flatten(found)})
    exact, own = gradients
    radial_weights = [k for k in exact if ".fc." in k or ".radial." in k or "frequencies" in k]
    assert len(radial_weights) >= 4
    for key in exact:
        size = np.abs(exact[key]).max()
        assert size > 0 or key not in radial_weights
        assert np.abs(own[key] - exact[key]).max() <= 1e-5 * size, key


def test_forces_and_products_are_derivatives_of_the_tabulated_energy():
    own, where = potential("table"), structure()
    rng = np.random.default_rng(2)
    u, v = (mx.array(rng.normal(size=(5, 3)), dtype=mx.float64) for _ in range(2))

    def forces(step):
        moved = where.positions + step * v
        return mx.grad(lambda x: own.node_energies(where, where.edge_vectors(x)).sum())(moved)

    def energy(step):
        moved = where.edge_vectors(where.positions + step * v)
        return own.node_energies(where, moved).sum().item()

    h = 1e-4
    slope = (energy(-2 * h) - 8 * energy(-h) + 8 * energy(h) - energy(2 * h)) / (12 * h)
    assert (forces(0) * v).sum().item() == pytest.approx(slope, rel=1e-7)
    change = (forces(-2e-4) - 8 * forces(-1e-4) + 8 * forces(1e-4) - forces(2e-4)) / 1.2e-3
    product = derivatives.hvp(own, where, v)
    assert relative(product, change) < 1e-6
    a, b = (product * u).sum().item(), (derivatives.hvp(own, where, u) * v).sum().item()
    assert abs(a - b) < 1e-12 * np.abs(np.array(product)).max() * 5


@pytest.mark.parametrize("name", BACKBONES)
def test_interpolated_weights_between_the_knots(name):
    """At random distances, not those where the error is estimated, down to r = 0."""
    own = potential("table", name)
    embedding = own.network.radial
    r = np.sort(np.random.default_rng(3).uniform(0, CUTOFF, 500))
    x = mx.array(r, dtype=mx.float64)
    for layer, n in zip(radial_layers(own.network), own.needed_radial_intervals(), strict=True):
        network = layer.radial_network
        grid = embedding.grid(n)
        errors = interpolation_errors(network, embedding, grid)
        assert all(e <= t for e, t in zip(errors, TOLERANCES, strict=True))
        # Halving the number must not do, or the choice would not follow the error.
        coarse = interpolation_errors(network, embedding, embedding.grid(n // 2))
        assert any(e > t for e, t in zip(coarse, TOLERANCES, strict=True))

        def exact(q, network=network):
            return network(embedding.for_every_kind(q))

        def table(q, layer=layer, network=network):
            kinds = []
            for kind in range(embedding.n_kinds):
                edges = edges_of_kind(embedding, q, kind)
                powers, rows, first, _ = layer.radial_table.weights(network, edges)
                kinds.append(sum(powers[:, m : m + 1] * rows[first + m] for m in range(6)))
            return mx.concatenate(kinds)

        for order, tolerance in enumerate(TOLERANCES):
            f, g = exact, table
            for _ in range(order):
                f, g = along(f), along(g)
            # The estimate is of the largest error to leading order.
            assert relative(g(x), f(x)) < 1.5 * tolerance


def along(f):
    """The derivative of a function of lengths by them."""
    return lambda q: mx.jvp(f, [q], [mx.ones_like(q)])[1][0]


def sharpen(own: Potential, factor: float, n: int = 1) -> None:
    """Multiply the first ``n`` columns of one layer's first matrix."""
    network = radial_layers(own.network)[1].radial_network
    network.layer0.weight[:, :n] *= factor
    mx.eval(network.layer0.weight)


def test_sharper_weights_get_finer_tables():
    own, exact = potential("table"), potential("exact")
    before = own.needed_radial_intervals()
    own.set_radial_intervals(before)
    sharpen(own, 30.0)
    sharpen(exact, 30.0)
    after = own.needed_radial_intervals()
    assert after[0] == before[0]
    assert after[1] > 2 * before[1]
    # Nobody has to ask: the table in use is as fine.
    forces = [derivatives.energy_forces_stress(p, structure()).forces for p in (own, exact)]
    assert relative(*forces) < 1e-6


def test_where_no_table_suffices_the_network_is_used():
    own, exact = potential("table"), potential("exact")
    for p in (own, exact):
        sharpen(p, 1e4, 100)
    assert own.needed_radial_intervals()[1] == 0
    own.set_radial_intervals(own.needed_radial_intervals())
    energies = [p.node_energies(structure()) for p in (own, exact)]
    assert relative(*energies) < 1e-7


def test_float32_is_as_close_to_float64_as_the_exact_network():
    distances = {}
    for radial in ("exact", "table"):
        own = potential(radial)
        double = derivatives.energy_forces_stress(own, structure()).forces
        own.set_dtype(mx.float32)
        single = derivatives.energy_forces_stress(own, structure(mx.float32)).forces
        distances[radial] = relative(single, double)
    assert distances["table"] < max(3 * distances["exact"], 2e-6)


def test_padding_edges_add_nothing():
    own, where = potential("table", "gate_points"), structure()
    padded = graph.pad(where, where.n_atoms + 3, where.n_edges + 40, 3)
    energies = np.array(own.node_energies(padded))
    np.testing.assert_allclose(energies[:5], np.array(own.node_energies(where)), rtol=1e-13)
    assert np.all(energies[5:] == 0)


def test_unknown_strategies_and_wrong_numbers_are_named():
    with pytest.raises(ValueError, match="radial"):
        potential("tabel")
    own = potential("table")
    for intervals in ([64], [64, 64, -1]):
        with pytest.raises(ValueError, match="one number, not negative, for each of the 3 layers"):
            own.set_radial_intervals(intervals)


@pytest.mark.parametrize(
    "network",
    [
        models.v2106.SimpleNetwork,
        models.v2103.SimpleNetwork,
        models.v2106.NetworkForAGraphWithAttributes,
    ],
)
def test_networks_of_e3nn_take_tables_too(network):
    """v2103's cosines have a kink every eleventh of the radius, where a knot must lie."""
    rng = np.random.default_rng(8)
    n, pairs = 6, np.array([(i, j) for i in range(6) for j in range(6) if i != j]).T
    data = {
        "pos": mx.array(rng.uniform(-1.3, 1.3, (n, 3)), dtype=mx.float64),
        "x": mx.array(rng.normal(size=(n, 2)), dtype=mx.float64),
        "node_attr": mx.array(rng.normal(size=(n, 1)), dtype=mx.float64),
        "edge_index": mx.array(pairs.astype(np.int32)),
        "edge_attr": mx.array(rng.normal(size=(pairs.shape[1], 6)), dtype=mx.float64),
    }
    arguments = {"max_radius": 2.5, "num_neighbors": 5.0, "num_nodes": n, "mul": 4, "layers": 1}
    if network is models.v2106.NetworkForAGraphWithAttributes:
        # Two channels of an edge attribute, which the weights are summed over.
        irreps = ("2x0e", "0e", "2x1o", "0e + 1o")
    else:
        irreps = ("2x0e", "0e + 1o")
    outputs = {}
    for radial in ("exact", "table"):
        mx.random.seed(4)
        own = network(*irreps, **arguments, lmax=1, radial=radial)
        # e3nn's alpha begins at zero, and with it all derivatives.
        own.update(tree_map(lambda w: mx.random.normal(w.shape), own.parameters()))
        own.set_dtype(mx.float64)
        mx.eval(own.parameters())

        def out(pos, own=own):
            return mx.square(own(data | {"pos": pos})).sum()

        gradient = mx.grad(out)
        product = mx.jvp(gradient, [data["pos"]], [data["pos"]])[1][0]
        outputs[radial] = own(data), gradient(data["pos"]), product
        kept = [layer.radial_table._kept._value for layer in radial_layers(own)]
        assert all((found is not None) == (radial == "table") for found in kept)
    for found, expected, tolerance in zip(
        outputs["table"], outputs["exact"], (1e-7, 1e-6, 1e-5), strict=True
    ):
        assert relative(found, expected) < tolerance
