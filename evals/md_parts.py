"""The parts of evals/md.py on speed and lists; each takes the arguments, returns what it found."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx
import numpy as np
from ase import units
from ase.build import bulk
from ase.md.verlet import VelocityVerlet
from md_systems import crystal, engine_of, load, prepare, run_blocks

from mlpot import derivatives, graph, md
from mlpot.calculators import MLPotCalculator


def lists(arguments) -> dict:
    """Lists of the device against those of the host, and how long each takes."""
    found = {}
    for n_atoms in (64, 1000, 20_000, 100_000):
        if n_atoms > 20_000 and arguments.device == "cpu":
            continue
        atoms = crystal(n_atoms)
        system, state = prepare(atoms, 300.0)
        row = {}
        edges = {}
        for where in ("host", "device"):
            search = engine_of(load(arguments.copper), system, md.nve(system, 1.0), where=where)
            search = search.search
            times = []
            for _ in range(6):
                begun = time.perf_counter()
                pairs, needed = search.build(state.positions, state.cells)
                mx.eval(pairs.arrays())
                complete = search.fits(None if needed is None else np.array(needed))
                if complete:
                    times.append(time.perf_counter() - begun)
            receivers = np.array(pairs.graph.edges.receivers)
            real = receivers < len(atoms)
            columns = [
                receivers[real],
                np.array(pairs.graph.edges.senders)[real],
                *np.array(pairs.graph.shifts)[real].T,
            ]
            table = np.array(columns).astype(np.int64)
            edges[where] = table[:, np.lexsort(table)]
            row[f"{where}_ms"] = 1e3 * min(times)
        # In float32 a pair at the very end of the skin may fall on either side.
        row["pairs"] = int(edges["host"].shape[1])
        first, second = (set(map(tuple, edges[w].T.tolist())) for w in ("host", "device"))
        differing = first ^ second
        vectors = [
            np.linalg.norm(
                np.array(state.positions)[s]
                + np.array([a, b, c]) @ np.array(state.cells)[0]
                - np.array(state.positions)[r]
            )
            for r, s, a, b, c in differing
        ]
        row["differing"] = len(differing)
        row["differing_beyond_rounding"] = int(
            np.sum(np.abs(np.array(vectors) - search.cutoff - search.skin) > 1e-4)
        )
        found[str(len(atoms))] = row
    return found


def speed(arguments) -> dict:
    """Steps per second of the engine and of ASE with the same potential."""
    found = {}
    potential = load(arguments.copper)
    for n_atoms in (4, 32, 64, 256, 1000):
        atoms = crystal(n_atoms)
        if n_atoms == 64:
            atoms = bulk("Cu", a=3.63, cubic=True).repeat((2, 2, 4))
            atoms.rattle(0.02, seed=1)
        row = {}
        for name in ("nve", "langevin", "npt"):
            system, state = prepare(atoms, 300.0)
            engine = engine_of(potential, system, getattr(md, name)(system, 2.0))
            state, _ = run_blocks(engine, engine.start(state), 40)
            row[name] = _rate(lambda n, e=engine, s=state: run_blocks(e, s, n), arguments)
        atoms.calc = MLPotCalculator(potential)
        atoms.set_velocities(np.random.default_rng(0).normal(size=(len(atoms), 3)) * 0.02)
        dynamics = VelocityVerlet(atoms, 2.0 * units.fs)
        dynamics.run(20)
        row["ase_nve"] = _rate(dynamics.run, arguments)
        row["ratio_nve"] = row["nve"] / row["ase_nve"]
        found[str(len(atoms))] = row
        print(len(atoms), row, flush=True)
    return found


def _rate(run, arguments) -> float:
    """Steps per second: the best of three runs of about two seconds (ten on the CPU)."""
    begun = time.perf_counter()
    run(20)
    each = (time.perf_counter() - begun) / 20
    wanted = 2.0 if arguments.device == "gpu" else 4.0
    steps = max(20, 20 * round(wanted / each / 20))
    best = 0.0
    for _ in range(3):
        begun = time.perf_counter()
        run(steps)
        best = max(best, steps / (time.perf_counter() - begun))
    return best


def scaling(arguments) -> dict:
    """Microseconds a step and atom, by size of the crystal."""
    found = {}
    potential = load(arguments.copper)
    sizes = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
    if arguments.device == "cpu":
        sizes = (256, 1_000, 5_000, 20_000, 50_000)
    begun = time.perf_counter()
    for n_atoms in sizes:
        if n_atoms > arguments.largest or time.perf_counter() - begun > arguments.limit:
            break
        atoms = crystal(n_atoms)
        mx.reset_peak_memory()
        try:
            system, state = prepare(atoms, 300.0)
            engine = engine_of(potential, system, md.nve(system, 2.0))
            block = 10 if arguments.device == "gpu" else max(1, min(8, 8000 // len(atoms)))
            state = engine.start(state)
            state, _ = engine.block(state, block)
            times = []
            for _ in range(3):
                start = time.perf_counter()
                state, _ = engine.block(state, block)
                times.append((time.perf_counter() - start) / block)
        except (RuntimeError, MemoryError) as error:
            found[str(len(atoms))] = {"failed": str(error)[:200]}
            break
        row = {
            "us_per_atom": 1e6 * min(times) / len(atoms),
            "ms_per_step": 1e3 * min(times),
            "peak_GB": mx.get_peak_memory() / 1e9,
            "edges": int(engine.search.capacity),
        }
        found[str(len(atoms))] = row
        print(len(atoms), row, flush=True)
        del engine, state, system
        mx.clear_cache()
    return found


def skin(arguments) -> dict:
    """Forces with and without a skin along one path of 1,000 frames, in float32."""
    potential = load(arguments.copper)
    atoms = crystal(108)
    system, state = prepare(atoms, 600.0)
    engine = engine_of(potential, system, md.langevin(system, 2.0))
    state = engine.start(state)
    with_skin = MLPotCalculator(potential, skin=0.8)
    worst_calculator = worst_engine = 0.0
    atoms.calc = None
    for _ in range(1000):
        state, _ = engine.block(state, 1)
        atoms.positions = np.array(state.positions).astype(np.float64)
        fresh = graph.build(
            atoms.numbers, atoms.positions, atoms.cell.array, True, cutoff=potential.cutoff
        )
        plain = np.array(derivatives.energy_forces_stress(potential, fresh, stress=False).forces)
        worst_engine = max(worst_engine, np.abs(np.array(state.forces) - plain).max())
        moved = with_skin.get_property("forces", atoms)
        worst_calculator = max(worst_calculator, np.abs(moved - plain).max())
    return {
        "frames": 1000,
        "lists_of_the_engine": engine.search.n_builds,
        "largest_difference_engine_eV_A": float(worst_engine),
        "largest_difference_calculator_eV_A": float(worst_calculator),
    }


def overlap(arguments) -> dict:
    """Writing every step of a trajectory beside the computation, and in turns with it."""
    from mlpot.md.frame import Frame
    from mlpot.md.h5md import H5MDFile

    potential = load(arguments.copper)
    atoms = crystal(4000 if arguments.device == "gpu" else 256)
    times = {}
    steps = 100 if arguments.device == "gpu" else 40
    for way in ("no file", "in turns", "beside"):
        system, state = prepare(atoms, 300.0)
        engine = engine_of(potential, system, md.nve(system, 2.0))
        state, _ = engine.block(engine.start(state), 20)
        none = np.zeros(1)
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
            file = H5MDFile(Path(folder) / "t.h5", Frame.of(0, 0.0, system, state, none))

            def write(seen, file=file, system=system, none=none):
                for step, (_, then) in seen.items():
                    file.write(Frame.of(step, 0.0, system, then, none))

            pending = None
            begun = time.perf_counter()
            for _ in range(steps // 10):
                state, seen = engine.block(state, 10, lambda k: True)
                if way == "in turns":
                    write(seen)
                elif way == "beside":
                    if pending is not None:
                        pending.result()
                    pending = pool.submit(write, seen)
            if pending is not None:
                pending.result()
            times[way] = (time.perf_counter() - begun) / steps * 1e3
            file.close()
    return {"atoms": len(atoms), "ms_per_step": times}
