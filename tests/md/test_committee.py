"""A committee that watches molecular dynamics: what it sees, keeps, stops, and leaves alone."""

from __future__ import annotations

import csv
import json

import mlx.core as mx
import numpy as np
import pytest
from ase.io import read
from embedded_atoms import EmbeddedAtoms
from sample_potentials import copper

import mlpot
from mlpot import derivatives, graph
from mlpot.cli.app import main
from mlpot.md import launch
from mlpot.md.ase_bridge import to_structure
from mlpot.md.committee_config import CommitteeSection
from mlpot.md.config import MDConfig, Stage
from mlpot.md.h5md import read_h5md
from mlpot.md.recording import Recording
from mlpot.md.stopped_run import StoppedRun
from mlpot.models import Potential, PotentialConfig, V2106Config

SOFTNESS = {"soft": 0.97, "right": 1.0, "hard": 1.03}


def metal(name: str, dtype: str = "float32") -> EmbeddedAtoms:
    potential = EmbeddedAtoms(cutoff=4.0, softness=SOFTNESS.get(name, 1.0))
    if dtype == "float64":
        potential.set_dtype(mx.float64)
    return potential


@pytest.fixture(autouse=True)
def models(monkeypatch):
    """In place of model files."""
    monkeypatch.setattr(
        launch, "_model", lambda config, _: (metal(config.model, config.dtype), None)
    )
    monkeypatch.setattr(launch.io, "model_paths", lambda name: [name])


def settings(out, committee=None, **changes) -> MDConfig:
    if committee is not None:
        committee = CommitteeSection(models=[*SOFTNESS], **committee)
    values = {
        "model": "right",
        "struct": "copper",
        "out": str(out),
        "stages": [Stage(ensemble="langevin", steps=60)],
        "timestep": 3.0,
        "temperature": 600.0,
        "restart_interval": 20,
        "block": 7,
        "committee": committee,
        **changes,
    }
    return MDConfig(**values)


def start(config, **named):
    return launch.start_run(config, to_structure(copper(1)), **named)


