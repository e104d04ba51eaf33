"""Errors that features of 16 bits make in energies and forces, against float32.

    python evals/feature_types.py potential.safetensors structure.xyz ... [--device cpu] [--time 20]

Potentials and structures alternate; ``copper:6`` is made of 6^3 cubic cells. ``--time`` adds the
median time of so many recorded evaluations of energy and forces. On a CPU numbers are rounded to
the type and computed with in float32, which gives the same up to rounding as the GPU's kernels.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from ase.build import bulk, molecule
from ase.io import read

import mlpot
from mlpot import derivatives, graph

#: Structures by name, beside files.
MADE = {
    "copper": lambda n: bulk("Cu", cubic=True) * (n, n, n),
    "silicon": lambda n: bulk("Si", cubic=True) * (n, n, n),
    "ethanol": lambda _: molecule("CH3CH2OH"),
}


def structure(name: str) -> Any:
    """Atoms of a file as they are, or a made structure with atoms moved by 0.05 Angstrom."""
    if Path(name).exists():
        return read(name)
    kind, _, cells = name.partition(":")
    atoms = MADE[kind](int(cells or 3))
    atoms.rattle(0.05, seed=1)
    return atoms


def graph_of(potential: mlpot.models.Potential, atoms) -> graph.Graph:
    """Its graph, in float32."""
    periodic = bool(atoms.pbc.all())
    given = (atoms.numbers, atoms.positions, atoms.cell.array, periodic)
    return graph.build(*given, cutoff=potential.cutoff)


def milliseconds(potential: mlpot.models.Potential, atoms, repeats: int) -> float:
    """Median time of energy and forces, recorded before."""
    made, forces, times = graph_of(potential, atoms), derivatives.ReplayedForces(potential), []
    for _ in range(repeats + 5):
        start = time.perf_counter()
        mx.eval(forces(made, False)[:2])
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[5:])


def results(potential: mlpot.models.Potential, atoms) -> tuple[np.ndarray, np.ndarray]:
    """Energies of atoms in meV, forces in meV/Angstrom."""
    made = graph_of(potential, atoms)
    found = derivatives.energy_forces_stress(potential, made, stress=False)
    arrays = (found.node_energies, found.forces)
    energies, forces = (1e3 * np.array(a).astype(np.float64) for a in arrays)
    return energies, forces


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "pairs", nargs="+", help=f"potential, structure (a file, {', '.join(MADE)})"
    )
    parser.add_argument("--device", choices=("cpu", "gpu"), help="MLX's default device otherwise")
    parser.add_argument("--time", type=int, default=0, help="evaluations that are timed")
    options = parser.parse_args()
    if options.device:
        mx.set_default_device(getattr(mx, options.device))
    print("| potential, atoms | features | energy, meV/atom | forces, meV/Å: rms | largest | ms |")
    print("|---|---|---|---|---|---|")
    for name, place in zip(options.pairs[::2], options.pairs[1::2], strict=True):
        potential, atoms = mlpot.load(name), structure(place)
        exact = results(potential, atoms)
        label = f"{Path(name).stem}, {atoms.get_chemical_formula()}"
        for dtype in ("float16", "bfloat16"):
            potential.set_feature_dtype(dtype)
            energies, forces = results(potential, atoms)
            shift = (energies - exact[0]).sum() / len(atoms)
            off = forces - exact[1]
            rms = np.sqrt((off**2).mean())
            took = f"{milliseconds(potential, atoms, options.time):.2f}" if options.time else ""
            errors = f"{shift:.2f} | {rms:.2f} | {np.abs(off).max():.2f}"
            print(f"| {label} | {dtype} | {errors} | {took} |", flush=True)
        potential.set_feature_dtype("float32")
        took = f"{milliseconds(potential, atoms, options.time):.2f}" if options.time else ""
        size = np.sqrt((exact[1] ** 2).mean())
        whole = f"{exact[0].sum() / len(atoms):.0f} | {size:.0f} | {np.abs(exact[1]).max():.0f}"
        print(f"| {label} | float32, all of it | {whole} | {took} |", flush=True)


if __name__ == "__main__":
    main()
