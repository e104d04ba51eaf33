"""``mlpot train``, ``resume`` and ``eval`` as commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from morse_frames import E0, morse_frames
from training_runs import write_config, write_data

import mlpot
from mlpot import datasets
from mlpot.cli import app
from mlpot.models import Potential, PotentialConfig
from mlpot.training import load_config


def run(*words) -> subprocess.CompletedProcess:
    """A process of its own: without the checks of annotations, which make steps slow."""
    return subprocess.run(
        [sys.executable, "-m", "mlpot.cli.app", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run that learnt something, and what was printed."""
    folder = tmp_path_factory.mktemp("trained")
    write_data(folder, 40, crystals=True)
    datasets.write(folder / "test.xyz", morse_frames(6, seed=9, crystals=True))
    config = write_config(folder, max_num_epochs=40, test_file="test.xyz", lr=0.03)
    result = run("train", config)
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def errors_in(folder) -> dict:
    rows = json.loads((folder / "errors.json").read_text())["rows"]
    return {(row["set"], row["model"], row["config_type"]): row for row in rows}


def test_learns_what_ships_with_the_project(tmp_path):
    ethanol = Path(__file__).parents[2] / "datasets" / "ethanol.h5"
    frames = datasets.read(ethanol)
    isolated = [frame for frame in frames if frame.n_atoms == 1]
    molecules = [frame for frame in frames if frame.n_atoms == 9]
    datasets.write(tmp_path / "train.h5", [*molecules[::8], *isolated])
    datasets.write(tmp_path / "test.h5", molecules[4::40])
    sizes = {"channels": 8, "layers": 1, "lmax": 1, "radial_neurons": [32]}
    config = write_config(
        tmp_path, model=sizes, r_max=5.0, max_num_epochs=30, lr=0.02, test_file="test.h5"
    )
    result = run("train", config)
    assert result.returncode == 0, result.stderr
    rows = errors_in(tmp_path / "run")
    for name in ("train", "valid", "test"):
        model, baseline = rows[name, "model", "all"], rows[name, "mean-only", "all"]
        assert model["rmse"]["forces"] < 0.5 * baseline["rmse"]["forces"]
        assert model["rmse"]["energy"] < 0.5 * baseline["rmse"]["energy"]


def test_leaves_its_files(trained):
    folder, printed = trained
    out = folder / "run"
    rows = errors_in(out)
    assert rows["test", "model", "cluster"]["n_frames"] == 3
    files = "best.safetensors last.safetensors last.previous.safetensors metrics.csv report.html "
    files += "curves.png parity.png config.yaml split.json statistics.json errors.csv errors.json"
    assert {file.name for file in out.iterdir()} == set(files.split())
    assert load_config(out / "config.yaml") == load_config(folder / "config.yaml")
    assert mlpot.load(out / "best.safetensors").config.E0s == E0
    split = json.loads((out / "split.json").read_text())
    assert (len(split["train"]), len(split["valid"])) == (30, 10)
    assert len({*split["train"], *split["valid"]}) == 40
    for word in ("30 frames", "epoch", "forces", "mean-only", "report.html", "left"):
        assert word in printed


