"""Exported functions give the same numbers in a process that has MLX alone."""

from __future__ import annotations

import json
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest
from reference_outputs import FIXTURES

from mlpot import derivatives, graph, io
from mlpot.cli.app import main
from mlpot.io.exporting import export_potential
from mlpot.models import GatePointsConfig, NequIPConfig, Potential, PotentialConfig, V2106Config

# What a host does, in the only language that the tests can run: no mlpot.
HOST = """
import json, sys
import mlx.core as mx
import numpy as np
with mx.stream(mx.cpu):
    inputs = np.load(sys.argv[2])
    function = mx.import_function(sys.argv[1])
    names = [one["name"] for one in json.load(open(sys.argv[3]))["inputs"]]
    results = function(*[mx.array(inputs[name]) for name in names])
    np.savez(sys.argv[4], *[np.array(one) for one in results])
assert "mlpot" not in sys.modules
"""


def potentials():
    for model in (V2106Config, GatePointsConfig, NequIPConfig):
        config = PotentialConfig(
            numbers=[1, 8],
            cutoff=3.5,
            model=model(channels=4, layers=2),
            E0s={1: -13.6, 8: -2040.3},
            avg_num_neighbors=20.0,
            scale=0.1,
        )
        yield model.__name__, lambda config=config: Potential(config)
    yield "SevenNet", lambda: io.import_potential(FIXTURES / "sevennet_even.pth")
    yield "Nequix", lambda: io.import_potential(FIXTURES / "nequix_small.nqx")


@pytest.mark.parametrize("make", [p[1] for p in potentials()], ids=[p[0] for p in potentials()])
def test_same_numbers_in_a_fresh_process(make, tmp_path):
    mx.random.seed(3)
    potential = make()
    rng = np.random.default_rng(1)
    cell = np.eye(3) * 5.0 + rng.normal(scale=0.2, size=(3, 3))
    corners = np.stack(np.meshgrid(*[[0.0, 0.5]] * 3), -1).reshape(-1, 3)
    positions = corners @ cell + rng.normal(scale=0.15, size=(8, 3))
    numbers = rng.choice(potential.numbers, 8)
    atoms = graph.build(numbers, positions, cell, True, cutoff=potential.cutoff)
    n, m, k = 11, atoms.n_edges + 9, atoms.n_edges
    described = export_potential(tmp_path / "p.mlxfn", potential, n, m)
    # Edges in another order, unused atoms and edges at the end.
    order = rng.permutation(k)
    inputs = {
        "numbers": np.zeros(n, np.int32),
        "positions": np.zeros((n, 3), np.float32),
        "senders": np.zeros(m, np.int32),
        "receivers": np.zeros(m, np.int32),
        "offsets": np.tile(np.float32([2 * potential.cutoff, 0, 0]), (m, 1)),
    }
    inputs["numbers"][:8] = numbers
    inputs["positions"][:8] = np.array(atoms.positions)
    inputs["senders"][:k] = np.array(atoms.edges.senders)[order]
    inputs["receivers"][:k] = np.array(atoms.edges.receivers)[order]
    inputs["offsets"][:k] = (np.array(atoms.shifts) @ np.array(atoms.cells)[0])[order]
    np.savez(tmp_path / "in.npz", **inputs)
    files = [tmp_path / "p.mlxfn", tmp_path / "in.npz", described, tmp_path / "out.npz"]
    subprocess.run([sys.executable, "-c", HOST, *map(str, files)], check=True, cwd=tmp_path)
    with np.load(tmp_path / "out.npz") as results:
        energy, nodes, forces, virial = (results[f"arr_{i}"] for i in range(4))
    with mx.stream(mx.cpu):
        expected = derivatives.energy_forces_stress(potential, atoms)
        size = 1 + float(np.abs(np.array(expected.node_energies)).sum())
        total = float(energy) + sum(
            json.loads(described.read_text())["E0s_eV"][str(z)] for z in numbers
        )
        np.testing.assert_allclose(total, expected.energy[0], rtol=0, atol=3e-6 * size)
        np.testing.assert_allclose(nodes[:8], np.array(expected.node_energies), atol=3e-6 * size)
        largest = 1 + float(np.abs(np.array(expected.forces)).max())
        np.testing.assert_allclose(forces[:8], np.array(expected.forces), atol=3e-6 * largest)
        assert expected.stress is not None
        stress = virial / abs(np.linalg.det(cell))
        np.testing.assert_allclose(stress, np.array(expected.stress)[0], atol=3e-6 * largest)
    assert not np.any(nodes[8:])
    assert not np.any(forces[8:])
    assert np.abs(forces).max() > 1e-3


def test_command_sizes_the_function_for_a_structure(tmp_path, capsys):
    io.save(tmp_path / "m.safetensors", io.import_potential(FIXTURES / "nequix_small.nqx"))
    (tmp_path / "si.xyz").write_text(
        '2\nLattice="0 2.7 2.7 2.7 0 2.7 2.7 2.7 0" Properties=species:S:1:pos:R:3 pbc="T T T"\n'
        "Si 0 0 0\nSi 1.35 1.35 1.35\n"
    )
    words = ["export", tmp_path / "m.safetensors", tmp_path / "si.mlxfn", "--struct"]
    words = [str(w) for w in [*words, tmp_path / "si.xyz"]]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code
    description = json.loads((tmp_path / "si.json").read_text())
    # 4 + 12 neighbours within 4 Angstrom, and a fifth more.
    assert description["n_atoms"] == 2
    assert description["n_edges"] == round(1.2 * 32)
    assert description["cutoff_angstrom"] == 4.0
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 1
    assert "--overwrite" in capsys.readouterr().err


def test_wrong_arguments_are_refused(tmp_path):
    potential = io.import_potential(FIXTURES / "nequix_small.nqx")
    with pytest.raises(ValueError, match=r"end in \.mlxfn"):
        export_potential(tmp_path / "p.safetensors", potential, 1, 1)
    with pytest.raises(ValueError, match="at least 1"):
        export_potential(tmp_path / "p.mlxfn", potential, 0, 1)
    with mx.stream(mx.cpu):
        potential.set_dtype(mx.float64)
    with pytest.raises(ValueError, match="runs in float32"):
        export_potential(tmp_path / "p.mlxfn", potential, 1, 1)
