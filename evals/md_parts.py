"""The parts of evals/md.py: each takes the arguments and returns what it found."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx
import numpy as np
from ase import units
from ase.build import bulk
from ase.md.verlet import VelocityVerlet
from md_systems import crystal, engine_of, ethanol, load, prepare

from mlpot import derivatives, graph, md
from mlpot.calculators import MLPotCalculator
from mlpot.units import KB


def run_blocks(engine, state, steps: int, block: int = 20, every: int = 0):
    """Take steps; returns the last state and observables of every so many steps."""
    rows = []
    for start in range(0, steps, block):
        count = min(block, steps - start)
        wanted = (
            (lambda k, s=start: every > 0 and (s + k) % every == 0) if every else (lambda k: False)
        )
        state, seen = engine.block(state, count, wanted)
        for k, (found, _) in seen.items():
            if every and (start + k) % every == 0:
                rows.append({n: float(a[0]) for n, a in found.items()})
    return state, {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}


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


def nve_scaling(arguments) -> dict:
    """Fluctuation of the total energy for time steps dt and 2 dt."""
    found = {}
    potential = load(arguments.copper)
    for dt in (1.0, 2.0, 4.0):
        atoms = crystal(32)
        system, state = prepare(atoms, 400.0)
        engine = engine_of(potential, system, md.nve(system, dt))
        steps = round(2000 / dt)
        _, seen = run_blocks(engine, engine.start(state), steps, every=1)
        total = seen["total"][steps // 10 :]
        found[f"{dt} fs"] = float((total - total.mean()).std() * 1e3 / len(atoms))
    found["ratio 2/1"] = found["2.0 fs"] / found["1.0 fs"]
    found["ratio 4/2"] = found["4.0 fs"] / found["2.0 fs"]
    return found


def _nve(potential, atoms, dt: float, temperature: float, steps: int) -> dict:
    system, state = prepare(atoms, temperature)
    engine = engine_of(potential, system, md.nve(system, dt))
    state = engine.start(state)
    begun = time.perf_counter()
    state, seen = run_blocks(engine, state, steps, every=20)
    seconds = time.perf_counter() - begun
    total = seen["total"] - seen["total"][0]
    picoseconds = np.arange(1, len(total) + 1) * 20 * dt / 1000
    slope, error = _slope(picoseconds, total * 1e3 / len(atoms))
    return {
        "atoms": len(atoms),
        "steps": steps,
        "timestep_fs": dt,
        "mean_temperature_K": float(seen["temperature"].mean()),
        "drift_meV_per_atom_per_ps": slope,
        "drift_error": error,
        "fluctuation_meV_per_atom": float(total.std() * 1e3 / len(atoms)),
        "steps_per_second": steps / seconds,
        "lists": engine.search.n_builds,
        "traces": engine.n_traces,
        "curve_ps": picoseconds[:: max(1, len(total) // 200)].tolist(),
        "curve_meV_per_atom": (total * 1e3 / len(atoms))[:: max(1, len(total) // 200)].tolist(),
    }


def _slope(x, y) -> tuple[float, float]:
    """Slope, and its error from the slopes of ten pieces' means."""
    slope = np.polyfit(x, y, 1)[0]
    pieces = np.array_split(np.arange(len(x)), 10)
    residual = np.array([(y[p] - slope * x[p]).mean() for p in pieces])
    return float(slope), float(residual.std(ddof=1) / (np.ptp(x) * np.sqrt(10 / 12)))


def nve_ethanol(arguments) -> dict:
    """100,000 steps of ethanol in float32."""
    potential = load(arguments.ethanol)
    return _nve(potential, ethanol(potential), 0.5, 300.0, arguments.steps)


def nve_crystal(arguments) -> dict:
    """100,000 steps of a crystal of 256 atoms in float32."""
    return _nve(load(arguments.copper), crystal(256), 2.0, 300.0, arguments.steps)