def test_report_needs_no_other_file(trained):
    page = (trained[0] / "run" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    for word in ("mean-only", "cluster", "max_num_epochs: 40", "best epoch", "E0s", "Worst frames"):
        assert word in page


def test_eval_says_what_training_said(trained, tmp_path):
    folder, _ = trained
    model, data = folder / "run" / "best.safetensors", folder / "test.xyz"
    result = run("eval", model, data, "--out", tmp_path / "errors", "--batch-size", "4")
    assert result.returncode == 0, result.stderr
    assert "mean-only" in result.stdout
    assert {file.name for file in (tmp_path / "errors").iterdir()} == {
        "errors.csv",
        "errors.json",
        "errors.tex",
        "elements.csv",
        "parity.png",
    }
    found, expected = errors_in(tmp_path / "errors"), errors_in(folder / "run")
    for kind in ("all", "cluster", "crystal"):
        own, other = found["test", "best", kind], expected["test", "model", kind]
        assert own["n_labels"] == other["n_labels"]
        assert own["mae"] == pytest.approx(other["mae"], rel=1e-3)
        assert own["rmse"] == pytest.approx(other["rmse"], rel=1e-3)
    again = run("eval", model, data, "--out", tmp_path / "errors")
    assert again.returncode == 1
    assert "--overwrite" in again.stderr


def call(capsys, *words) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        app.main([str(word) for word in words])
    output = capsys.readouterr()
    return int(caught.value.code or 0), output.out, output.err


def test_an_untrained_model_is_visibly_worse(capsys, tmp_path):
    datasets.write(tmp_path / "data.xyz", morse_frames(4))
    potential = Potential(PotentialConfig(numbers=[2, 10], cutoff=4.0, E0s=E0, scale=3.0))
    mlpot.save(tmp_path / "new.safetensors", potential)
    out = tmp_path / "errors"
    code, _, message = call(
        capsys, "eval", tmp_path / "new.safetensors", tmp_path / "data.xyz", "--out", out
    )
    assert code == 0, message
    rows = errors_in(out)
    untrained, baseline = rows["data", "new", "all"], rows["data", "mean-only", "all"]
    assert untrained["rmse"]["energy"] > 2 * baseline["rmse"]["energy"]


def test_help_shows_every_key_and_schema_is_json(capsys):
    code, text, _ = call(capsys, "train", "--help")
    assert code == 0
    for word in ("--overwrite", "r_max", "scheduler.warmup_epochs", "keys.energy_key", "Angstrom"):
        assert word in text
    code, text, _ = call(capsys, "train", "--schema")
    assert code == 0
    assert json.loads(text)["properties"]["r_max"]["unit"] == "Angstrom"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "none.yaml"), "'none.yaml' does not exist"),
        (("train", "typo.yaml"), "did you mean 'forces_weight'"),
        (("train", "nodata.yaml"), "nowhere.xyz"),
        (("resume", "."), "holds no run"),
        (("eval", "none.safetensors", "data.xyz"), "none.safetensors"),
        (("eval", "broken.safetensors", "data.xyz"), "broken.safetensors"),
        (("eval", "ok.safetensors", "nowhere.xyz"), "nowhere.xyz"),
        (("eval", "ok.safetensors", "argon.xyz"), "argon.xyz:0: .*does not know Ar"),
        (("eval", "ok.safetensors", "bare.xyz"), "no frame of bare has an energy"),
        (("eval", "ok.safetensors", "data.xyz", "--energy-key", "Energie"), "Energie"),
        (("eval", "ok.safetensors", "data.xyz", "--energy-unit", "ev/atom"), "ev/atom"),
        (("eval", "ok.safetensors", "data.xyz", "--dtype", "half"), "'half'"),
    ],
)
def test_mistakes(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, "typo.yaml", forces_wieght=1)
    write_config(tmp_path, "nodata.yaml", train_file="nowhere.xyz")
    potential = Potential(PotentialConfig(numbers=[2, 10], cutoff=4.0, E0s=E0))
    mlpot.save(tmp_path / "ok.safetensors", potential)
    (tmp_path / "broken.safetensors").write_bytes(b"x" * 100)
    datasets.write(tmp_path / "data.xyz", morse_frames(2))
    bare = datasets.Frame([2, 2], [[0, 0, 0], [3.0, 0, 0]])
    datasets.write(tmp_path / "bare.xyz", [bare])
    argon = datasets.Frame([18, 18], [[0, 0, 0], [3.0, 0, 0]], energy=1.0)
    datasets.write(tmp_path / "argon.xyz", [argon])
    before = sorted(tmp_path.iterdir())
    code, _, error = call(capsys, *words)
    assert code == 1
    assert re.search(message, error), error
    assert "Traceback" not in error
    assert sorted(tmp_path.iterdir()) == before
