"""Second derivatives measured: cost of products, phonons by three ways, memory by size.

    python evals/second_derivatives.py --models nequix-mp-1 sevennet-0 --own copper.safetensors

Writes second-derivatives.json and a picture into the folder --out. What is compared runs in turns
in one process and the least of its times counts; times are those of all threads of the process
(CPU time), so ratios hold on a machine that does other things too. All is on the CPU.

- products: a Hessian-vector product against energy and forces, both replayed from a record; alone
  and eight together; and those with vectors that move two atoms only, which are not recorded.
- phonons: Si and MgO, 4 x 4 x 4 primitive cells, force constants from symmetry-reduced
  Hessian-vector products, from symmetry-reduced displacements, and from plus-minus displacements
  of all atoms of the cell without symmetry, through the calculator in float64. Acoustic modes at
  Gamma before any sum rule; for comparison those of float32 and displacements of 0.01 Angstrom.
- memory: peak of a whole dense Hessian, one in chunks, and of Lanczos for the lowest modes, each
  in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import mlx.core as mx
import numpy as np
from ase import Atoms
from ase.build import bulk, molecule
from benchmark.environment import describe
from rich.console import Console
from second_derivatives_drawing import draw

from mlpot import derivatives, workflows
from mlpot.calculators import MLPotCalculator
from mlpot.files import atomic_write
from mlpot.kernels import native
from mlpot.workflows.force_constants import displaced_forces, linear_forces
from mlpot.workflows.phonopy_bridge import displacement_vectors, make_phonopy, to_ase

DISTANCE = 0.002
CRYSTALS = {"Si": bulk("Si", a=5.43), "MgO": bulk("MgO", "rocksalt", a=4.21)}
MEMORY_ATOMS = (32, 108, 256, 500, 864)


def silent(_done: int, _wanted: int) -> None:
    """No progress is shown."""


def in_turns(functions: dict, seconds: float, least: int = 3, most: int = 25) -> dict:
    """Least time of each function, seconds, called in turns after two calls to warm up."""
    times: dict = {name: [] for name in functions}
    for _ in range(2):
        for function in functions.values():
            function()
    begun = time.perf_counter()
    rounds = 0
    while rounds < least or (time.perf_counter() - begun < seconds and rounds < most):
        rounds += 1
        for name, function in functions.items():
            start = time.process_time()
            function()
            times[name].append(time.process_time() - start)
    return {name: min(values) for name, values in times.items()}


def products(arguments) -> list[dict]:
    cases = [(m, "Si", bulk("Si").repeat(n)) for m in arguments.models for n in (2, 4)]
    for own in arguments.own:
        known = MLPotCalculator(own).potential.numbers
        if 29 in known:
            cases += [(own, "Cu", bulk("Cu", cubic=True).repeat(n)) for n in (1, 2, 4)]
        if {1, 6, 8} <= set(known):
            cases.append((own, "ethanol", molecule("CH3CH2OH")))
    rows = []
    for model, name, atoms in cases:
        for dtype in ("float32", "float64"):
            atoms.rattle(0.01, seed=1)
            rows.append(product_of(model, name, atoms, dtype, arguments.seconds))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def product_of(model: str, name: str, atoms: Atoms, dtype: str, seconds: float) -> dict:
    calc = MLPotCalculator(model, dtype=dtype)
    potential = calc.potential
    forces = derivatives.ReplayedForces(potential)
    product = derivatives.ReplayedProducts(potential)
    with mx.stream(mx.cpu):
        graph = calc._graph(atoms)
        given = np.random.default_rng(0).normal(size=(8, graph.n_atoms, 3))
        # Two atoms: what rows of a Hessian and displacements of phonons look like.
        near = np.zeros_like(given)
        near[:, :2] = given[:, :2]
        one = mx.array(given[0], dtype=graph.positions.dtype)
        found = in_turns(
            {
                "forces": lambda: mx.eval(forces(graph, False)[:2]),
                "product": lambda: mx.eval(product(graph, one)),
                "eight": lambda: derivatives.hvps(potential, graph, given, chunk=8),
                "one near": lambda: derivatives.hvps(potential, graph, near[:1], chunk=1),
                "eight near": lambda: derivatives.hvps(potential, graph, near, chunk=8),
            },
            seconds,
        )
    return {
        "model": Path(model).stem,
        "structure": name,
        "atoms": len(atoms),
        "edges": graph.n_edges,
        "dtype": dtype,
        "forces_s": found["forces"],
        "product_s": found["product"],
        "ratio": found["product"] / found["forces"],
        "ratio_of_eight": found["eight"] / 8 / found["forces"],
        "ratio_near": found["one near"] / found["forces"],
        "ratio_of_eight_near": found["eight near"] / 8 / found["forces"],
    }


def phonons(arguments) -> list[dict]:
    return [phonons_of(m, c, arguments) for m in arguments.models for c in CRYSTALS]


def phonons_of(model: str, crystal: str, arguments) -> dict:
    calc = MLPotCalculator(model, dtype="float64")
    unit, _ = workflows.relax_and_report(
        CRYSTALS[crystal], calc, 1e-5, True, 500, True, Console(quiet=True)
    )
    unit.calc = None
    objects = {}

    def run(name: str, exact: bool, symmetry: bool, plusminus) -> None:
        phonopy = make_phonopy(unit, 4 * np.eye(3, dtype=int))
        if exact or symmetry:
            phonopy.generate_displacements(distance=DISTANCE, is_plusminus=plusminus)
        else:
            phonopy.dataset = every_displacement(phonopy)
        if exact:
            vectors = displacement_vectors(phonopy)
            start = time.process_time()
            fresh = calc.astype("float64")
            found = linear_forces(fresh, to_ase(phonopy.supercell), vectors, None, silent)
        else:
            cells = [to_ase(cell) for cell in phonopy.supercells_with_displacements]
            start = time.process_time()
            found = displaced_forces(calc.astype("float64"), cells, silent)
        seconds[name] = time.process_time() - start
        phonopy.forces = found
        phonopy.produce_force_constants(show_drift=False)
        objects[name] = (phonopy, len(found))

    ways = {
        "products": (True, True, False),
        "displacements": (False, True, "auto"),
        "displacements, plus and minus": (False, True, True),
        "displacements, no symmetry": (False, False, True),
    }
    rounds: dict = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            seconds: dict = {}
            run(name, *way)
            rounds[name].append(seconds[name])
    times = {name: min(values) for name, values in rounds.items()}
    exact = objects["products"][0]
    mesh = {}
    for name, (phonopy, _) in objects.items():
        phonopy.run_mesh([6, 6, 6], is_mesh_symmetry=False, is_gamma_center=True)
        mesh[name] = np.array(phonopy.mesh.frequencies)
    gamma = np.array(exact.run_qpoints([[0, 0, 0]]).frequencies)[0][:3]
    row = {
        "model": model,
        "crystal": crystal,
        "atoms": len(exact.supercell),
        "calculations": {name: n for name, (_, n) in objects.items()},
        "seconds": times,
        "products_over_displacements": times["products"] / times["displacements"],
        "products_over_plus_and_minus": times["products"] / times["displacements, plus and minus"],
        "no_symmetry_over_products": times["displacements, no symmetry"] / times["products"],
        "largest_difference_THz": {
            name: float(np.abs(f - mesh["products"]).max()) for name, f in mesh.items()
        },
        "gamma_acoustic_THz": np.abs(gamma).max(),
    }
    row["gamma_acoustic_float32_THz"] = coarse(model, unit)
    print(json.dumps(row), flush=True)
    return row


def every_displacement(phonopy) -> dict:
    """Plus and minus x, y, z of each atom of the primitive cell, as a program without symmetry."""
    moves = []
    for atom in phonopy.primitive.p2s_map:
        for axis in range(3):
            for sign in (1.0, -1.0):
                step = np.zeros(3)
                step[axis] = sign * DISTANCE
                moves.append({"number": int(atom), "displacement": step.tolist()})
    return {"natom": len(phonopy.supercell), "first_atoms": moves}


def coarse(model: str, unit: Atoms) -> float:
    """Largest acoustic frequency at Gamma from float32 and displacements of 0.01 Angstrom, THz."""
    phonopy = make_phonopy(unit, 4 * np.eye(3, dtype=int))
    phonopy.generate_displacements(distance=0.01)
    cells = [to_ase(cell) for cell in phonopy.supercells_with_displacements]
    phonopy.forces = displaced_forces(MLPotCalculator(model, dtype="float32"), cells, silent)
    phonopy.produce_force_constants(show_drift=False)
    frequencies = np.array(phonopy.run_qpoints([[0, 0, 0]]).frequencies)[0]
    return float(np.abs(frequencies[np.argsort(np.abs(frequencies))[:3]]).max())


def memory(arguments) -> list[dict]:
    rows = []
    for way in ("dense", "chunked", "lanczos"):
        for n_atoms in MEMORY_ATOMS:
            if way == "dense" and n_atoms > arguments.dense_atoms:
                continue
            command = [sys.executable, __file__, "--measure", way, str(n_atoms), *arguments.own]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr)
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def measure(way: str, n_atoms: int, model: str) -> None:
    """Print the peak memory of one calculation."""
    atoms = bulk("Cu", cubic=True).repeat(round((n_atoms / 4) ** (1 / 3)))
    calc = MLPotCalculator(model, dtype="float64")
    with mx.stream(mx.cpu):
        graph = calc._graph(atoms, padded=False)
        mx.eval(list(graph.arrays().values()))
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        size = 3 * len(atoms)
        if way == "lanczos":
            found = derivatives.lowest_modes(calc.potential, graph, 4, tolerance=1e-4)
            host, products = found.vectors.nbytes + 20 * size * 8, found.products
        else:
            # Two chunks show the peak of all; the matrix on the host is what all rows take.
            chunk = size if way == "dense" else 16
            rows = range(len(atoms) if way == "dense" else min(11, len(atoms)))
            derivatives.hessian(calc.potential, graph, chunk=chunk, rows=rows)
            host, products = 8 * size**2, size
        peak = mx.get_peak_memory() - before
    print(
        json.dumps(
            {
                "way": way,
                "atoms": len(atoms),
                "device_MB": round(peak / 1e6, 1),
                "host_MB": round(host / 1e6, 1),
                "products": products,
            }
        )
    )


PARTS = {"products": products, "phonons": phonons, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--models", nargs="*", default=["nequix-mp-1", "sevennet-0"], help="that know Si, Mg and O")
    add("--own", nargs="*", default=[], help="further models; the first knows copper")
    add("--parts", nargs="*", choices=[*PARTS], default=[*PARTS])
    add("--seconds", type=float, default=5.0, help="aimed at for each case")
    add("--rounds", type=int, default=5, help="of each way to phonons")
    add("--dense-atoms", type=int, default=256, help="whole Hessians at once up to this size")
    add("--threads", type=int, help="of the kernels; with others on the machine 1 measures best")
    add("--out", type=Path, default=Path("evals/results"))
    add("--measure", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        way, n_atoms, model = arguments.measure[:3]
        measure(way, int(n_atoms), model)
        return
    if arguments.threads:
        native.set_num_threads(arguments.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "second-derivatives.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    words = ["evals/second_derivatives.py", *sys.argv[1:]]
    for part in arguments.parts:
        about = describe("python " + " ".join(words))
        results[part] = {"about": about, "rows": PARTS[part](arguments)}
        with atomic_write(path, "w") as file:
            json.dump(results, file, indent=1)
            file.write("\n")
    draw(results, path.with_suffix(".png"))


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
