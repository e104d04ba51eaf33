"""Shipped potentials for vibrations have the frequencies that the documentation says."""

from __future__ import annotations

import json

import pytest
import xtb_frequencies
from documentation import ROOT

REPORT = json.loads((ROOT / "evals/results/xtb-frequencies.json").read_text())
ROWS = {row["molecule"]: row for row in REPORT["rows"]}


@pytest.mark.parametrize(("name", "mean", "largest"), [("water", 5, 10), ("ethanol", 20, 60)])
def test_shipped_potentials(name, mean, largest):
    reference = json.loads(xtb_frequencies.FIXTURE.read_text())[xtb_frequencies.MOLECULES[name]]
    row = xtb_frequencies.compare(name, ROOT / "models" / f"{name}.safetensors", reference)
    assert row["converged"] and row["mean_absolute_per_cm"] < mean
    assert row["largest_per_cm"] < largest
    assert row["bond_lengths_angstrom"] < 3e-3
    assert row["model_per_cm"] == pytest.approx(ROWS[name]["model_per_cm"], abs=0.5)
    assert row["xtb_per_cm"] == pytest.approx(ROWS[name]["xtb_per_cm"], abs=0.02)


def test_the_page_says_what_was_measured():
    page = (ROOT / "docs/second_derivatives.md").read_text()
    for name, row in ROWS.items():
        zero = row["zero_point_meV"]
        cells = [
            name,
            f"{row['mean_absolute_per_cm']:.1f}",
            f"{row['largest_per_cm']:.1f}",
            f"{row['bond_lengths_angstrom']:.4f}",
            f"{zero['xtb']:.1f}, {zero['model']:.1f}",
        ]
        assert f"| {' | '.join(cells)} |" in page
