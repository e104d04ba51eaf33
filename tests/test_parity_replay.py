"""Replaying a case of evals/parity.py: right numbers pass, a planted fault is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent.parent / "evals" / "parity.py"


def store(path: Path, fault: str | None) -> None:
    """Squared norms of one vector: x.x, its gradient 2 v x and its slope 2 x.t, by hand."""
    x, t, v = np.array([1.0, -2.0, 0.5]), np.array([0.5, 1.0, 2.0]), np.array([3.0])
    case = {"op": "Norm", "spec": {"irreps_in": "1x1o", "squared": True}, "lead": []}
    numbers = {"value": [x @ x], "vjp_0": 2 * v * x, "jvp": [2 * x @ t]}
    if fault:
        numbers[fault] = np.array(numbers[fault]) * (1 + 1e-6)
    np.savez(
        path,
        case=json.dumps(case | {"seed": 0, "number": 0, "names": []}),
        inputs_0=x,
        tangents_0=t,
        cotangent=v,
        **{f"e3nn_{key}": number for key, number in numbers.items()},
    )


@pytest.mark.parametrize("fault", [None, "value", "vjp_0", "jvp"])
def test_replay_finds_a_fault(tmp_path, fault):
    path = tmp_path / "case.npz"
    store(path, fault)
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "--replay", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    assert result.returncode == (1 if fault else 0), result.stdout
    # A part in a million is beyond float64's tolerance and within float32's.
    assert result.stdout.splitlines()[-1] == ("fails in float64" if fault else "passes")
