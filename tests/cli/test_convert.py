"""``mlpot convert``: what it writes, what it says, and what it refuses."""

import hashlib

import h5py
import numpy as np
import pytest
from reference_outputs import FIXTURES, check_outputs

from mlpot import derivatives, graph, io
from mlpot.cli.app import main
from mlpot.datasets import HDF5Dataset, read
from mlpot.models import Potential, PotentialConfig

WATER = """3
energy={energy} Properties=species:S:1:pos:R:3:forces:R:3
O 0.0 0.0 0.0 0.1 0.0 0.0
H 0.96 0.0 0.0 -0.1 0.0 0.0
H -0.24 0.93 0.0 0.0 0.0 0.0
"""


@pytest.fixture
def water(tmp_path):
    path = tmp_path / "water.xyz"
    path.write_text(WATER.format(energy=-1.0) + WATER.format(energy=-2.0))
    return path


def run(*words):
    with pytest.raises(SystemExit) as ending:
        main(["convert", *map(str, words)])
    return ending.value.code or 0


def test_to_hdf5_and_back(tmp_path, water, capsys):
    assert run(water, water, tmp_path / "a.h5") == 0
    printed = capsys.readouterr().out
    assert "4 frames, 12 atoms (3 a frame): H, O" in printed
    assert "labels: energy 4, forces 4, stress 0" in printed
    assert "suspicious: 3 frames repeat another one exactly" in printed
    assert "wrote 4 frames to" in printed
    with HDF5Dataset(tmp_path / "a.h5") as stored:
        stored.verify()
        origins = stored.provenance["converted_from"]
        assert [origin["file"] for origin in origins] == ["water.xyz", "water.xyz"]
        assert len(origins[0]["sha256"]) == 64
    assert run(tmp_path / "a.h5", tmp_path / "b.extxyz") == 0
    back = read(tmp_path / "b.extxyz")
    assert [f.energy for f in back] == [-1, -2, -1, -2]
    np.testing.assert_allclose(back[0].positions, read(water)[0].positions, atol=1e-8)
    assert run(tmp_path / "a.h5", tmp_path / "c.h5") == 0
    with HDF5Dataset(tmp_path / "c.h5") as stored:
        assert stored.provenance["converted_from"][0]["provenance"]["converted_from"] == origins


def test_units_are_applied_and_recorded(tmp_path, water):
    assert run(water, tmp_path / "a.h5", "--energy-unit", "kcal/mol") == 0
    with HDF5Dataset(tmp_path / "a.h5") as stored:
        assert stored[0].energy == pytest.approx(-0.0433641, rel=1e-5)
        assert stored.provenance["options"] == {
            "energy_unit": "kcal/mol",
            "config_type_key": "config_type",
        }


def test_neighbour_lists_are_stored_and_files_verified(tmp_path, water, capsys):
    assert run(water, tmp_path / "a.h5", "--neighbors", "1.2") == 0
    with HDF5Dataset(tmp_path / "a.h5") as stored:
        assert stored.neighbor_cutoff == 1.2
        graph = stored.host_graph(1, stored[1], 1.2)
        assert graph is not None
        pairs = set(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))
        assert pairs == {(0, 1), (1, 0), (0, 2), (2, 0)}  # the bonds
    with pytest.raises(SystemExit) as ending:
        main(["info", str(tmp_path / "a.h5"), "--verify"])
    assert not ending.value.code
    assert "all digests are those that were written" in capsys.readouterr().out
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["frames/energy"][0] = -7.0
    with pytest.raises(SystemExit) as ending:
        main(["info", str(tmp_path / "a.h5"), "--verify"])
    assert ending.value.code == 1
    assert "the digest of frames/energy is not the stored one" in capsys.readouterr().err


def test_suspicions_are_printed(tmp_path, water, capsys):
    water.write_text(WATER.format(energy=-1.0).replace("0.1 0.0 0.0\n", "60.0 0.0 0.0\n"))
    assert run(water, tmp_path / "a.h5") == 0
    assert "suspicious: force RMS" in capsys.readouterr().out


def test_existing_files_are_replaced_only_when_asked(tmp_path, water, capsys):
    target = tmp_path / "a.h5"
    target.write_text("precious")
    assert run(water, target) == 1
    assert "add --overwrite to replace it" in capsys.readouterr().err
    assert target.read_text() == "precious"
    assert run(water, target, "--overwrite") == 0
    with HDF5Dataset(target) as stored:
        assert len(stored) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["water.xyz"], "at least one file to read and one to write"),
        (["nothing.xyz", "a.h5"], "there is no file"),
        (["water.xyz", "water.xyz"], "read and written"),
        (["water.xyz", "a.csv"], "use .h5 or .hdf5"),
        (["water.xyz", "folder/a.h5"], "does not exist"),
        (["broken.xyz", "a.h5"], "broken.xyz:1: energy is nan"),
        (["water.xyz", "a.h5", "--energy-unit", "eB"], "unknown energy unit 'eB'"),
        (["water.xyz", "a.h5", "--energy-key", "E"], "energy_key 'E' is in no frame"),
    ],
)
def test_errors_leave_nothing_behind(tmp_path, water, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.xyz").write_text(WATER.format(energy=-1.0) + WATER.format(energy="nan"))
    before = sorted(p.name for p in tmp_path.iterdir())
    assert run(*words) == 1
    assert message in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_models_of_other_programs_are_converted(tmp_path, capsys):
    source, target = FIXTURES / "sevennet_even.pth", tmp_path / "model.safetensors"
    assert run(source, target) == 0
    assert "3 elements, cutoff 4 Angstrom" in capsys.readouterr().out
    check_outputs(io.load(target), source.with_suffix(".json"))
    _, metadata = io.read_file(target)
    assert metadata["source"] == "sevennet_even.pth"
    assert metadata["source_sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    before = target.read_bytes()
    assert run(source, target) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert run(source, source, target, "--overwrite") == 1
    assert "from one file" in capsys.readouterr().err
    assert target.read_bytes() == before


def test_a_teacher_adds_its_products(tmp_path, water, capsys):
    potential = Potential(PotentialConfig(numbers=[1, 8], cutoff=4.0, scale=3.0))
    io.save(tmp_path / "teacher.safetensors", potential)
    options = ("--hvps-from", tmp_path / "teacher.safetensors", "--hvps", "2")
    assert run(water, tmp_path / "taught.h5", *options) == 0
    assert "Hessian-vector products 2" in capsys.readouterr().out
    with HDF5Dataset(tmp_path / "taught.h5") as stored:
        assert stored.provenance["hvps"]["directions"] == 2
        frames = list(stored)
    for frame in frames:
        atoms = graph.build(frame.numbers, frame.positions, cutoff=4.0)
        expected = derivatives.hvps(potential, atoms, frame.hvp_vectors)
        assert frame.hvps.shape == (2, 3, 3)
        assert np.abs(frame.hvps - expected).max() < 1e-3 * np.abs(expected).max()
