"""Each tutorial runs in its small form, prints sound results and leaves its picture.

Published potentials are used where this machine has them already and never downloaded here.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import pytest

TUTORIALS = Path(__file__).resolve().parents[1] / "tutorials"

pytestmark = pytest.mark.tutorial


def run(name: str, out: Path, *arguments: str, **environment: str) -> str:
    """What a tutorial prints, in its small form."""
    command = [sys.executable, str(TUTORIALS / f"{name}.py"), "--small", "--out", str(out)]
    quiet = {key: value for key, value in os.environ.items() if key != "MLPOT_FETCH"}
    ended = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, env=quiet | environment
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def number(text: str, before: str) -> float:
    """The number that follows some words in what was printed."""
    found = re.search(re.escape(before) + r"\s*(-?\d+(\.\d+)?(e[+-]?\d+)?)", text)
    assert found is not None, f"{before!r} is not in:\n{text}"
    return float(found[1])


def assert_picture(path: Path) -> None:
    """There is a picture, and something is drawn in it."""
    pixels = matplotlib.image.imread(path)
    assert min(pixels.shape[:2]) > 200
    assert pixels.std() > 0.02


def test_train_ethanol(tmp_path):
    printed = run("train_ethanol", tmp_path)
    assert number(printed, "energy RMSE") < 0.6 * number(printed, "the mean alone")
    assert number(printed, "force RMSE") < 0.5 * number(printed, "no forces")
    assert (tmp_path / "run" / "best.safetensors").is_file()
    assert_picture(tmp_path / "ethanol.png")


def test_phonons_of_a_crystal(tmp_path):
    printed = run("phonons_of_a_crystal", tmp_path)
    assert number(printed, "sum rule off by") < 1e-9
    if "potential: sevennet-0" in printed:
        # PBE: 5.69 Angstrom and 5.9 THz at L.
        assert 5.6 < number(printed, "lattice constant") < 5.8
        assert 5.0 < number(printed, "highest frequency") < 6.5
    else:
        # EMT: 3.59 Angstrom; neutrons see 7.3 THz in copper.
        assert "mlpot fetch sevennet-0" in printed
        assert 3.5 < number(printed, "lattice constant") < 3.7
        assert 6.0 < number(printed, "highest frequency") < 9.0
    assert number(printed, "heat capacity at 300 K") < number(printed, "classical")
    assert_picture(tmp_path / "phonons.png")


def test_a_name_that_is_no_potential_is_an_error(tmp_path):
    with pytest.raises(AssertionError, match="did you mean the published potential sevennet-0"):
        run("phonons_of_a_crystal", tmp_path, "--model", "sevenet-0")
    assert not (tmp_path / "phonons.png").exists()
