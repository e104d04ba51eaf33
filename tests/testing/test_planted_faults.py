"""Every check sees the fault it is there for."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from mlpot import derivatives, kernels
from mlpot.kernels.backend import chosen
from mlpot.models import Potential, PotentialConfig, V2106Config
from mlpot.testing import CHECKS, available_backends, run_battery

_CONFIG = PotentialConfig(
    numbers=[1, 8],
    cutoff=3.0,
    model=V2106Config(channels=2, lmax=1, layers=1),
    zbl=False,
    avg_num_neighbors=30.0,
)


def _length(vectors):
    return kernels.lengths(vectors)


def _sum(values, graph):
    return kernels.segment_sum(values, graph.edges.receivers, graph.n_atoms)


def _window(vectors):
    return mx.square(mx.square(mx.maximum(1.0 - mx.square(_length(vectors) / 3.0), 0.0)))


def field(own, graph, vectors):
    return 0.1 * graph.positions[:, 0]


def anisotropic(own, graph, vectors):
    return _sum(mx.square(vectors[:, 2]) * _window(vectors), graph)


def handed(own, graph, vectors):
    window = _window(vectors)[:, None]
    a, b, c = (_sum(vectors * window * f, graph) for f in (1.0, window, window * window))
    return mx.sum(a * mx.linalg.cross(b, c), axis=-1)


def step(own, graph, vectors):
    return 0.1 * _sum((_length(vectors) < 3.0).astype(vectors.dtype), graph)


def kink(own, graph, vectors):
    return 0.1 * _sum(mx.maximum(3.0 - _length(vectors), 0.0), graph)


def curvature(own, graph, vectors):
    return 0.1 * _sum(mx.square(mx.maximum(3.0 - _length(vectors), 0.0)), graph)


def interior_step(own, graph, vectors):
    return 0.1 * _sum((_length(vectors) < 2.2).astype(vectors.dtype), graph)


def by_index(own, graph, vectors):
    return own * mx.arange(graph.n_atoms).astype(own.dtype)


def leak(own, graph, vectors):
    return 0.1 * mx.mean(own)


def offset(own, graph, vectors):
    return mx.full(own.shape, 0.5, dtype=own.dtype)


def reference_inside(own, graph, vectors):
    return mx.full(own.shape, -1e5, dtype=own.dtype)


def small_cells(own, graph, vectors):
    return own / graph.n_atoms


def frozen(own, graph, vectors):
    return mx.stop_gradient(_sum(_window(vectors), graph))


def polar(own, graph, vectors):
    flat = vectors[:, 0] * vectors[:, 0] + vectors[:, 2] * vectors[:, 2]
    return _sum(mx.sqrt(flat) * _window(vectors), graph)


@mx.custom_function
def _square(x):
    return mx.square(mx.stop_gradient(x))


@_square.vjp
def _(x, cotangent, _output):
    return cotangent * _double(x)


@mx.custom_function
def _double(x):
    return 2.0 * mx.stop_gradient(x)


@_double.vjp
def _(x, cotangent, _output):
    return cotangent * 2.0


@_double.jvp
def _(x, tangent):
    return (tangent[0] if isinstance(tangent, (list, tuple)) else tangent) * 2.1


def wrong_forward_rule(own, graph, vectors):
    return _sum(_square(_window(vectors)), graph)


def wrong_image(own, graph, vectors):
    return 0.01 * mx.square(graph.positions[:, 0] - mx.mean(graph.positions[:, 0]))


FAULTS = {
    field: {"forces", "rotation", "translation"},
    anisotropic: {"rotation", "axes"},
    handed: {"reflection"},
    step: {"continuity"},
    kink: {"continuity"},
    curvature: {"continuity"},
    interior_step: {"continuity"},
    by_index: {"permutation", "batch"},
    leak: {"no leaks", "batch", "padding"},
    offset: {"isolated atom", "beyond cutoff", "padding"},
    reference_inside: {"isolated atom", "float32 noise"},
    small_cells: {"supercell", "distant atom"},
    frozen: {"forces", "stress"},
    polar: {"axes"},
    wrong_forward_rule: {"derivative modes", "Hessian"},
    wrong_image: {"lattice translation"},
}
BESIDE = {"backends", "HVP"}  # tested below, each in its own way


def faulty(term) -> Potential:
    class Faulty(Potential):
        def node_energies(self, graph, vectors=None):
            vectors = graph.edge_vectors() if vectors is None else vectors
            own = super().node_energies(graph, vectors)
            return own + term(own, graph, vectors)

    mx.random.seed(0)
    return Faulty(_CONFIG)


def failures(potential, checks=None, backend="reference") -> dict[str, str]:
    found = run_battery(potential, checks, [backend])
    return {r.check: r.message for r in found if not r.passed}


@pytest.mark.parametrize("term", FAULTS, ids=lambda f: f.__name__)
def test_fault_is_seen(term):
    seen = failures(faulty(term), sorted(FAULTS[term]))
    assert set(seen) == FAULTS[term]
    assert all(any(c.isdigit() for c in message) for message in seen.values())


def test_handedness_only_breaks_reflection():
    assert failures(faulty(handed), ["rotation", "forces", "translation"]) == {}


def test_every_check_has_a_fault():
    assert set.union(BESIDE, *FAULTS.values()) == set(CHECKS)


def _changed(monkeypatch, **change):
    right = derivatives.energy_forces_stress

    def wrong(*args, **kwargs):
        results = right(*args, **kwargs)
        return replace(results, **{k: f(getattr(results, k)) for k, f in change.items()})

    monkeypatch.setattr(derivatives, "energy_forces_stress", wrong)


def test_wrong_sign_of_the_stress_is_seen(monkeypatch):
    _changed(monkeypatch, stress=lambda s: -s)
    zero = faulty(lambda own, graph, vectors: 0.0 * own)
    assert set(failures(zero, ["stress", "rotation"])) == {"stress"}


def test_one_wrong_component_of_the_stress_is_seen(monkeypatch):
    weights = mx.array(np.where(np.eye(3)[[1, 0, 2]] > 0, 2.0, 1.0))
    _changed(monkeypatch, stress=lambda s: s * weights)
    zero = faulty(lambda own, graph, vectors: 0.0 * own)
    assert "stress" in failures(zero, ["stress"])


def test_forces_of_twice_the_size_are_seen(monkeypatch):
    _changed(monkeypatch, forces=lambda f: 2 * f)
    zero = faulty(lambda own, graph, vectors: 0.0 * own)
    assert set(failures(zero, ["forces", "Hessian"])) == {"forces", "Hessian"}


def test_wrong_product_is_seen(monkeypatch):
    right = derivatives.hvp
    monkeypatch.setattr(derivatives, "hvp", lambda p, g, v: 1.001 * right(p, g, v))
    zero = faulty(lambda own, graph, vectors: 0.0 * own)
    assert set(failures(zero, ["HVP", "derivative modes"])) == {"HVP", "derivative modes"}


def test_differing_kernels_are_seen(monkeypatch):
    monkeypatch.setattr("mlpot.testing.batching.available_backends", lambda: ["reference", "auto"])
    term = lambda own, graph, vectors: own * (1e-3 if chosen() == "auto" else 0.0)  # noqa: E731
    message = failures(faulty(term), ["backends"])["backends"]
    assert "auto" in message and "reference" in message
    assert "reference" in available_backends()
