"""The benchmark's command line, and a small run of it with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import run
from benchmark.cases import NAMES, chosen
from benchmark.implementations import IMPLEMENTATIONS

SCRIPT = Path(run.__file__)


def test_smoke_runs_every_case_and_reports(tmp_path):
    """All cases with kernels on and off; torch rows too where MLPOT_TORCH_PYTHON names a Python."""
    command = [sys.executable, str(SCRIPT), "--preset", "smoke", "--out", str(tmp_path)]
    environment = {k: v for k, v in os.environ.items() if k != "MLPOT_KERNELS"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    rows = report["rows"]
    for name in ("mlpot-reference", "mlpot-kernels"):
        own = [row for row in rows if row["implementation"] == name]
        assert {row["case"] for row in own} == {n for n in NAMES if n != "cold_start"}
        assert all(row["status"] == "ok" and row["time_s"]["median"] > 0 for row in own)
    kernels = {
        path["backend"]
        for row in rows
        if row["implementation"] == "mlpot-kernels" and row["case"] == "convolution"
        for path in row["paths"]
    }
    reference = {
        path["backend"]
        for row in rows
        if row["implementation"] == "mlpot-reference"
        for path in row["paths"]
    }
    assert reference == {"reference"}
    assert kernels == {"native"}
    control = [entry for entry in report["control"] if entry["case"] == "matrix_product"]
    assert len(control) == 2
    assert all(entry["same_bits"] and not entry["backends"] for entry in control)
    listed = {row["implementation"] for row in rows}
    assert listed >= {n for n, i in IMPLEMENTATIONS.items() if "cpu" in i.devices}
    assert {p.name for p in tmp_path.iterdir()} == {
        *("report.json", "rows.csv", "report.html", "speedup.svg", "latency.svg")
    }


def test_cold_start_counts_from_the_start_of_the_process(tmp_path):
    command = [sys.executable, str(SCRIPT), "--preset", "full", "--case", "cold_start"]
    command += ["--implementation", "mlpot-kernels", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert len(row["seconds"]) == 3
    # The parts are those of the last process.
    assert row["seconds"][-1] > row["import_s"] + row["build_s"] + row["first_s"]


def test_memory_grows_with_the_atoms(tmp_path):
    command = [sys.executable, str(SCRIPT), "--memory", "--memory-limit", "0.1"]
    command += ["--implementation", "mlpot-kernels", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "report.json").read_text())["memory"]
    assert rows[-1]["status"] == "ok"
    assert rows[-1]["bytes_per_atom"] == round(rows[-1]["peak_bytes"] / rows[-1]["n_atoms"])
    # Node features alone: 2 x 9 x 32 numbers of 4 bytes.
    assert rows[-1]["bytes_per_atom"] > 2 * 9 * 32 * 4


def test_an_unknown_case_is_one_message(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", "--case", "nonsense"])
    assert run.main() == 2
    assert "nonsense" in capsys.readouterr().err


def test_peers_need_a_name_and_a_path(capsys):
    with pytest.raises(SystemExit):
        run.parse(["--peer-python", "nequip"])
    assert "NAME=PATH" in capsys.readouterr().err
    found = run.parse(["--peer-python", "mace=/some/python", "--torch-python", "t"])
    assert run.pythons(found) | {"mlpot": ""} == {
        "mlpot": "",
        "torch": "t",
        "mace": "/some/python",
        "nequip": sys.executable,
        "e3nn-mlx": sys.executable,
    }


def test_cases_can_be_chosen_by_their_sizes():
    found = chosen("full", ["potential:1000 atoms"], ["forces"])
    assert [(case.structure["n_atoms"], phases) for case, phases in found] == [(1000, ["forces"])]


def test_commands_in_reports_have_no_folders():
    words = ["/some/where/run.py", "--torch-python", "/opt/x/bin/python", "--peer-python=mace=/a/b"]
    assert run.shorten(words) == [
        *("evals/run.py", "--torch-python", "python", "--peer-python=mace=b")
    ]
