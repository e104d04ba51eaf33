"""Files of older versions: runs go on, models load.

``fixtures/run_version_1`` was written by mlpot before steps were recorded, Hessian-vector products
counted, and stages known: a run of three epochs that was stopped after step 4 (last.safetensors,
metrics.csv, best.safetensors), and the metrics of one that was not stopped (expected.csv).
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

import mlpot
from mlpot import derivatives, graph, training
from mlpot.training.run_folder import COLUMNS, read_rows

#: What the old version said about the molecule below.
ENERGY = -11.002131384098902
FORCE = [0.0017586809117347002, 0.001708829659037292, 0.00026289690867997706]

FIXTURE = Path(__file__).parents[1] / "fixtures" / "run_version_1"


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_goes_on(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(FIXTURE / "train.h5", tmp_path)
    shutil.copy(FIXTURE / "metrics.csv", run)
    for name in ("last", "best"):
        # The file names of the data were those of another machine.
        arrays, metadata = mx.load(str(FIXTURE / f"{name}.safetensors"), return_metadata=True)
        moved = {key: text.replace("FOLDER", str(tmp_path)) for key, text in metadata.items()}
        mx.save_safetensors(str(run / f"{name}.safetensors"), arrays, moved)
    found = training.resume(run)
    assert found.reason == "3 epochs done"
    expected, own = rows(FIXTURE / "expected.csv"), read_rows(run / "metrics.csv")
    assert [row["epoch"] for row in own] == ["1", "2", "3"]
    assert tuple(own[0]) == COLUMNS
    for one, other in zip(own, expected, strict=True):
        for name, text in other.items():
            if name != "seconds":
                value = pytest.approx(float(text), rel=1e-3) if text else None
                assert (float(one[name]) if one[name] else None) == value, name


def test_a_model_loads():
    potential = mlpot.load(FIXTURE / "best.safetensors")
    atoms = graph.build([2, 10, 2], [[0, 0, 0], [2.3, 0, 0], [0, 2.6, 0.4]], cutoff=4.0)
    result = derivatives.energy_forces_stress(potential, atoms, stress=False)
    assert result.energy[0] == pytest.approx(ENERGY, abs=1e-5)
    np.testing.assert_allclose(np.array(result.forces)[0], FORCE, atol=1e-5)
