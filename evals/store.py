"""A million frames in the HDF5 store: how long it opens, what an epoch of batches takes.

    python evals/store.py [--frames 1000000] [--neighbors 4.0] [--out evals/results/store.json]

Frames are rattled ethanol-sized molecules with random labels, written in one stream. Then, in a
process of its own, the store is opened, split and iterated in random batches as training does, with
the memory of the process taken along the way.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmark.environment import this_run

N_ATOMS = 9


def frames(n: int):
    from mlpot.datasets import Frame

    rng = np.random.default_rng(0)
    grid = np.array([(i, j, k) for i in range(3) for j in range(3) for k in range(1)], float)
    numbers = np.array([6, 6, 8, 1, 1, 1, 1, 1, 1])
    for _ in range(n):
        noise = rng.normal(scale=0.1, size=(2, N_ATOMS, 3))
        yield Frame(numbers, 1.5 * grid + noise[0], energy=noise[0].sum(), forces=noise[1])


def memory() -> float:
    """Memory of this process in MB: now, not at most."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def read(path: str, limit: float) -> dict:
    from mlpot import datasets
    from mlpot.datasets import Batches, StoredFrames

    result: dict = {"memory before [MB]": memory()}
    began = time.perf_counter()
    stored = StoredFrames([path])
    first = stored[len(stored) // 2]
    result["opening and one frame [s]"] = time.perf_counter() - began
    assert first.n_atoms == N_ATOMS
    result["memory when open [MB]"] = memory()
    began = time.perf_counter()
    train, valid = datasets.split(stored, 0.05, seed=0)
    rms = datasets.force_rms(train)
    E0s = datasets.least_squares_E0s(train)
    result["split, E0s and scale [s]"] = time.perf_counter() - began
    result["frames"] = {"train": len(train), "valid": len(valid)}
    result["force RMS"] = rms
    batches = Batches(train, 64, 4.0, E0s=E0s, seed=0)
    seen, series = 0, []
    began = time.perf_counter()
    for number, batch in enumerate(batches):
        seen += len(batch.indices)
        if number % max(1, len(batches) // 20) == 0:
            series.append(round(memory(), 1))
            print(f"{seen} frames, {series[-1]} MB", file=sys.stderr, flush=True)
        if time.perf_counter() - began > limit:
            break
    spent = time.perf_counter() - began
    result |= {
        "frames iterated": seen,
        "iteration [s]": spent,
        "frames a second": seen / spent,
        "memory along the epoch [MB]": series,
        "memory at most [MB]": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1.024e-3,
    }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--neighbors", type=float, default=None)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds of iteration at most")
    parser.add_argument("--store", help="keep the store in this file, and use it if it exists")
    parser.add_argument("--out")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read(given.read, given.limit)))
        return
    from mlpot.datasets import write_hdf5

    with tempfile.TemporaryDirectory() as folder:
        path = Path(given.store or Path(folder) / "store.h5")
        result: dict = {"about": this_run()}
        if not path.exists():
            began = time.perf_counter()
            write_hdf5(path, frames(given.frames), neighbors=given.neighbors)
            result["writing [s]"] = time.perf_counter() - began
            result["memory while writing, at most [MB]"] = (
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1.024e-3
            )
        result["file [MB]"] = path.stat().st_size / 1e6
        command = [sys.executable, __file__, "--read", str(path), "--limit", str(given.limit)]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        result |= json.loads(told.stdout)
    text = json.dumps(result, indent=1)
    print(text)
    if given.out:
        Path(given.out).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
