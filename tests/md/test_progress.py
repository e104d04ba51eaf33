"""The bar of a staged run ends where the run ends."""

from __future__ import annotations

import re
from io import StringIO

from embedded_atoms import EmbeddedAtoms
from rich.console import Console
from sample_potentials import copper

from mlpot.md import launch
from mlpot.md.ase_bridge import to_structure
from mlpot.md.config import MDConfig, Stage


def test_the_bar_is_full_when_a_minimisation_ends_early(tmp_path, monkeypatch):
    potential = EmbeddedAtoms(numbers=(13, 29), cutoff=4.0)
    monkeypatch.setattr(launch, "_model", lambda config, structure: (potential, None))
    config = MDConfig(
        model="metal",
        struct="copper",
        out=str(tmp_path / "run"),
        stages=[Stage(ensemble="minimise", steps=500, fmax=0.05), Stage(ensemble="nve", steps=7)],
        log_interval=50,
        block=7,
    )
    shown = StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    done = launch.start_run(config, to_structure(copper(1)), console=console)["steps_done"]
    assert 7 < done < 500 and done % 50  # not all steps taken, and the last one is not logged
    counts = re.findall(r"(\d+)/(\d+)", shown.getvalue())
    assert counts[-1] == (str(done), str(done))
    assert counts[0][1] == "507"
