"""Potentials as functions of MLX that C++, Swift and other hosts run without Python."""

from __future__ import annotations

import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from mlpot import kernels
from mlpot.files import atomic_write, temporary_beside
from mlpot.graph import Graph
from mlpot.kernels.primitive import plain_path
from mlpot.models import Potential

#: Inputs and outputs of an exported function, in order: name, shape, dtype, meaning.
INPUTS = (
    ("numbers", "n_atoms", "int32", "atomic numbers; 0 for an atom that is not there"),
    ("positions", "n_atoms 3", "float32", "Angstrom"),
    ("senders", "n_edges", "int32", "neighbour of each edge"),
    ("receivers", "n_edges", "int32", "atom that the edge belongs to"),
    (
        "offsets",
        "n_edges 3",
        "float32",
        "Angstrom; the edge's vector is positions[sender] + offset - positions[receiver]",
    ),
)
OUTPUTS = (
    ("energy", "", "float32", "eV, without the E0s: add E0s[number] of every atom in float64"),
    ("node_energies", "n_atoms", "float32", "eV, without the E0s"),
    ("forces", "n_atoms 3", "float32", "eV/Angstrom"),
    ("virial", "3 3", "float32", "eV, dE/d strain; the stress is this over the volume"),
)


def export_potential(
    path: str | os.PathLike[str], potential: Potential, n_atoms: int, n_edges: int
) -> Path:
    """Write energy, forces and virial as a function of fixed shapes, and a description in JSON.

    Every edge is listed in both directions, in any order. Unused atoms have the number 0, unused
    edges join an atom to itself with an offset longer than the cutoff: both add exactly nothing.
    The function holds MLX's own operations only and is opened with ``mx.import_function`` (in C++
    ``mlx::core::import_function``); it runs in float32.

    Args:
        path: ends in ``.mlxfn``; the description is put beside it with the ending ``.json``.
        potential: in float32.
        n_atoms: atoms that the function takes.
        n_edges: edges that it takes.

    Returns:
        The path of the description.

    Raises:
        ValueError: another ending, sizes below 1, or a potential in float64.
    """
    path = Path(path)
    if path.suffix != ".mlxfn":
        raise ValueError(f"cannot export to {str(path)!r}: the name must end in .mlxfn")
    if n_atoms < 1 or n_edges < 1:
        raise ValueError(f"{n_atoms} atoms and {n_edges} edges: both must be at least 1")
    if potential.dtype != mx.float32:
        raise ValueError("an exported function runs in float32; call set_dtype(mx.float32) first")
    function = exported_function(potential)
    example = (
        mx.full((n_atoms,), potential.numbers[0], dtype=mx.int32),
        mx.array(np.random.default_rng(0).uniform(size=(n_atoms, 3)), dtype=mx.float32),
        mx.zeros((n_edges,), dtype=mx.int32),
        mx.zeros((n_edges,), dtype=mx.int32),
        mx.full((n_edges, 3), 0.3 * potential.cutoff, dtype=mx.float32),
    )
    described = path.with_suffix(".json")
    strategy = potential.network.radial_strategy
    # A table is made with other means than the network itself.
    potential.network.radial_strategy = "exact"
    try:
        mx.eval(potential.isolated_energies())
        with plain_path(), kernels.use("reference"), temporary_beside(path) as temporary:
            mx.export_function(str(temporary), function, *example)
    finally:
        potential.network.radial_strategy = strategy
    E0s = {str(z): potential.config.E0s.get(z, 0.0) for z in potential.numbers}
    description = {
        "format": "mlpot exported function",
        "format_version": 1,
        "mlx_version": importlib.metadata.version("mlx"),
        "n_atoms": n_atoms,
        "n_edges": n_edges,
        "cutoff_angstrom": potential.cutoff,
        "numbers": potential.numbers,
        "E0s_eV": E0s,
        "inputs": [
            dict(zip(("name", "shape", "dtype", "meaning"), i, strict=True)) for i in INPUTS
        ],
        "outputs": [
            dict(zip(("name", "shape", "dtype", "meaning"), o, strict=True)) for o in OUTPUTS
        ],
        "unused_atoms": "number 0",
        "unused_edges": f"sender = receiver = 0, offset ({2 * potential.cutoff:g}, 0, 0)",
    }
    with atomic_write(described, "w") as file:
        json.dump(description, file, indent=1)
        file.write("\n")
    return described


def exported_function(potential: Potential) -> Any:
    """The function that is exported, with the arguments and results named above."""

    def function(numbers, positions, senders, receivers, offsets):
        n_atoms = positions.shape[0]
        # The reference backend needs senders and receivers alone.
        starts = mx.zeros((n_atoms + 1,), dtype=mx.int32)
        edges = kernels.EdgeIndex(senders, receivers, starts, mx.zeros_like(senders), starts)
        atoms = Graph(
            numbers,
            positions,
            mx.zeros((1, 3, 3), dtype=positions.dtype),
            mx.zeros((n_atoms,), dtype=mx.int32),
            mx.zeros_like(offsets),
            edges,
        )
        vectors = mx.take(positions, senders, axis=0) + offsets
        vectors = vectors - mx.take(positions, receivers, axis=0)

        def energy(factors, vectors):
            return (factors * potential.node_energies(atoms, vectors)).sum()

        ones = mx.ones((n_atoms,), dtype=positions.dtype)
        nodes, slopes = mx.grad(energy, argnums=(0, 1))(ones, vectors)
        zeros = mx.zeros_like(positions)
        forces = zeros.at[receivers].add(slopes) - zeros.at[senders].add(slopes)
        virial = vectors.T @ slopes
        return nodes.sum(), nodes, forces, 0.5 * (virial + virial.T)

    return function