def rows(out) -> list[dict]:
    with open(out / "disagreement.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def spread_of(atoms, names=SOFTNESS) -> np.ndarray:
    """One structure by itself, in double precision."""
    forces = []
    with mx.stream(mx.cpu):
        for name in names:
            one = graph.build(
                *(atoms.numbers, atoms.positions, np.array(atoms.cell), atoms.pbc),
                cutoff=4.0,
                dtype=mx.float64,
            )
            found = derivatives.energy_forces_stress(metal(name, "float64"), one, stress=False)
            forces.append(np.array(found.forces))
    return np.sqrt(np.var(forces, axis=0).sum(axis=1))


@pytest.mark.parametrize("neighbors", ["host", "device"])
def test_uncertain_frames_are_kept_and_nothing_else_changes(tmp_path, neighbors):
    section = {"threshold": 1e-4, "interval": 5, "spacing": 20}
    summary = start(settings(tmp_path / "watched", section, replicas=2, neighbors=neighbors))
    start(settings(tmp_path / "alone", replicas=2, neighbors=neighbors))
    one, two = (
        read_h5md(tmp_path / n / "trajectory.h5", "replica_001") for n in ("watched", "alone")
    )
    np.testing.assert_array_equal(one["position"], two["position"])
    seen = rows(tmp_path / "watched")
    assert [int(row["step"]) for row in seen] == [s for s in range(5, 61, 5) for _ in range(2)]
    frames = read(tmp_path / "watched" / "uncertain.extxyz", ":")
    marks = [(atoms.info["step"], atoms.info["replica"]) for atoms in frames]
    assert marks == [(5, 0), (5, 1), (25, 0), (25, 1), (45, 0), (45, 1)]
    for atoms, (step, replica) in zip(frames, marks, strict=True):
        assert atoms.calc is None  # nobody shall take the potential's forces for labels
        spread = spread_of(atoms)
        assert atoms.info["disagreement"] == pytest.approx(spread.max(), rel=1e-3)
        (row,) = (r for r in seen if (int(r["step"]), int(r["replica"])) == (step, replica))
        assert float(row["largest_eV_per_A"]) == pytest.approx(spread.max(), rel=1e-3)
        assert float(row["mean_eV_per_A"]) == pytest.approx(spread.mean(), rel=1e-3)
        assert int(row["atom"]) == spread.argmax()
    assert summary["uncertain_frames"] == 6
    largest = max(float(row["largest_eV_per_A"]) for row in seen)
    assert summary["largest_disagreement_eV_per_A"] == largest


def test_below_the_threshold_nothing_is_kept_and_the_number_is_limited(tmp_path):
    start(settings(tmp_path / "none", {"threshold": 50.0}))
    assert (tmp_path / "none" / "uncertain.extxyz").read_bytes() == b""
    start(settings(tmp_path / "few", {"threshold": 1e-4, "spacing": 1, "max_frames": 3}))
    assert len(read(tmp_path / "few" / "uncertain.extxyz", ":")) == 3


@pytest.mark.parametrize("limit", [{"action": "stop"}, {"upper": 2e-4}])
def test_a_run_stops_where_the_committee_disagrees(tmp_path, limit):
    with pytest.raises(StoppedRun, match=r"committee disagrees by .* about the force on atom \d"):
        start(settings(tmp_path / "run", {"threshold": 1e-4, "interval": 6, **limit}))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["steps_done"] == 6
    kept = (tmp_path / "run" / "uncertain.extxyz").read_bytes()
    # Above the upper bound structures are broken and not kept.
    assert bool(kept) == ("action" in limit)


def test_a_stopped_run_keeps_the_same_frames(tmp_path, monkeypatch):
    section = {"threshold": 1e-4, "interval": 5, "spacing": 10}
    start(settings(tmp_path / "whole", section))
    stops = [33]
    note = Recording.note

    def stop(self, number, system, state, step, *rest):
        if stops and step >= stops[0]:
            stops.pop()
            raise KeyboardInterrupt
        note(self, number, system, state, step, *rest)

    monkeypatch.setattr(Recording, "note", stop)
    with pytest.raises(KeyboardInterrupt):
        start(settings(tmp_path / "parts", section))
    assert len(rows(tmp_path / "parts")) == 6
    launch.resume_run(tmp_path / "parts")
    for name in ("uncertain.extxyz", "disagreement.csv"):
        one, two = ((tmp_path / run / name).read_text() for run in ("whole", "parts"))
        assert one == two, name


def test_mistakes(tmp_path):
    with pytest.raises(ValueError, match=r"upper 0.1 is not above threshold 0.2"):
        CommitteeSection(models="x", threshold=0.2, upper=0.1)
    lonely = CommitteeSection(models=["soft"], threshold=0.2)
    with pytest.raises(ValueError, match="at least two"):
        start(settings(tmp_path / "run").model_copy(update={"committee": lonely}))
    assert not (tmp_path / "run").exists()


def test_the_command_finds_members_beside_its_configuration(tmp_path, monkeypatch, capsys):
    monkeypatch.undo()  # real files
    for number in (1, 2):
        mx.random.seed(number)
        sizes = V2106Config(channels=4, layers=1, lmax=1)
        config = PotentialConfig(numbers=[29], cutoff=3.5, model=sizes, E0s={29: -3.0}, zbl=True)
        folder = tmp_path / "trained" / f"member{number}"
        folder.mkdir(parents=True)
        mlpot.save(folder / "best.safetensors", Potential(config))
    copper(1).write(tmp_path / "start.xyz")
    (tmp_path / "run.yaml").write_text(
        "model: trained/member1/best.safetensors\nstruct: start.xyz\nout: out\ntimestep: 1.0\n"
        "stages: [{ensemble: langevin, steps: 10}]\n"
        "committee: {models: trained, threshold: 1.0e-6, interval: 5}\n"
    )
    with pytest.raises(SystemExit) as ending:
        main(["md", str(tmp_path / "run.yaml")])
    captured = capsys.readouterr()
    assert not ending.value.code, captured.err
    assert "1 uncertain frames in uncertain.extxyz" in captured.out
    saved = json.loads((tmp_path / "out" / "config.json").read_text())
    assert saved["committee"]["models"] == [
        str(tmp_path / "trained" / f"member{k}" / "best.safetensors") for k in (1, 2)
    ]
