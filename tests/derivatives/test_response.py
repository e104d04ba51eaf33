"""Directional responses and tangent dynamics against differences, in float64."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from small_potentials import make_crystal, make_potential

from mlpot import derivatives, graph, kernels
from mlpot.models import Potential, PotentialConfig
from mlpot.units import FS

NAME = "network.embedding.weight"


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def potential_of(name: str) -> Potential:
    mx.random.seed(6)
    model = {"name": name, "channels": 4, "lmax": 1, "layers": 1, "radial": "exact"}
    config = {"numbers": [1, 6, 8], "cutoff": 3.0, "model": model}
    potential = Potential(PotentialConfig.model_validate(config))
    potential.set_dtype(mx.float64)
    return potential


@pytest.fixture(scope="module")
def two():
    """A batch: a crystal and a molecule without a cell."""
    atoms = make_crystal(3)
    one = graph.build(
        atoms.numbers, atoms.positions, atoms.cell.array, True, cutoff=3.0, dtype=mx.float64
    )
    other = graph.build(
        [6, 8, 1], [[0, 0, 0], [1.2, 0.1, 0], [0.3, 1.0, 0.4]], cutoff=3.0, dtype=mx.float64
    )
    with mx.stream(mx.cpu):
        return graph.batch([one, other])


def outputs(potential, present) -> dict[str, np.ndarray]:
    lazy = derivatives.energy_forces_stress(potential, present)
    return {
        "energy": np.array(lazy.interaction_energy),
        "node_energies": np.array(lazy.node_energies),
        "forces": np.array(lazy.forces),
        "stress": np.array(lazy.stress),
        "descriptors": np.array(potential.descriptors(present)),
    }


def slopes(function, step: float = 2e-4) -> dict[str, np.ndarray]:
    """Derivatives at 0 by differences of fourth order."""
    at = {k: function(k * step) for k in (-2, -1, 1, 2)}
    return {
        name: (8 * (at[1][name] - at[-1][name]) - (at[2][name] - at[-2][name])) / (12 * step)
        for name in at[1]
    }


def assert_equal(found: derivatives.Response, expected: dict[str, np.ndarray]) -> None:
    for name, value in expected.items():
        scale = np.abs(value).max()
        assert scale > 0, name
        np.testing.assert_allclose(
            getattr(found, name), value, atol=2e-8 * scale, rtol=0, err_msg=name
        )


@pytest.mark.parametrize("name", ["v2106", "gate_points", "nequip"])
@pytest.mark.parametrize("kind", ["positions", "cells", "strain"])
def test_responses_to_the_structure(two, name, kind):
    potential, rng = potential_of(name), np.random.default_rng(1)
    shape = two.positions.shape if kind == "positions" else two.cells.shape
    direction = rng.normal(size=shape)
    if kind != "positions":
        direction[1] = 0.0 if kind == "cells" else direction[1]
    if kind == "strain":
        direction = 0.5 * (direction + direction.swapaxes(1, 2))

    def moved(t: float) -> dict[str, np.ndarray]:
        xyz, cells = np.array(two.positions), np.array(two.cells)
        if kind == "positions":
            xyz = xyz + t * direction
        elif kind == "cells":
            cells = cells + t * direction
        else:
            map_ = np.eye(3) + t * direction
            xyz = np.einsum("ni,nij->nj", xyz, map_[np.array(two.node_graph)])
            cells = cells @ map_
        now = replace(
            two,
            positions=mx.array(xyz, dtype=mx.float64),
            cells=mx.array(cells, dtype=mx.float64),
        )
        return outputs(potential, now)

    found = derivatives.response(potential, two, **{kind: direction}, descriptors=True)
    assert_equal(found, slopes(moved))
    assert np.all(found.stress[1] == 0)


def test_responses_to_parameters(two):
    potential = potential_of("v2106")
    weight = np.array(potential.network.embedding.weight)
    direction = np.random.default_rng(2).normal(size=weight.shape)

    def moved(t: float) -> dict[str, np.ndarray]:
        changed = potential_of("v2106")
        changed.network.embedding.weight = mx.array(weight + t * direction, dtype=mx.float64)
        mx.eval(changed.parameters())
        return outputs(changed, two)

    found = derivatives.response(potential, two, parameters={NAME: direction}, descriptors=True)
    assert_equal(found, slopes(moved))
    np.testing.assert_array_equal(np.array(potential.network.embedding.weight), weight)


def test_forces_answer_with_products_and_sums_add_up(two):
    potential, rng = potential_of("nequip"), np.random.default_rng(3)
    v = rng.normal(size=two.positions.shape)
    product = np.array(derivatives.hvp(potential, two, mx.array(v, dtype=mx.float64)))
    found = derivatives.response(potential, two, positions=v)
    np.testing.assert_allclose(found.forces, -product, atol=1e-12 * np.abs(product).max())
    assert found.descriptors is None
    strain = np.stack([np.diag([0.1, 0.0, -0.2])] * 2)
    both = derivatives.response(potential, two, positions=v, strain=strain)
    alone = derivatives.response(potential, two, strain=strain)
    np.testing.assert_allclose(both.energy, found.energy + alone.energy, atol=1e-12)


def test_general_and_kernel_paths_agree(two):
    potential, rng = make_potential(5, radial="exact"), np.random.default_rng(4)
    potential.set_dtype(mx.float64)
    strain = rng.normal(size=two.cells.shape)
    given = {"positions": rng.normal(size=two.positions.shape), "strain": strain + strain.mT}
    fast = derivatives.response(potential, two, **given, descriptors=True)
    with kernels.use("reference"):
        plain = derivatives.response(potential, two, **given, descriptors=True)
    for name in ("energy", "node_energies", "forces", "stress", "descriptors"):
        one, other = getattr(fast, name), getattr(plain, name)
        np.testing.assert_allclose(one, other, atol=1e-10 * np.abs(other).max())


def test_refusals(two):
    potential = potential_of("v2106")
    with pytest.raises(ValueError, match="no direction was given"):
        derivatives.response(potential, two)
    with pytest.raises(ValueError, match="the direction of positions has shape"):
        derivatives.response(potential, two, positions=np.ones((2, 3)))
    with pytest.raises(ValueError, match="not symmetric"):
        derivatives.response(potential, two, strain=np.triu(np.ones((2, 3, 3))))
    with pytest.raises(ValueError, match=r"no parameters \['embedding'\]"):
        derivatives.response(potential, two, parameters={"embedding": np.ones(3)})
    with pytest.raises(ValueError, match="has shape"):
        derivatives.response(potential, two, parameters={NAME: np.ones(1)})


def start() -> dict:
    atoms = make_crystal(3)
    rng = np.random.default_rng(5)
    return {
        "numbers": atoms.numbers,
        "positions": atoms.positions,
        "velocities": rng.normal(scale=0.01, size=(5, 3)),
        "masses": atoms.get_masses(),
        "cell": atoms.cell.array,
        "pbc": True,
        "timestep": 0.5,
    }


@pytest.mark.parametrize("kind", ["positions", "velocities"])
def test_tangents_are_derivatives_of_trajectories(kind):
    potential, given = potential_of("v2106"), start()
    direction = np.random.default_rng(6).normal(size=(5, 3))
    tangent = {"positions": "position_tangent", "velocities": "velocity_tangent"}[kind]
    found = derivatives.tangent_dynamics(potential, **given, steps=12, **{tangent: direction})

    def moved(t: float) -> dict[str, np.ndarray]:
        changed = given | {kind: given[kind] + t * direction}
        run = derivatives.tangent_dynamics(potential, **changed, steps=12, **{tangent: direction})
        return {"r": run.positions, "v": run.velocities}

    expected = slopes(moved, 1e-4 if kind == "positions" else 1e-5)
    for one, other in ((found.position_tangents, "r"), (found.velocity_tangents, "v")):
        scale = np.abs(expected[other]).max()
        np.testing.assert_allclose(one, expected[other], atol=1e-7 * scale)
    assert found.growth.shape == (12,)


def test_sensitivity_of_a_trajectory_to_parameters():
    potential, given = potential_of("v2106"), start()
    weight = np.array(dict(tree_flatten(potential.parameters()))[NAME])
    direction = np.random.default_rng(7).normal(size=weight.shape)
    found = derivatives.tangent_dynamics(potential, **given, steps=10, parameters={NAME: direction})

    def moved(t: float) -> dict[str, np.ndarray]:
        changed = potential_of("v2106")
        changed.network.embedding.weight = mx.array(weight + t * direction, dtype=mx.float64)
        mx.eval(changed.parameters())
        run = derivatives.tangent_dynamics(
            changed, **given, steps=10, position_tangent=np.ones((5, 3))
        )
        return {"r": run.positions, "v": run.velocities}

    expected = slopes(moved, 1e-4)
    assert np.abs(found.position_tangents[0]).max() == 0
    for one, other in ((found.position_tangents, "r"), (found.velocity_tangents, "v")):
        scale = np.abs(expected[other]).max()
        np.testing.assert_allclose(one, expected[other], atol=1e-7 * scale)


def test_lyapunov_exponent_of_an_unstable_pair():
    """Near the top of a barrier a displacement grows as exp(sqrt(-curvature / mass) t)."""

    class Hill(Potential):
        """e_i = -k/4 sum_j |r_ij - 1.5|^2: two atoms that repel each other from 1.5 A."""

        def __init__(self) -> None:
            super().__init__(PotentialConfig(numbers=[6], cutoff=4.0))

        def node_energies(self, graph, vectors=None):
            vectors = graph.edge_vectors() if vectors is None else vectors
            stretch = kernels.lengths(vectors) - 1.5
            return kernels.segment_sum(
                -0.5 * stretch * stretch, graph.edges.receivers, graph.n_atoms
            )

    hill = Hill()
    hill.set_dtype(mx.float64)
    pair = [[0.0, 0, 0], [1.5, 0, 0]]
    found = derivatives.tangent_dynamics(
        hill, [6, 6], pair, np.zeros((2, 3)), [12.0, 12.0], 0.2, 400,
        position_tangent=[[0.5, 0, 0], [-0.5, 0, 0]], normalize=True,
    )  # fmt: skip
    # E = -(d - 1.5)^2 per pair: d'' = 2 (d - 1.5) * 2 / m.
    rate = np.sqrt(4 / 12.0) * FS * 1e3
    assert found.lyapunov_exponent(skip=300) == pytest.approx(rate, rel=1e-3)
    sizes = np.linalg.norm(found.position_tangents[1:].reshape(400, -1), axis=1)
    assert sizes.max() < 1.0  # scaled back
    np.testing.assert_allclose(found.positions[-1], pair, atol=1e-9)


def test_refusals_of_tangent_dynamics():
    potential, given = potential_of("v2106"), start()
    run = derivatives.tangent_dynamics
    with pytest.raises(ValueError, match="no direction"):
        run(potential, **given, steps=1)
    with pytest.raises(ValueError, match="steps is 0"):
        run(potential, **given, steps=0, position_tangent=np.ones((5, 3)))
    with pytest.raises(ValueError, match="position_tangent has shape"):
        run(potential, **given, steps=1, position_tangent=np.ones(3))
    with pytest.raises(ValueError, match="5 positive numbers"):
        run(potential, **(given | {"masses": [1.0]}), steps=1, position_tangent=np.ones((5, 3)))
    with pytest.raises(ValueError, match="normalize=False"):
        run(potential, **given, steps=1, parameters={NAME: np.ones((4, 3))}, normalize=True)
