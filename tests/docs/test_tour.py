"""The commands of ./scripts/quickstart, in small."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import page_files
import page_follower
import yaml
from documentation import ROOT

sys.path.append(str(ROOT / "scripts"))
import tour


def test_every_step_of_the_tour_runs(tmp_path):
    page_files.prepare(tmp_path, "README.md")
    trained = (tmp_path / tour.MODEL).read_bytes()
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / tour.MODEL).unlink()
    for step in tour.STEPS:
        command = page_follower.smaller(shlex.join(step.command))
        ended = subprocess.run(
            shlex.split(command),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=os.environ | {"PATH": paths},
        )
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        if step.command[1] == "train":
            assert (tmp_path / tour.MODEL).is_file()
            # What the whole training gives, for the steps that follow.
            (tmp_path / tour.MODEL).write_bytes(trained)
    pictures = {path.name for path in (tmp_path / tour.RUN).rglob("*.png")}
    assert pictures >= {"curves.png", "parity.png", "rdf.png", "copper-phonons.png"}


def test_the_tour_trains_what_ships():
    (training,) = [step for step in tour.STEPS if step.command[:2] == ["mlpot", "train"]]
    keys = yaml.safe_load((ROOT / training.command[2]).read_text())
    assert (ROOT / training.command[2]).parent.joinpath(keys["train_file"]).is_file()
