"""The parts of evals/md.py on speed and lists.

Each takes the arguments and a clock, and yields what it has found so far.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx
import numpy as np
from ase import units
from ase.build import bulk
from ase.md.verlet import VelocityVerlet
from md_systems import Clock, crystal, engine_of, load, prepare, run_blocks

from mlpot import derivatives, graph, md
from mlpot.calculators import MLPotCalculator


def lists(arguments, clock) -> Iterator[dict]:
    """Lists of the device against those of the host, and how long each takes."""
    for n_atoms in (64, 1000, 20_000, 100_000):
        if clock.over or (n_atoms > 20_000 and arguments.device == "cpu"):
            return
        atoms = crystal(n_atoms)
        system, state = prepare(atoms, 300.0)
        row, edges = {}, {}
        for where in ("host", "device"):
            search = engine_of(load(arguments.copper), system, md.nve(system, 1.0), where=where)
            search = search.search
            times = []
            for _ in range(6 if where == "device" else 2):
                begun = time.perf_counter()
                pairs, needed = search.build(state.positions, state.cells)
                mx.eval(pairs.arrays())
                if search.fits(None if needed is None else np.array(needed)):
                    times.append(time.perf_counter() - begun)
            edges[where] = _edge_numbers(pairs.graph, len(atoms))
            row[f"{where}_ms"] = 1e3 * min(times)
        row["pairs"] = len(edges["host"])
        differing = np.setxor1d(edges["host"], edges["device"])
        # In float32 a pair at the very end of the skin may fall on either side.
        lengths = _lengths(differing, state, len(atoms))
        row["differing"] = len(differing)
        row["differing_beyond_rounding"] = int(
            np.sum(np.abs(lengths - search.cutoff - search.skin) > 1e-4)
        )
        yield {str(len(atoms)): row}


#: Shifts from -3 to 3 along each axis are written as one digit.
_DIGITS = 7


def _edge_numbers(found, n_atoms: int) -> np.ndarray:
    """A number for each edge between real atoms, sorted."""
    receivers = np.array(found.edges.receivers).astype(np.int64)
    real = receivers < n_atoms
    number = receivers * n_atoms + np.array(found.edges.senders)
    for column in np.array(found.shifts).T:
        number = number * _DIGITS + (np.rint(column).astype(np.int64) + _DIGITS // 2)
    return np.sort(number[real])


def _lengths(numbers: np.ndarray, state, n_atoms: int) -> np.ndarray:
    """Lengths of the edges that `_edge_numbers` stands for."""
    shifts, rest = [], numbers
    for _ in range(3):
        shifts.append(rest % _DIGITS - _DIGITS // 2)
        rest = rest // _DIGITS
    positions = np.array(state.positions).astype(np.float64)
    vectors = positions[rest % n_atoms] - positions[rest // n_atoms]
    along = np.column_stack(shifts[::-1]).astype(np.float64)
    return np.linalg.norm(vectors + along @ np.array(state.cells)[0], axis=1)


#: Integrators by the names of `mlpot md`.
ENSEMBLES: dict[str, Callable] = {
    "nve": md.nve,
    "langevin": md.langevin,
    "bussi": md.bussi,
    "nose_hoover": md.nose_hoover,
    "npt": md.npt,
    "npt_full": lambda system, timestep: md.npt(system, timestep, full_cell=True),
    "npt_stochastic": md.cell_rescaling,
}


def speed(arguments, clock) -> Iterator[dict]:
    """Steps per second of the engine's ensembles, and of ASE with the same potential."""
    potential = load(arguments.copper)
    for n_atoms in (64, 1000, 4, 32, 256):
        if clock.over:
            return
        atoms = crystal(n_atoms)
        if n_atoms == 64:
            atoms = bulk("Cu", a=3.63, cubic=True).repeat((2, 2, 4))
            atoms.rattle(0.02, seed=1)
        row: dict[str, float] = {}
        for name, integrator in ENSEMBLES.items():
            system, state = prepare(atoms, 300.0)
            engine = engine_of(potential, system, integrator(system, 2.0))
            state, _ = run_blocks(engine, engine.start(state), 40)
            row[name] = _rate(lambda n, e=engine, s=state: run_blocks(e, s, n), clock)
            if name != "nve":
                row[f"{name}_of_nve"] = row[name] / row["nve"]
        atoms.calc = MLPotCalculator(potential)
        atoms.set_velocities(np.random.default_rng(0).normal(size=(len(atoms), 3)) * 0.02)
        dynamics = VelocityVerlet(atoms, 2.0 * units.fs)
        dynamics.run(20)
        row["ase_nve"] = _rate(dynamics.run, clock)
        row["ratio_nve"] = row["nve"] / row["ase_nve"]
        print(len(atoms), row, flush=True)
        yield {str(len(atoms)): row}


