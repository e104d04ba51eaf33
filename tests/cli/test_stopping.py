"""Ctrl-C and SIGTERM during workflow verbs: what was reached is written, and how to go on."""

from __future__ import annotations

import shlex
import signal

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.io import read, write
from small_potentials import make_crystal, make_potential

import mlpot
from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.cli import app

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def ctrl_c():
    """Python's own handler, also where a shell that started the tests beside itself has none."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def run(capsys, words) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        app.main([str(word) for word in words])
    output = capsys.readouterr()
    code = caught.value.code
    return (code if isinstance(code, int) else 0), output.out, output.err


def signal_at(monkeypatch, owner, name: str, number: int, call: int) -> None:
    """Sends this process a signal in a call of a function, once."""
    real, left = getattr(owner, name), [call]

    def function(*args, **kwargs):
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(number)
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, function)


def to_go_on(err: str) -> list[str]:
    """The command in a message, as words after mlpot."""
    words = shlex.split(err[err.index("\n  mlpot ") :])
    assert words.pop(0) == "mlpot"
    return words


def bent_water() -> Atoms:
    return Atoms("OHH", [[0.0, 0, 0], [0.9, 0.1, 0], [-0.2, 0.9, 0.1]])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlpot.save(tmp_path / "model.safetensors", make_potential(3))
    write(tmp_path / "water.xyz", bent_water())
    write(tmp_path / "crystal.extxyz", make_crystal())
    return tmp_path


@pytest.mark.parametrize("number", SIGNALS)
def test_relax_writes_what_it_reached(folder, monkeypatch, capsys, number):
    words = ["relax", "--model", "model.safetensors", "--struct", "water.xyz", "--fmax", "1e-3"]
    signal_at(monkeypatch, MLPotCalculator, "calculate", number, 4)
    code, printed, err = run(capsys, words)
    assert code == 128 + number
    assert "NOT relaxed after 3 steps" in printed and "stopped" in err
    reached = read(folder / "water-relaxed.extxyz")
    assert np.abs(reached.positions - bent_water().positions).max() > 0.01
    assert np.linalg.norm(reached.get_forces(), axis=1).max() > 1e-3
    code, printed, err = run(capsys, to_go_on(err))
    assert (code, err) == (0, "") and printed.startswith("relaxed after")
    relaxed = read(folder / "water-relaxed.extxyz")
    assert np.linalg.norm(relaxed.get_forces(), axis=1).max() <= 1e-3


def test_relax_keeps_its_cell_options_when_it_goes_on(folder, monkeypatch, capsys):
    words = ["relax", "--model", "model.safetensors", "--struct", "crystal.extxyz", "--cell"]
    signal_at(monkeypatch, MLPotCalculator, "calculate", signal.SIGINT, 2)
    code, _, err = run(capsys, [*words, "--fmax", "0.02", "--steps", "7"])
    assert code == 130
    again = to_go_on(err)
    assert "--cell" in again and again[again.index("--steps") + 1] == "7"
    assert again[again.index("--fmax") + 1] == "0.02" and "--symmetry" not in again


def test_structures_whose_turn_had_not_come_are_written_too(folder, monkeypatch, capsys):
    several = [make_crystal(seed) for seed in range(3)]
    write(folder / "several.extxyz", several)
    words = ["relax", "--model", "model.safetensors", "--struct", "several.extxyz", "--frames"]
    real = workflows.relax_and_report
    calls = []

    def second_is_stopped(atoms, *more):
        calls.append(atoms)
        found = real(atoms, *more)
        if len(calls) == 2:
            raise workflows.Stopped(signal.SIGINT, [found])
        return found

    monkeypatch.setattr(workflows, "relax_and_report", second_is_stopped)
    code, _, err = run(capsys, [*words, "--cell", "--steps", 1])
    assert code == 130 and "--frames" in to_go_on(err) and len(calls) == 2
    written = read(folder / "relaxed.extxyz", ":")
    moved = [
        np.abs(a.cell.array - b.cell.array).max() > 1e-5
        for a, b in zip(written, several, strict=True)
    ]
    assert moved == [True, True, False]


def test_a_batch_writes_what_it_reached(folder, monkeypatch, capsys):
    from mlpot.md.engine import Engine

    other = bent_water()
    other.rattle(0.05, seed=1)
    write(folder / "two.extxyz", [bent_water(), other])
    signal_at(monkeypatch, Engine, "block", signal.SIGINT, 2)
    words = ["relax", "--model", "model.safetensors", "--struct", "two.extxyz", "--frames"]
    code, printed, err = run(capsys, [*words, "--fmax", "1e-5", "--steps", 500])
    assert code == 130 and "NOT relaxed after 20 steps" in printed
    assert len(read(folder / "relaxed.extxyz", ":")) == 2 and "--frames" in to_go_on(err)


@pytest.mark.parametrize("number", SIGNALS)
def test_saddle_writes_what_it_reached(folder, monkeypatch, capsys, number):
    from mlpot.workflows.saddle_search import Search

    words = ["saddle", "--model", "model.safetensors", "--struct", "water.xyz", "--no-plot"]
    signal_at(monkeypatch, Search, "step", number, 3)
    code, printed, err = run(capsys, [*words, "--fmax", "1e-9", "--max-step", "0.1"])
    assert code == 128 + number and "NO saddle point after 3 steps" in printed
    reached = read(folder / "saddle/water-saddle.extxyz")
    assert np.abs(reached.positions - bent_water().positions).max() > 0.01
    assert not (folder / "saddle/water-minima.extxyz").exists()
    again = to_go_on(err)
    assert again[again.index("--max-step") + 1] == "0.1"
    code, printed, err = run(capsys, [*again, "--steps", "1", "--no-connect"])
    assert code == 1 and "was not reached" in err and "after 1 steps" in printed


def test_a_saddle_is_kept_when_the_ways_down_are_stopped(folder, monkeypatch):
    import importlib

    module = importlib.import_module("mlpot.workflows.saddle")  # its function hides it

    def stopped(*_args):
        raise workflows.Stopped(signal.SIGTERM, [])

    monkeypatch.setattr(module, "relax_and_report", stopped)
    calc = MLPotCalculator(folder / "model.safetensors", dtype="float64")
    with pytest.raises(workflows.Stopped) as caught:
        workflows.saddle(bent_water(), calc, steps=2, out=folder / "out", name="w", plot=False)
    assert caught.value.number == signal.SIGTERM and caught.value.reached.steps == 2
    assert (folder / "out/w-saddle.json").exists()


@pytest.mark.parametrize("number", SIGNALS)
def test_other_verbs_say_that_they_were_stopped(folder, monkeypatch, capsys, number):
    write(folder / "carbon.extxyz", bulk("C", "sc", a=2.5))
    signal_at(monkeypatch, MLPotCalculator, "calculate", number, 2)
    words = ["--model", "model.safetensors", "--struct", "carbon.extxyz"]
    code, _, err = run(capsys, ["eos", *words, "--no-relax"])
    assert code == 128 + number, err
    assert "stopped; nothing is written" in err
    assert not (folder / "eos").exists()
    signal_at(monkeypatch, MLPotCalculator, "get_hvps", number, 1)
    code, _, err = run(capsys, ["phonons", *words, "--no-relax", "--supercell", "1", "1", "1"])
    assert code == 128 + number and "the same command goes on" in err
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
