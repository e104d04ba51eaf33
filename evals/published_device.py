"""Times published potentials through the calculator on the device at hand, by size.

    python evals/published_device.py sevennet-0 nequix-mp-1 --out speed.json [--largest]

Rattled silicon, whose atoms move by some thousandths of an Angstrom at each call, so that lists of
pairs are made anew now and then; with --rebuild at each call. Energy, forces and stress are asked
for.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings

import mlpot  # isort: skip  (before MLX, so that TF32 is off from the start)
import mlx.core as mx
import numpy as np
from ase.build import bulk

from mlpot.calculators import MLPotCalculator

CALLS, SETTLED = 14, 5


def measure(model: str, repeat: int, skin: float, calls: int = CALLS) -> dict:
    """Times and memory for ``repeat``^3 cubic cells of 8 atoms."""
    atoms = bulk("Si", a=5.43, cubic=True) * (repeat, repeat, repeat)
    atoms.rattle(0.05, seed=0)
    atoms.calc = MLPotCalculator(model, skin=skin)
    rng = np.random.default_rng(0)
    mx.clear_cache()
    mx.reset_peak_memory()
    times = []
    for _ in range(calls):
        atoms.positions += rng.normal(size=atoms.positions.shape) * 0.002
        begun = time.perf_counter()
        atoms.get_potential_energy()
        atoms.get_forces()
        atoms.get_stress()
        times.append(1e3 * (time.perf_counter() - begun))
    return {
        "model": model,
        "atoms": len(atoms),
        "skin": skin,
        "median_ms": statistics.median(times[SETTLED:]),
        "least_ms": min(times),
        "first_ms": times[0],
        "peak_GB": mx.get_peak_memory() / 1e9,
    }


def largest(model: str, limit_s: float) -> list[dict]:
    """Larger and larger crystals, until one does not fit or the time is over."""
    rows: list[dict] = []
    begun = time.perf_counter()
    for repeat in (20, 24, 28, 32, 34, 36, 38, 40, 44):
        if time.perf_counter() - begun > limit_s:
            break
        try:
            rows.append(measure(model, repeat, 0.5, calls=SETTLED + 2))
        except (RuntimeError, MemoryError) as error:
            print(f"{8 * repeat**3} atoms: {str(error)[:100]}", flush=True)
            break
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="files or names of published potentials")
    parser.add_argument(
        "--repeat", type=int, nargs="+", default=[3, 5, 8, 11], help="cells an axis"
    )
    parser.add_argument("--rebuild", action="store_true", help="with a new list at each call too")
    parser.add_argument("--largest", action="store_true", help="look for the largest that fits")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of that")
    parser.add_argument("--out", help="JSON file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for model in arguments.models:
        for skin in (0.5, 0.0) if arguments.rebuild else (0.5,):
            for repeat in arguments.repeat:
                rows.append(measure(model, repeat, skin))
                print(rows[-1], flush=True)
        if arguments.largest:
            rows += largest(model, arguments.limit)
    if arguments.out:
        about = {"mlpot": mlpot.__version__, "device": str(mx.default_device())}
        with open(arguments.out, "w") as file:
            json.dump({"about": about, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
