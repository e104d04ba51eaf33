"""``mlpot md``: a run with a potential, and errors in one message."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from ase import Atoms
from ase.build import molecule
from ase.io import read, write
from typer.testing import CliRunner

import mlpot
from mlpot.cli import app
from mlpot.config import load_yaml
from mlpot.md.config import MDConfig
from mlpot.md.h5md import read_h5md
from mlpot.models import Potential, PotentialConfig, V2106Config

SCRIPTS = Path(__file__).parents[2] / "md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small untrained potential of H and O, water and methane."""
    place = tmp_path_factory.mktemp("md")
    backbone = V2106Config(channels=2, layers=1, lmax=1, number_of_basis=4, radial_neurons=[4])
    potential = Potential(PotentialConfig(numbers=[1, 8], cutoff=3.0, model=backbone))
    mlpot.save(place / "model.safetensors", potential)
    write(place / "water.xyz", molecule("H2O"))
    write(place / "methane.xyz", molecule("CH4"))
    (place / "broken.xyz").write_text("3\n\nH 0 0\n")
    return place


def words(folder, **changes) -> list[str]:
    options = {
        "model": folder / "model.safetensors",
        "struct": folder / "water.xyz",
        "out": folder / "out",
        "steps": 10,
        "timestep": 0.2,
        "log-interval": 5,
        **changes,
    }
    return ["md", *(word for name, value in options.items() for word in (f"--{name}", str(value)))]


