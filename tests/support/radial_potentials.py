"""Small potentials with radial tables and with the exact networks, and how far they are apart."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlpot import graph
from mlpot.models import Potential, PotentialConfig
from mlpot.models.radial_edges import RadialEdges, RadialEmbedding
from mlpot.models.radial_layers import radial_layers
from mlpot.models.radial_table import RadialTable

CUTOFF = 4.0
BACKBONES = {
    "v2106": {"name": "v2106"},
    "gate_points": {"name": "gate_points"},
    "nequip": {"name": "nequip", "radial_neurons": [16, 16]},
    "xplor": {"name": "nequip", "envelope": "xplor", "xplor_on": 3.1, "train_basis": True},
}


def potential(radial: str, name: str = "v2106", **changes) -> Potential:
    """A small potential in float64; the same weights whatever ``radial`` is."""
    sizes = {"channels": 4, "lmax": 1, "layers": 2, "radial": radial}
    mx.random.seed(11)
    own = Potential(
        PotentialConfig(
            numbers=[13, 29],
            cutoff=CUTOFF,
            model=BACKBONES[name] | sizes | changes,
            zbl=False,
            avg_num_neighbors=20.0,
        )
    )
    own.set_dtype(mx.float64)
    return own


def structure(dtype: mx.Dtype = mx.float64) -> graph.Graph:
    rng = np.random.default_rng(5)
    cell = 4.6 * np.eye(3) + rng.normal(scale=0.2, size=(3, 3))
    corners = [[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5], [0.4, 0.6, 0.5]]
    positions = np.array(corners) @ cell + rng.normal(scale=0.1, size=(5, 3))
    return graph.build([13, 29, 29, 13, 29], positions, cell, True, cutoff=CUTOFF, dtype=dtype)


def relative(found, expected) -> float:
    """Largest difference over largest value, which must not be nothing."""
    found, expected = np.array(found), np.array(expected)
    assert np.abs(expected).max() > 1e-4
    return np.abs(found - expected).max() / np.abs(expected).max()


def tables(own: Potential) -> list[RadialTable]:
    return [layer.radial_table for layer in radial_layers(own.network)]


def edges_of_kind(embedding: RadialEmbedding, length: mx.array, kind: int) -> RadialEdges:
    kinds = mx.full(length.shape, kind, dtype=mx.int32)
    return RadialEdges(embedding, length, "table", None if embedding.n_kinds == 1 else kinds)
