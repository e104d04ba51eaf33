"""The loss against sums written out in numpy."""

from __future__ import annotations

from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest

from mlpot.datasets import Frame, collate
from mlpot.training import Objective
from mlpot.training.config_sections import LossSection
from mlpot.training.objective import errors

WEIGHTS = {"energy": 2.0, "forces": 3.0, "stress": 5.0}


def frames() -> list[Frame]:
    """Three frames with different labels and weights."""
    rng = np.random.default_rng(1)

    def frame(n: int, **labels) -> Frame:
        positions = 2.0 * np.arange(n)[:, None] * np.ones(3)
        return Frame(numbers=[2] * n, positions=positions, cell=30 * np.eye(3), pbc=True, **labels)

    return [
        frame(2, energy=1.5, forces=rng.normal(size=(2, 3)), weight=2.0),
        frame(3, energy=-0.5, stress=np.diag([0.1, 0.2, 0.3]), energy_weight=0.5),
        frame(1, forces=rng.normal(size=(1, 3)), stress=np.eye(3), forces_weight=4.0),
    ]


def predictions(n_atoms: int, n_graphs: int) -> SimpleNamespace:
    rng = np.random.default_rng(2)
    return SimpleNamespace(
        interaction_energy=rng.normal(size=n_graphs),
        forces=rng.normal(size=(n_atoms, 3)),
        stress=rng.normal(size=(n_graphs, 3, 3)),
    )


def sums_of(objective: Objective, pad: bool) -> np.ndarray:
    graph, labels = collate(frames(), 4.0, mx.float64, pad=pad)
    said = predictions(graph.n_atoms, graph.n_graphs)
    small = predictions(6, 3)
    for name, values in vars(said).items():
        values[: len(vars(small)[name])] = vars(small)[name]
    result = SimpleNamespace(**{k: mx.array(v, dtype=mx.float64) for k, v in vars(said).items()})
    with mx.stream(mx.cpu):
        return np.array(objective.sums(result, labels))


def expected_loss(penalty) -> float:
    a, b, c = frames()
    said = predictions(6, 3)
    energy = 2.0 * penalty((said.interaction_energy[0] - 1.5) / 2)
    energy += 0.5 * penalty((said.interaction_energy[1] + 0.5) / 3)
    forces = 2.0 * penalty(said.forces[:2] - a.forces).sum()
    forces += 4.0 * penalty(said.forces[5:] - c.forces).sum()
    stress = penalty(said.stress[1] - b.stress).sum() + penalty(said.stress[2] - np.eye(3)).sum()
    return 2.0 * energy / 2 + 3.0 * forces / 9 + 5.0 * stress / 18


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("name", ["mse", "huber"])
def test_loss(name, pad):
    delta = 0.7

    def penalty(error):
        error = np.abs(error)
        if name == "mse":
            return error**2
        return np.where(error <= delta, error**2, delta * (2 * error - delta))

    objective = Objective(LossSection(name=name, delta=delta), WEIGHTS)
    sums = sums_of(objective, pad)
    assert objective.total(sums) == pytest.approx(expected_loss(penalty), rel=1e-12)
    loss = float(np.array(objective.loss(mx.array(sums, dtype=mx.float64))))
    assert loss == pytest.approx(expected_loss(penalty), rel=1e-12)


def test_errors_count_only_labels():
    found = errors(sums_of(Objective(LossSection(), WEIGHTS), pad=True))
    a, _, c = frames()
    said = predictions(6, 3)
    parts = [(said.forces[:2] - a.forces).ravel(), (said.forces[5:] - c.forces).ravel()]
    error = np.concatenate(parts)
    assert found["forces_mae"] == pytest.approx(np.abs(error).mean(), rel=1e-12)
    assert found["forces_rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-12)


def test_no_labels_no_errors():
    assert set(errors(np.zeros((4, 4))).values()) == {None}


def test_what_has_no_label_may_be_anything():
    objective = Objective(LossSection(), WEIGHTS)
    graph, labels = collate(frames(), 4.0, mx.float32, pad=False)
    forces = labels.forces + mx.where(labels.forces_mask[:, None], 0.0, mx.nan)
    stress = labels.stress + mx.where(labels.stress_mask[:, None, None], 0.0, mx.nan)
    energy = labels.energy + mx.where(labels.energy_mask, 0.0, mx.nan)
    result = SimpleNamespace(interaction_energy=energy, forces=forces, stress=stress)
    assert objective.total(np.array(objective.sums(result, labels))) == 0.0
    assert graph.n_graphs == 3
