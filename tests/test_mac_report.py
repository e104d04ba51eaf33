"""The report that users of Macs send back, on whatever machine the tests run."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/mac_report.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_one_file_with_all_parts_and_no_private_names(tmp_path):
    target = tmp_path / "report.zip"
    ended = report("--anyway", "--quick", "--out", str(target))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    with zipfile.ZipFile(target) as archive:
        texts = {
            name.removeprefix("mlpot-report/"): archive.read(name).decode()
            for name in archive.namelist()
        }
    summary = json.loads(texts["summary.json"])
    codes = {row["step"]: row["code"] for row in summary["steps"]}
    assert codes["doctor"] == codes["potentials"] == codes["benchmark"] == 0
    assert codes["gpu_check"] is None or summary["gpu"]
    potentials = json.loads(texts["potentials.json"])
    assert {row["what"] for row in potentials["float32"]} == {"energies", "forces", "stress", "HVP"}
    assert all(0 < row["error"] <= row["allowed"] for row in potentials["float32"])
    assert [row["check"] for row in potentials["battery"]] == ["forces", "rotation", "HVP"]
    rows = json.loads(texts["benchmark/report.json"])["rows"]
    assert any(row["case"] == "linear" and row["status"] == "ok" for row in rows)
    assert "MLX" in texts["doctor.txt"]
    for text in texts.values():
        assert str(ROOT) not in text
        assert str(Path.home()) not in text


@pytest.mark.skipif(sys.platform == "darwin", reason="it is a Mac")
def test_elsewhere_it_says_so(tmp_path):
    ended = report("--out", str(tmp_path / "report.zip"))
    assert ended.returncode == 2
    assert "this is no Mac" in ended.stderr
    assert "--anyway" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    ended = report("--anyway", "--out", str(tmp_path / "nowhere" / "report.zip"))
    assert ended.returncode == 2
    assert "nowhere" in ended.stderr