def npt_memory(arguments) -> dict:
    """Memory and traces along NPT."""
    potential = load(arguments.copper)
    # So small on the CPU that many steps take minutes.
    atoms = crystal(108 if arguments.device == "gpu" else 4)
    system, state = prepare(atoms, 500.0)
    engine = engine_of(potential, system, md.npt(system, 2.0, 0.0, tau_pressure=0.5))
    state = engine.start(state)
    rows, pieces = [], 10
    for _ in range(pieces):
        state, seen = run_blocks(engine, state, arguments.npt_steps // pieces, every=20)
        rows.append(
            {
                "active_MB": mx.get_active_memory() / 1e6,
                "cache_MB": mx.get_cache_memory() / 1e6,
                "process_MB": _process_megabytes(),
                "traces": engine.n_traces,
                "lists": engine.search.n_builds,
                "volume_A3_per_atom": float(seen["volume"].mean() / len(atoms)),
                "pressure_GPa": float(seen["pressure"].mean()),
                "temperature_K": float(seen["temperature"].mean()),
            }
        )
        print(rows[-1], flush=True)
    pressures = np.array([row["pressure_GPa"] for row in rows[1:]])
    return {
        "steps": arguments.npt_steps,
        "pieces": rows,
        "mean_pressure_GPa": float(pressures.mean()),
        "its_error_GPa": float(pressures.std(ddof=1) / np.sqrt(len(pressures))),
    }


def _process_megabytes() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1e3
    return float("nan")


def heat_capacity(arguments) -> dict:
    """By fluctuation and by numerical derivative, of replicas of a small crystal."""
    potential = load(arguments.copper)
    replicas, n_steps = (48, 6000) if arguments.device == "gpu" else (6, 2000)
    atoms = crystal(32)
    n = len(atoms)
    temperatures = np.repeat([280.0, 300.0, 320.0], replicas)
    system = md.System(
        np.tile(atoms.numbers, 3 * replicas),
        np.tile(atoms.get_masses(), 3 * replicas),
        node_graph=np.repeat(np.arange(3 * replicas), n),
        pbc=np.tile(atoms.pbc, (3 * replicas, 1)),
    )
    rng = np.random.default_rng(0)
    spread = np.sqrt(KB * np.repeat(temperatures, n)[:, None] / system.host_masses[:, None])
    state = md.initial_state(
        system,
        np.tile(atoms.positions, (3 * replicas, 1)),
        rng.normal(size=(system.n_atoms, 3)) * spread,
        np.array(atoms.cell),
        kT=KB * temperatures,
    )
    engine = engine_of(potential, system, md.langevin(system, 2.0, friction=5.0))
    state = engine.start(state)
    energies = []
    for start in range(0, n_steps, 20):
        state, seen = engine.block(state, 20)
        if start > n_steps // 5:
            energies.append(np.array(seen[20][0]["total"]).astype(np.float64))
    energies = np.array(energies)
    middle = energies[:, replicas : 2 * replicas]
    variances = middle.var(axis=0, ddof=1) / (KB * 300.0) ** 2 / n
    means = energies.mean(axis=0) / n
    slopes = (means[2 * replicas :] - means[:replicas]) / (40 * KB)
    return {
        "replicas": replicas,
        "by_fluctuation_k_per_atom": float(variances.mean()),
        "its_error": float(variances.std(ddof=1) / np.sqrt(replicas)),
        "by_derivative_k_per_atom": float(slopes.mean()),
        "error_of_that": float(slopes.std(ddof=1) / np.sqrt(replicas)),
        "kinetic_part": (3 * n - 3) / (2 * n),
    }


ONE_OF_TWO = """
import sys
sys.path.insert(0, {here!r})
import mlx.core as mx
mx.set_default_device(mx.{device})
import numpy as np
from md_systems import *
from md_parts import run_blocks
potential = load({model!r})
system, state = prepare(crystal(32), 300.0)
engine = engine_of(potential, system, md.langevin(system, 2.0))
state, _ = run_blocks(engine, engine.start(state), 200)
np.save(sys.argv[1], np.array(state.positions))
"""


def two_processes(arguments) -> dict:
    """The same run alone, and twice at once."""
    code = ONE_OF_TWO.format(
        here=str(Path(__file__).parent), device=arguments.device, model=arguments.copper
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.npy" for name in ("alone", "first", "second")]

        def begin(path):
            return subprocess.Popen([sys.executable, "-c", code, str(path)])

        codes = [begin(paths[0]).wait()]
        together = [begin(path) for path in paths[1:]]
        codes += [process.wait() for process in together]
        alone, first, second = (np.load(path) for path in paths)
    return {
        "exit_codes": codes,
        "largest_difference_A": float(
            max(np.abs(first - alone).max(), np.abs(second - alone).max())
        ),
    }