def refused(capsys, line: list[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        app.main(line)
    assert caught.value.code == 1
    message = capsys.readouterr().err
    assert "Traceback" not in message and "not expected" not in message
    return message


@pytest.mark.parametrize("ensemble", ["nve", "langevin"])
def test_run_and_its_files(folder, tmp_path, ensemble):
    line = words(folder, out=tmp_path / "run", ensemble=ensemble)
    result = CliRunner().invoke(app.app, line)
    assert result.exit_code == 0, result.output
    assert "3 atoms, 10 steps" in result.output
    assert "drift of the conserved quantity" in result.output
    assert len((tmp_path / "run" / "log.csv").read_text().splitlines()) == 4
    assert len(read_h5md(tmp_path / "run" / "trajectory.h5")["step"]) == 3
    again = CliRunner().invoke(app.app, line)
    assert again.exit_code != 0 and "holds results already" in str(again.exception)
    assert CliRunner().invoke(app.app, [*line, "--overwrite"]).exit_code == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ensemble": "nvt"}, "stages.0.ensemble: Input should be 'nve', 'langevin'"),
        ({"ensemble": "npt"}, "three periodic directions"),
        ({"timestep": 0}, "timestep: Input should be greater than 0 (got 0.0)"),
        ({"steps": 0}, "stages.0.steps: Input should be greater than or equal to 1 (got 0)"),
        ({"trajectory": "frames.dcd"}, "frames.dcd"),
        ({"struct": "nowhere.xyz"}, "nowhere.xyz"),
        ({"model": "nowhere.safetensors"}, "nowhere.safetensors"),
        ({"dtype": "float16"}, "float16"),
        ({"feature-dtype": "float8"}, "'float32', 'float16' or 'bfloat16'"),
        ({"feature-dtype": "float16", "dtype": "float64"}, "needs dtype: float32"),
        ({"index": 4}, "has no structure 4"),
        ({"replicas": 2, "trajectory": "t.traj"}, "2 replicas: give a name that ends in .h5"),
        ({"replicas": 3, "trajectory": "t.extxyz"}, "3 replicas: give a name that ends in .h5"),
        ({"trajectory": "final.extxyz"}, "the run writes another file of that name"),
        ({"trajectory": "Last_Good.extxyz"}, "the run writes another file of that name"),
        ({"trajectory": "uncertain.extxyz"}, "give another name, e.g. trajectory.extxyz"),
        ({"trajectory": ".traj"}, "give a plain file name"),
        ({"seed": 99999999999999999999}, "seed: Input should be less than or equal to"),
        ({"ensemble": "langevin", "friction": 5000}, "must be less than one inverse time step"),
        ({"out": ""}, "out: String should have at least 1 character"),
        ({"skin": 1e6}, "skin: Input should be less than or equal to 5"),
        ({"memory-limit": 1e300}, "memory_limit: Input should be less than or equal to 1000000"),
        ({"replicas": 10**9}, "1000000000 replicas of 3 atoms are more than 100,000,000 atoms"),
        ({"timestep": -1}, "timestep: Input should be greater than 0 (got -1.0)"),
        ({"timestep": "nan"}, "timestep: Input should be a finite number (got nan)"),
        ({"timestep": 100}, "timestep: a time step may have 50 fs at most: give 0.5 fs where"),
        ({"steps": -5}, "stages.0.steps: Input should be greater than or equal to 1 (got -5)"),
        ({"temperature": -300}, "temperature: Input should be greater than or equal to 0 (got -3"),
        ({"temperature": "inf"}, "temperature: Input should be a finite number (got inf)"),
        ({"replicas": 0}, "replicas: Input should be greater than or equal to 1 (got 0)"),
        ({"replicas": -2}, "replicas: Input should be greater than or equal to 1 (got -2)"),
        ({"ensemble": "bussi", "tau": 0}, "stages.0.tau: Input should be greater than 0 (got 0.0)"),
        ({"ensemble": "bussi", "tau": 1e-4}, "stage 'bussi': tau 0.0001 ps is not longer than the"),
        ({"ensemble": "nose-hoover", "tau": 0.0002}, "ten time steps at least"),
        ({"ensemble": "npt", "pressure": "nan"}, "stages.0.pressure: Input should be a finite"),
        (
            {"ensemble": "npt", "pressure": 101325},
            "stages.0.pressure: a pressure may have 1000 GPa",
        ),
        ({"ensemble": "npt", "tau-pressure": 1e-4}, "give 1 ps, or ten time steps at least"),
    ],
)
def test_wrong_options(folder, capsys, tmp_path, changes, said):
    assert said in refused(capsys, words(folder, **{"out": tmp_path / "new", **changes}))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("replicas: 1.5", "replicas: Input should be a valid integer"),
        ("stages: [{timestep: 100}]", "stages.0.timestep: a time step may have 50 fs at most"),
        ("stages: [{steps: 10.5}]", "stages.0.steps: Input should be a valid integer"),
        ("stages: [{ensemble: bussi, timestep: 5, tau: 0.004}]", "tau 0.004 ps is not longer than"),
        ("stages: [{ensemble: bussi, temperature: -5}]", "needs a temperature above 0 K (got -5)"),
        ("stages: []", "stages: List should have at least 1 item"),
        ("timestep: fast", "timestep: Input should be a valid number"),
    ],
)
def test_wrong_values_in_a_file(folder, capsys, tmp_path, line, said):
    path = tmp_path / "run.yaml"
    path.write_text(f"{{model: m.safetensors, struct: s.xyz, out: new, {line}}}")
    assert said in refused(capsys, ["md", str(path)])
    assert not (tmp_path / "new").exists()


def test_features_of_16_bits(folder, tmp_path):
    energies = []
    for dtype in ("float32", "bfloat16"):
        line = words(folder, out=tmp_path / dtype, **{"feature-dtype": dtype})
        assert CliRunner().invoke(app.app, line).exit_code == 0
        rows = (tmp_path / dtype / "log.csv").read_text().splitlines()
        names, first = rows[0].split(","), rows[1].split(",")
        energies.append(float(first[names.index("potential_eV")]))
    assert 0 < abs(energies[1] - energies[0]) < 0.1 * abs(energies[0])


