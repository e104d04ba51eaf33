"""Times of a potential: what is timed, sizes, files, refusals."""

from __future__ import annotations

import json

import mlx.core as mx
import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

import mlpot
from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.cli.app import main
from mlpot.workflows.bench import crystal_of, repeated

QUIET = Console(quiet=True)


class Counts(MLPotCalculator):
    """Remembers what it was asked for."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen: list[tuple[str, int, bytes]] = []

    def calculate(self, atoms=None, properties=("energy",), system_changes=()):
        self.seen.append(("forces", len(atoms), atoms.positions.tobytes()))
        super().calculate(atoms, properties, system_changes)

    def get_hvp(self, atoms, vector):
        self.seen.append(("product", len(atoms), atoms.positions.tobytes()))
        return super().get_hvp(atoms, vector)


def test_every_call_is_of_other_positions(tmp_path):
    calc = Counts(EmbeddedAtoms(cutoff=4.0), dtype="float64")
    cell = bulk("Cu", cubic=True)
    before = cell.positions.copy()
    found = workflows.bench(calc, cell, (30, 5, 8), seconds=1e-3, out=tmp_path, console=QUIET)
    assert [row.n_atoms for row in found.rows] == [8, 32]  # 5 and 8 atoms are the same cell
    np.testing.assert_array_equal(cell.positions, before)
    for kind in ("forces", "product"):
        for row in found.rows:
            calls = [places for what, n, places in calc.seen if (what, n) == (kind, row.n_atoms)]
            assert len(calls) >= 9 and len(set(calls)) == len(calls)
    for row in found.rows:
        assert row.forces_range_ms[0] <= row.forces_ms <= row.forces_range_ms[1]
        assert row.product_ms > 0 and row.first_s > 0 and row.peak_megabytes > 0
        assert row.ns_per_day(2.0) == pytest.approx(172.8 / row.forces_ms)
    data = json.loads((tmp_path / "Cu4-bench.json").read_text())
    assert [row["n_atoms"] for row in data["rows"]] == [8, 32]
    assert data["about"]["dtype"] == "float64" and "mlx " in data["about"]["versions"]
    assert (tmp_path / "Cu4-bench.png").stat().st_size > 5_000
    with pytest.raises(ValueError, match="exists already"):
        workflows.bench(calc, cell, (8,), out=tmp_path, console=QUIET)


def test_a_size_that_does_not_fit_ends_the_list(monkeypatch):
    class Full(Counts):
        def calculate(self, atoms=None, properties=("energy",), system_changes=()):
            if len(atoms) > 8:
                raise RuntimeError("[malloc] Unable to allocate 1 bytes.")
            super().calculate(atoms, properties, system_changes)

    calc, said = Full(EmbeddedAtoms(cutoff=4.0)), Console(record=True, width=100)
    found = workflows.bench(
        calc, bulk("Cu", cubic=True), (8, 32, 100), products=False, seconds=1e-3, console=said
    )
    assert [row.n_atoms for row in found.rows] == [8] and found.rows[0].product_ms is None
    assert "32 atoms do not fit" in said.export_text()
    with pytest.raises(RuntimeError, match="Unable to allocate"):
        workflows.bench(calc, bulk("Cu", cubic=True), (32,), seconds=1e-3, console=QUIET)


def test_supercells():
    slab = bulk("Cu", cubic=True)
    slab.pbc = (True, True, False)
    assert len(repeated(slab, 30)) == 36 and repeated(slab, 30).cell.lengths()[2] < 4
    assert len(repeated(molecule("H2O"), 1000)) == 3
    assert len(repeated(bulk("Si", cubic=True), 64)) == 64
    assert crystal_of([1, 29]).get_chemical_symbols() == ["Cu"]
    with pytest.raises(ValueError, match="no crystal of H: give a structure"):
        crystal_of([1])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sizes": (0,)}, "size is 0"),
        ({"sizes": ()}, "size is 0"),
        ({"seconds": 0.0}, "seconds is 0.0"),
        ({"atoms": Atoms("U")}, "does not know U"),
    ],
)
def test_refusals(options, said):
    calc = MLPotCalculator(EmbeddedAtoms(cutoff=4.0))
    with pytest.raises(ValueError, match=said):
        workflows.bench(calc, **{"atoms": bulk("Cu"), **options}, console=QUIET)


def test_command(tmp_path, capsys):
    mx.random.seed(0)
    config = mlpot.models.PotentialConfig(
        numbers=[29], cutoff=4.0, model={"name": "v2106", "channels": 2, "layers": 1, "lmax": 1}
    )
    mlpot.save(tmp_path / "model.safetensors", mlpot.models.Potential(config))
    words = ["bench", "--model", str(tmp_path / "model.safetensors"), "--seconds", "0.01"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--atoms", "4", "--atoms", "8", "--out", str(tmp_path / "out")])
    assert ended.value.code == 0
    assert (tmp_path / "out" / "Cu-bench.json").exists()
    assert "energy + forces" in capsys.readouterr().out
