"""The citation file is what its format wants, of this version."""

from pathlib import Path

import yaml

import mlpot


def test_citation_file_fits_the_package():
    data = yaml.safe_load((Path(__file__).resolve().parents[1] / "CITATION.cff").read_text())
    # What version 1.2.0 of the format requires.
    assert {"cff-version", "message", "title", "authors"} <= data.keys()
    assert data["version"] == mlpot.__version__
    assert data["license"] == "MIT"
    assert data["authors"] == [{"name": "The mlpot developers"}]
