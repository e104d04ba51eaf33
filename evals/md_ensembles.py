"""The parts of evals/md.py on conserved quantities, ensembles and memory.

Each takes the arguments and a clock, and yields what it has found so far.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
from md_systems import Clock, crystal, engine_of, ethanol, load, prepare, run_blocks

from mlpot import md
from mlpot.units import KB


def nve_scaling(arguments, clock) -> Iterator[dict]:
    """Fluctuation of the total energy for time steps dt and 2 dt."""
    found = {}
    potential = load(arguments.copper)
    for dt in (1.0, 2.0, 4.0):
        if clock.over:
            return
        atoms = crystal(32)
        system, state = prepare(atoms, 400.0)
        engine = engine_of(potential, system, md.nve(system, dt))
        steps = round(2000 / dt)
        _, seen = run_blocks(engine, engine.start(state), steps, every=1)
        total = seen["total"][steps // 10 :]
        found[f"{dt} fs"] = float((total - total.mean()).std() * 1e3 / len(atoms))
        yield found
    found["ratio 2/1"] = found["2.0 fs"] / found["1.0 fs"]
    found["ratio 4/2"] = found["4.0 fs"] / found["2.0 fs"]
    yield found


def _nve(
    potential, atoms, dt: float, temperature: float, steps: int, clock: Clock
) -> Iterator[dict]:
    """As many of the steps as there is time for; the conserved quantity every 20 steps."""
    system, state = prepare(atoms, temperature)
    engine = engine_of(potential, system, md.nve(system, dt))
    state = engine.start(state)
    records: dict[str, list] = {"total": [], "temperature": []}
    piece, seconds, taken = max(400, steps // 50 // 20 * 20), 0.0, 0
    while taken < steps and not (clock.over and taken):
        begun = time.perf_counter()
        state, seen = run_blocks(engine, state, min(piece, steps - taken), every=20)
        seconds += time.perf_counter() - begun
        taken = min(steps, taken + piece)
        for name, values in records.items():
            values.extend(seen[name])
        yield {
            "atoms": len(atoms),
            "steps": taken,
            "timestep_fs": dt,
            "mean_temperature_K": float(np.mean(records["temperature"])),
            "steps_per_second": taken / seconds,
            "lists": engine.search.n_builds,
            "repeated_blocks": engine.n_repeated,
            "traces": engine.n_traces,
            **_conservation(np.array(records["total"]) * 1e3 / len(atoms), 20 * dt / 1000),
        }


def _conservation(total: np.ndarray, interval: float) -> dict:
    """Drift, fluctuation and jumps of energies in meV/atom, recorded every so many ps."""
    total = total - total[0]
    picoseconds = np.arange(1, len(total) + 1) * interval
    slope, error = _slope(picoseconds, total)
    changes = np.abs(np.diff(total))
    largest = int(np.argmax(changes))
    shown = slice(None, None, max(1, len(total) // 200))
    return {
        "drift_meV_per_atom_per_ps": slope,
        "drift_error": error,
        "fluctuation_meV_per_atom": float(total.std()),
        # A jump is a change between two records far beyond the usual ones.
        "largest_change_between_records_meV_per_atom": float(changes[largest]),
        "at_ps": float(picoseconds[largest + 1]),
        "usual_change_meV_per_atom": float(np.sqrt((np.diff(total) ** 2).mean())),
        "curve_ps": picoseconds[shown].tolist(),
        "curve_meV_per_atom": total[shown].tolist(),
    }


def _slope(x, y) -> tuple[float, float]:
    """Slope, and its error from the slopes of ten pieces' means."""
    slope = np.polyfit(x, y, 1)[0]
    pieces = np.array_split(np.arange(len(x)), 10)
    residual = np.array([(y[p] - slope * x[p]).mean() for p in pieces])
    return float(slope), float(residual.std(ddof=1) / (np.ptp(x) * np.sqrt(10 / 12)))


def nve_ethanol(arguments, clock) -> Iterator[dict]:
    """100,000 steps of ethanol in float32."""
    potential = load(arguments.ethanol)
    yield from _nve(potential, ethanol(potential), 0.5, 300.0, arguments.steps, clock)


def nve_crystal(arguments, clock) -> Iterator[dict]:
    """100,000 steps of a crystal of 256 atoms in float32."""
    yield from _nve(load(arguments.copper), crystal(256), 2.0, 300.0, arguments.steps, clock)


def npt_memory(arguments, clock) -> Iterator[dict]:
    """Memory and traces along NPT."""
    potential = load(arguments.copper)
    # So small on the CPU that many steps take minutes.
    atoms = crystal(108 if arguments.device == "gpu" else 4)
    system, state = prepare(atoms, 500.0)
    engine = engine_of(potential, system, md.npt(system, 2.0, 0.0, tau_pressure=0.5))
    state = engine.start(state)
    rows, piece = [], arguments.npt_steps // 10
    for _ in range(10):
        begun = time.perf_counter()
        state, seen = run_blocks(engine, state, piece, every=20)
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
                "conserved_meV_per_atom": float(seen["conserved"].mean() * 1e3 / len(atoms)),
                "steps_per_second": piece / (time.perf_counter() - begun),
            }
        )
        print(rows[-1], flush=True)
        found = {"steps": piece * len(rows), "pieces": rows}
        pressures = np.array([row["pressure_GPa"] for row in rows[1:]])
        if len(pressures) > 1:
            found["mean_pressure_GPa"] = float(pressures.mean())
            found["its_error_GPa"] = float(pressures.std(ddof=1) / np.sqrt(len(pressures)))
        yield found
        if clock.over:
            return


def _process_megabytes() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1e3
    return float("nan")


def heat_capacity(arguments, clock) -> Iterator[dict]:
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
        if clock.over and len(energies) > 10:
            break
        state, seen = engine.block(state, 20)
        if start > n_steps // 5:
            energies.append(np.array(seen[20][0]["total"]).astype(np.float64))
    energies = np.array(energies)
    middle = energies[:, replicas : 2 * replicas]
    variances = middle.var(axis=0, ddof=1) / (KB * 300.0) ** 2 / n
    means = energies.mean(axis=0) / n
    slopes = (means[2 * replicas :] - means[:replicas]) / (40 * KB)
    yield {
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
potential = load({model!r})
system, state = prepare(crystal(32), 300.0)
engine = engine_of(potential, system, md.langevin(system, 2.0))
state, _ = run_blocks(engine, engine.start(state), 200)
np.save(sys.argv[1], np.array(state.positions))
"""


def two_processes(arguments, clock) -> Iterator[dict]:
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
    yield {
        "exit_codes": codes,
        "largest_difference_A": float(
            max(np.abs(first - alone).max(), np.abs(second - alone).max())
        ),
    }
