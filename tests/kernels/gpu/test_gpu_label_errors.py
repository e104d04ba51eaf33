"""The loss and its gradient on an emulated GPU against plain MLX in float64."""

from __future__ import annotations

import importlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu

from mlpot.datasets import Frame, collate
from mlpot.kernels import gpu
from mlpot.training import Objective
from mlpot.training.config_sections import LossSection

module = importlib.import_module("mlpot.kernels.gpu.label_errors")
pytestmark = pytest.mark.emulated

WEIGHTS = {"energy": 2.0, "forces": 3.0, "stress": 5.0, "hvps": 7.0}
RNG = np.random.default_rng(0)


def frames(n: int = 5) -> list[Frame]:
    """More numbers than the threads of a block; some labels are missing."""

    def frame(k: int) -> Frame:
        size = 9 + 5 * k
        labels: dict[str, Any] = {"forces": RNG.normal(size=(size, 3)), "weight": 0.5 + k}
        if k % 2:
            labels = {"energy": float(k), "stress": RNG.normal(size=(3, 3)), "forces_weight": 2.0}
            labels["stress"] = labels["stress"] + labels["stress"].T
        if k == 2:
            labels |= {"energy": -3.0, "hvps": RNG.normal(size=(1, size, 3))}
            labels["hvp_vectors"] = RNG.normal(size=(1, size, 3))
        positions = 2.0 * np.arange(size)[:, None] * np.ones(3)
        return Frame(
            numbers=[2] * size, positions=positions, cell=99 * np.eye(3), pbc=True, **labels
        )

    return [frame(k) for k in range(n)]


@pytest.mark.parametrize("name", ["mse", "huber"])
@pytest.mark.parametrize("terms", ["energy forces", "energy forces stress hvps"])
def test_loss_and_gradient(terms, name):
    objective = Objective(LossSection(name=name, delta=0.7), WEIGHTS)
    given, rng = frames(), np.random.default_rng(3)
    graph, labels = collate(given, 4.0, mx.float32, pad=True)
    counts = 2.0 * np.array(objective.counts(labels))  # as with another part of the batch
    said: dict[str, Any] = {
        "interaction_energy": rng.normal(size=graph.n_graphs),
        "forces": rng.normal(size=(graph.n_atoms, 3)),
        "stress": rng.normal(size=(graph.n_graphs, 3, 3)),
        "hvps": rng.normal(size=(graph.n_atoms, 3)),
    }
    names = ["interaction_energy", *terms.split()[1:]]
    if "stress" not in names:
        said |= {"stress": None, "hvps": None}

    def results(dtype: mx.Dtype):
        labels = collate(given, 4.0, dtype, pad=True)[1]
        arrays = [mx.array(said[name], dtype=dtype) for name in names]
        weights = mx.array(list(WEIGHTS.values()), dtype=dtype)

        def loss(*values):
            result: Any = SimpleNamespace(**(said | dict(zip(names, values, strict=True))))
            value, sums = objective.loss_and_sums(
                result, labels, result.hvps, mx.array(counts, dtype=dtype), weights
            )
            return 0.5 * value, sums

        numbers = tuple(range(len(names)))
        (value, sums), slopes = mx.value_and_grad(loss, argnums=numbers)(*arrays)
        mx.eval(value, sums, slopes)
        return value, sums, slopes

    with emulated_gpu() as device:
        value, sums, slopes = results(mx.float32)
    assert device.kernels == ["label_errors", "label_errors_adjoint"]
    with mx.stream(mx.cpu):
        wanted, wanted_sums, wanted_slopes = results(mx.float64)
    assert_close(value, wanted, 1e-6)
    assert sums.shape == (4, 4)
    for row, wanted_row in zip(sums, wanted_sums, strict=True):
        assert_close(row, wanted_row, 1e-6)
    for slope, wanted_slope in zip(slopes, wanted_slopes, strict=True):
        assert_close(slope, wanted_slope, 1e-6)


def test_what_has_no_label_may_be_anything():
    objective = Objective(LossSection(), WEIGHTS)
    _, labels = collate(frames(), 4.0, mx.float32, pad=True)
    forces = labels.forces + mx.where(labels.forces_mask[:, None], 0.0, mx.nan)
    energy = labels.energy + mx.where(labels.energy_mask, 0.0, mx.nan)
    ones = mx.ones((4,))

    def loss(energy, forces):
        result: Any = SimpleNamespace(interaction_energy=energy, forces=forces, stress=None)
        return objective.loss_and_sums(result, labels, None, ones, ones)

    with emulated_gpu() as device:
        (value, _), slopes = mx.value_and_grad(loss, argnums=(0, 1))(energy, forces)
        mx.eval(value, slopes)
    assert len(device.kernels) == 2
    assert float(np.array(value)) == 0.0
    assert not any(np.array(slope).any() for slope in slopes)


def test_numbers_of_labels_are_those_of_the_masks():
    _, labels = collate(frames(), 4.0, mx.float32, pad=True)
    objective = Objective(LossSection(), WEIGHTS)
    from_masks = objective.counts(replace(labels, known=None))
    assert labels.known is not None
    assert np.array_equal(np.array(objective.counts(labels)), np.array(from_masks))
    assert not np.array(objective.counts(labels.unknown())).any()


def test_terms_that_are_too_large(monkeypatch):
    with emulated_gpu():
        values, floats = [mx.zeros((4, 3)), mx.zeros((1,))], [mx.zeros((1,))]
        monkeypatch.setattr(module, "MOST", 12)
        assert gpu.label_errors_refusal(values, floats) is None
        monkeypatch.setattr(module, "MOST", 11)
        assert "12 numbers (the most is 11)" in str(gpu.label_errors_refusal(values, floats))
