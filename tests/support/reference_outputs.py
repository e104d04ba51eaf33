"""Comparisons with what other programs gave for structures; where large data lies."""

from __future__ import annotations

import json
import os
from pathlib import Path

import mlx.core as mx
import numpy as np

from mlpot import derivatives, graph
from mlpot.elements import atomic_number
from mlpot.models import Potential

FIXTURES = Path(__file__).parents[1] / "fixtures"
#: Published weights, which are not part of this repository: the folder that MLPOT_SHARED_DATA
#: names, else shared/data beside the repository. Without it, tests that need it are left out.
SHARED = Path(os.environ.get("MLPOT_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")


def check_outputs(
    potential: Potential, file: Path, dtype: mx.Dtype = mx.float32, centred: bool = False
) -> None:
    """Energies to 2e-6 eV per atom relative to their size, forces 2e-5 eV/A, stress 2e-6 eV/A^3.

    Nequix and NequIP round positions to float32 where they lie, as mlpot does; SevenNet takes their
    differences in float64 first. ``centred`` moves structures to the origin, near which float32
    positions are so fine that forces of 11 eV/A at stretched bonds do not feel it.
    The references are of float32, and in float32 both roundings are in the same places, so float64
    is allowed twice as much.
    """
    slack = 2 if dtype == mx.float64 else 1
    reference = json.loads(file.read_text())
    with mx.stream(mx.cpu):
        potential.set_dtype(dtype)
        for name, entry in reference.items():
            numbers = entry.get("numbers") or [atomic_number(s) for s in entry["symbols"]]
            positions = np.array(entry["positions"])
            atoms = graph.build(
                numbers,
                positions - positions.mean(axis=0) if centred else positions,
                np.array(entry["cell"]),
                True,
                cutoff=potential.cutoff,
                dtype=dtype,
            )
            results = derivatives.energy_forces_stress(potential, atoms)
            size = max(1.0, abs(entry["energy"]) / len(numbers))
            error = abs(results.energy[0] - entry["energy"]) / len(numbers)
            assert error <= slack * 2e-6 * size, (name, results.energy[0], entry["energy"])
            np.testing.assert_allclose(
                np.array(results.forces), entry["forces"], rtol=0, atol=slack * 2e-5, err_msg=name
            )
            if "stress_voigt" in entry:
                assert results.stress is not None
                voigt = np.array(results.stress)[0].ravel()[[0, 4, 8, 5, 2, 1]]
                np.testing.assert_allclose(
                    voigt, entry["stress_voigt"], rtol=0, atol=slack * 2e-6, err_msg=name
                )
    assert reference