def _rate(run, clock: Clock) -> float:
    """Steps per second: the best of three runs, each of up to two seconds if there is time."""
    begun = time.perf_counter()
    run(20)
    each = (time.perf_counter() - begun) / 20
    wanted = min(2.0, max(0.2, clock.limit / 120))
    steps = max(20, 20 * round(wanted / each / 20))
    best = 0.0
    for _ in range(3):
        begun = time.perf_counter()
        run(steps)
        best = max(best, steps / (time.perf_counter() - begun))
    return best


def scaling(arguments, clock) -> Iterator[dict]:
    """Microseconds a step and atom, lists of pairs included, by size of the crystal."""
    potential = load(arguments.copper)
    sizes = (20_000, 100_000, 1_000_000, 50_000, 200_000, 500_000, 10_000, 1_000, 2_000, 5_000)
    if arguments.device == "cpu":
        sizes = (256, 1_000, 5_000, 20_000, 50_000)
    for n_atoms in sizes:
        if clock.over:
            return
        if n_atoms > arguments.largest:
            continue
        atoms = crystal(n_atoms)
        mx.reset_peak_memory()
        try:
            row: dict = _cost(potential, atoms, clock, _block(arguments, len(atoms)))
        except (RuntimeError, MemoryError) as error:
            row = {"failed": str(error)[:200]}
        row["peak_GB"] = mx.get_peak_memory() / 1e9
        print(len(atoms), row, flush=True)
        yield {str(len(atoms)): row}
        mx.clear_cache()


def _block(arguments, n_atoms: int) -> int:
    """Steps between looks at the list of pairs: few where a step takes half a second."""
    if arguments.device == "cpu":
        return 4
    return 20 if n_atoms < 300_000 else 10


def _cost(potential, atoms, clock: Clock, block: int) -> dict:
    """Steps of an engine timed, after two blocks in which sizes of lists settle."""
    system, state = prepare(atoms, 300.0)
    engine = engine_of(potential, system, md.nve(system, 2.0))
    state = engine.start(state)
    for _ in range(2):
        state, _ = engine.block(state, block)
    lists, repeated = engine.search.n_builds, engine.n_repeated
    steps, begun = 0, time.perf_counter()
    while steps < 10 * block and (steps < 20 or time.perf_counter() - begun < clock.limit / 20):
        state, _ = engine.block(state, block)
        steps += block
    seconds = time.perf_counter() - begun
    lists, repeated = engine.search.n_builds - lists, engine.n_repeated - repeated
    begun = time.perf_counter()
    for _ in range(2):
        pairs, _ = engine.search.build(state.positions, state.cells)
        mx.eval(pairs.arrays())
    per_list = (time.perf_counter() - begun) / 2
    return {
        "us_per_atom": 1e6 * seconds / steps / len(atoms),
        "ms_per_step": 1e3 * seconds / steps,
        "steps": steps,
        "lists": lists,
        "repeated_blocks": repeated,
        "ms_per_list": 1e3 * per_list,
        "share_of_lists": lists * per_list / seconds,
        "edges": int(engine.search.capacity),
        "pairs": int((np.array(pairs.graph.edges.receivers) < len(atoms)).sum()),
    }


def skin(arguments, clock) -> Iterator[dict]:
    """Forces with and without a skin along one path of 1,000 frames, in float32."""
    potential = load(arguments.copper)
    atoms = crystal(108)
    system, state = prepare(atoms, 600.0)
    engine = engine_of(potential, system, md.langevin(system, 2.0))
    state = engine.start(state)
    with_skin = MLPotCalculator(potential, skin=0.8)
    worst_calculator = worst_engine = 0.0
    atoms.calc = None
    frames = 0
    while frames < 1000 and not (clock.over and frames):
        state, _ = engine.block(state, 1)
        frames += 1
        atoms.positions = np.array(state.positions).astype(np.float64)
        fresh = graph.build(
            atoms.numbers, atoms.positions, atoms.cell.array, True, cutoff=potential.cutoff
        )
        plain = np.array(derivatives.energy_forces_stress(potential, fresh, stress=False).forces)
        worst_engine = max(worst_engine, np.abs(np.array(state.forces) - plain).max())
        moved = with_skin.get_property("forces", atoms)
        worst_calculator = max(worst_calculator, np.abs(moved - plain).max())
    yield {
        "frames": frames,
        "lists_of_the_engine": engine.search.n_builds,
        "largest_difference_engine_eV_A": float(worst_engine),
        "largest_difference_calculator_eV_A": float(worst_calculator),
    }


def overlap(arguments, clock) -> Iterator[dict]:
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
    yield {"atoms": len(atoms), "ms_per_step": times}
