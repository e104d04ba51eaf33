"""Energy and forces of a whole potential on an emulated GPU against float64 on the CPU."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu
from seeds import generator

from mlpot import derivatives, graph, kernels, models
from mlpot.kernels.edge_tangents import moved_edges

pytestmark = pytest.mark.emulated

NUMBERS = np.array([8, 1, 1, 8])
POSITIONS = np.array([[0, 0, 0.1], [0.9, 0.2, 0], [-0.3, 1.0, 0], [0.5, 0.4, 2.1]])


def results(potential, dtype):
    structure = graph.build(NUMBERS, POSITIONS, cutoff=3.0, dtype=dtype)
    found = derivatives.energy_forces_stress(potential, structure, stress=False)
    mx.eval(found.interaction_energy, found.node_energies, found.forces)
    return found


def test_energy_and_forces():
    config = models.PotentialConfig(
        numbers=[1, 8],
        cutoff=3.0,
        avg_num_neighbors=3.0,
        model={"name": "v2106", "channels": 4, "layers": 1, "lmax": 1, "radial_neurons": [8]},
    )
    potential = models.Potential(config)
    with emulated_gpu() as device:
        kernels.clear_report()
        found = results(potential, mx.float32)
        report = kernels.report()
    potential.set_dtype(mx.float64)
    with kernels.use("reference"):
        wanted = results(potential, mx.float64)
    # Differences to isolated atoms, whose energies are of the order of 1 eV in float32.
    for name in ("interaction_energy", "node_energies"):
        error = np.array(getattr(found, name), np.float64) - np.array(getattr(wanted, name))
        assert np.abs(error).max() < 1e-6
    assert_close(found.forces, wanted.forces, 1e-5)
    ran = {choice.primitive.split(".")[0] for choice in report if choice.backend == "metal"}
    assert ran >= {"harmonics", "gather", "segment_sum", "block_linear", "gate", "length"}
    assert len(device.kernels) > 10


def test_products_with_few_moved_atoms():
    """Tangents of the edges of one atom alone, as rows of Hessians and phonons have them."""
    config = models.PotentialConfig(
        numbers=[1, 8],
        cutoff=1.5,
        avg_num_neighbors=2.0,
        model={"name": "v2106", "channels": 4, "layers": 1, "lmax": 1, "radial_neurons": [8]},
    )
    potential = models.Potential(config)
    rng = generator()
    chain = np.arange(8)[:, None] * [1.0, 0, 0] + rng.normal(scale=0.05, size=(8, 3))
    vectors = np.zeros((2, 8, 3))
    vectors[:, 2] = rng.normal(size=(2, 3))

    def products(dtype) -> np.ndarray:
        structure = graph.build(np.tile([8, 1], 4), chain, cutoff=1.5, dtype=dtype)
        with kernels.edge_tangents(structure.edges, vectors.any(axis=(0, 2))):
            assert moved_edges(structure.n_edges) is not None
        return derivatives.hvps(potential, structure, vectors, chunk=2)

    with emulated_gpu():
        kernels.clear_report()
        found = products(mx.float32)
        report = kernels.report()
    with kernels.use("reference"):
        plain = products(mx.float32)
        potential.set_dtype(mx.float64)
        wanted = products(mx.float64)
    # Some weights and positions lose more digits than others in any float32 arithmetic.
    allowed = max(2e-5 * np.abs(wanted).max(), 3 * np.abs(plain - wanted).max())
    assert np.abs(found - wanted).max() < allowed
    ran = {c.primitive: c.calls for c in report if c.backend == "metal"}
    assert any(name.startswith(("radial_convolution", "convolution")) for name in ran)