def test_configuration_file(folder, capsys, tmp_path):
    text = """
model: model.safetensors
struct: water.xyz
out: staged
timestep: 0.2
log_interval: 4
stages:
  - {ensemble: minimise, steps: 8}
  - {name: warm, ensemble: bussi, steps: 8, temperature: [100, 300]}
"""
    path = folder / "run.yaml"
    path.write_text(text)
    result = CliRunner().invoke(app.app, ["md", str(path), "--seed", "5", "--overwrite"])
    assert result.exit_code == 0, result.output
    assert (folder / "staged" / "log.csv").read_text().count(",warm,") == 2
    assert '"seed": 5' in (folder / "staged" / "config.json").read_text()
    assert "change them there" in refused(capsys, ["md", str(path), "--steps", "9"])
    assert "begins where it ended with --struct" in refused(
        capsys, ["md", "--resume", str(folder / "staged")]
    )
    again = ["md", "--resume", str(folder / "staged"), "--seed", "3"]
    assert "nothing else but --timestep, --max-temperature" in refused(capsys, again)
    path.write_text(text.replace("ensemble: bussi", "ensembel: bussi"))
    assert "did you mean 'ensemble'" in refused(capsys, ["md", str(path)])
    assert "give --struct, --out" in refused(capsys, ["md", "--model", "m.safetensors"])


def test_shipped_configuration_is_valid():
    config = load_yaml(SCRIPTS / "staged.yaml", MDConfig)
    assert [stage.label for stage in config.stages] == ["relax", "heat", "equilibrate", "produce"]


def test_wrong_structures(folder, capsys, tmp_path):
    broken = words(folder, struct=folder / "broken.xyz", out=tmp_path / "new")
    assert "cannot be read" in refused(capsys, broken)
    methane = words(folder, struct=folder / "methane.xyz", out=tmp_path / "new")
    assert "C" in refused(capsys, methane)
    nothing, flat, lost = (molecule("H2O") for _ in range(3))
    del nothing[:]
    flat.pbc, flat.cell = True, [5.0, 5.0, 0.0]
    lost.positions[1, 2] = float("nan")
    dummy = Atoms("HX", positions=[[0, 0, 0], [0, 0, 1.5]])
    for atoms, said in (
        (nothing, "the structure has no atoms"),
        (flat, "periodic along c but that lattice vector is zero"),
        (lost, "position of atom 1 is not finite: [0.0, 0.763239, nan]"),
        (dummy, "atom 1 has atomic number 0"),
    ):
        write(tmp_path / "odd.xyz", atoms, format="extxyz")
        line = words(folder, struct=tmp_path / "odd.xyz", out=tmp_path / "new")
        assert said in refused(capsys, line)
    light = molecule("H2O", masses=[16.0, 1.0, 0.0])
    write(tmp_path / "light.traj", light)
    line = words(folder, struct=tmp_path / "light.traj", out=tmp_path / "new")
    assert "atom 2 has mass 0.0: every atom needs a positive mass" in refused(capsys, line)
    assert not (tmp_path / "new").exists()


def test_what_is_no_configuration(folder, capsys, tmp_path):
    said = refused(capsys, ["md", str(tmp_path)])
    assert "is a folder, not a YAML file; to go on with the run in it: mlpot md --resume" in said
    (tmp_path / "many.xyz").write_text("word " * 10_000)
    said = refused(capsys, ["md", str(tmp_path / "many.xyz")])
    assert "must hold keys and values, not str: 'word word" in said and len(said) < 400


@pytest.mark.parametrize("script", ["nve", "langevin"])
def test_scripts_run(folder, tmp_path, monkeypatch, capsys, script):
    files = [str(folder / "model.safetensors"), str(folder / "water.xyz")]
    frames = tmp_path / "frames.traj"
    arguments = [*files, "--steps", "20", "--timestep", "0.2", "--trajectory", str(frames)]
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(str(SCRIPTS / f"{script}.py"), run_name="__main__")
    assert len(read(frames, ":")) == 3
    assert ("drift" in capsys.readouterr().out) == (script == "nve")


def test_interruption_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(folder, console, changes):
        raise KeyboardInterrupt

    monkeypatch.setattr("mlpot.md.launch.resume_run", interrupted)
    (tmp_path / "restart.npz").write_bytes(b"")
    with pytest.raises(SystemExit) as caught:
        app.main(["md", "--resume", str(tmp_path)])
    assert caught.value.code == 130
    assert f"mlpot md --resume {tmp_path}" in capsys.readouterr().err
