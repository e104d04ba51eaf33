"""Molecular dynamics measured: speed, cost by size, conservation, ensembles, memory.

    python evals/md.py --device gpu --copper copper.safetensors --ethanol ethanol.safetensors
    python evals/md.py --device cpu --parts speed scaling --limits speed=60 --out results

Each part prints what it finds and puts it into md-DEVICE.json in the folder --out while it runs, in
the place of what an earlier run of that part has left: parts can be run one by one, and what a run
that was killed has found is kept. Plots are drawn from that file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

import md_ensembles
import md_parts
import mlx.core as mx
from md_drawing import draw
from md_systems import Clock

import mlpot
from mlpot.files import atomic_write

PARTS = {
    "lists": md_parts.lists,
    "speed": md_parts.speed,
    "scaling": md_parts.scaling,
    "skin": md_parts.skin,
    "overlap": md_parts.overlap,
    "nve-scaling": md_ensembles.nve_scaling,
    "nve-ethanol": md_ensembles.nve_ethanol,
    "nve-crystal": md_ensembles.nve_crystal,
    "npt-memory": md_ensembles.npt_memory,
    "heat-capacity": md_ensembles.heat_capacity,
    "two-processes": md_ensembles.two_processes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"), required=True)
    parser.add_argument("--copper", default="runs/quickstart/copper/best.safetensors")
    parser.add_argument("--ethanol", default="runs/ethanol/best.safetensors")
    parser.add_argument("--parts", nargs="*", choices=[*PARTS, "all"], default=["all"])
    parser.add_argument("--out", type=Path, default=Path("evals/results"))
    parser.add_argument("--steps", type=int, default=100_000, help="of the NVE parts")
    parser.add_argument("--npt-steps", type=int, default=50_000)
    parser.add_argument("--largest", type=int, default=0, help="atoms of the largest crystal")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for each part")
    parser.add_argument("--limits", nargs="*", default=[], metavar="PART=SECONDS")
    arguments = parser.parse_args()
    limits = _limits(parser, arguments.limits)
    mx.set_default_device(mx.gpu if arguments.device == "gpu" else mx.cpu)
    arguments.largest = arguments.largest or (1_000_000 if arguments.device == "gpu" else 50_000)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"md-{arguments.device}.json"
    earlier = json.loads(path.read_text()) if path.exists() else {}
    results = {name: found for name, found in earlier.items() if name in PARTS}
    results["about"] = {
        "device": arguments.device,
        "machine": platform.machine(),
        "mlx": mx.__version__,
        "mlpot": mlpot.__version__,
        "unmeasured_kernels": os.environ.get("MLPOT_UNMEASURED_KERNELS") == "1",
        "name": str(mx.device_info().get("device_name", "")) if arguments.device == "gpu" else "",
    }
    chosen = list(PARTS) if "all" in arguments.parts else arguments.parts
    for name in chosen:
        print(f"== {name}", flush=True)
        clock = Clock(limits.get(name, arguments.limit))
        found: dict = {}

        def keep(name=name, clock=clock, found=found) -> None:
            found |= {"seconds": round(clock.seconds, 1), "date": time.strftime("%Y-%m-%d")}
            results[name] = found
            with atomic_write(path, "w") as file:
                file.write(json.dumps(results, indent=1) + "\n")

        try:
            for more in PARTS[name](arguments, clock):
                found |= more
                keep()
        except Exception as error:
            found["failed"] = f"{type(error).__name__}: {error}"
        keep()
        print(json.dumps({k: v for k, v in found.items() if "curve" not in k}), flush=True)
        mx.clear_cache()
    for picture in draw(results, arguments.out):
        print("drawn:", picture)


def _limits(parser: argparse.ArgumentParser, given: list[str]) -> dict[str, float]:
    """Seconds by part."""
    limits = {}
    for one in given:
        name, _, seconds = one.partition("=")
        if name not in PARTS:
            parser.error(f"--limits {one}: {name!r} is no part")
        try:
            limits[name] = float(seconds)
        except ValueError:
            parser.error(f"--limits {one}: write PART=SECONDS")
    return limits


if __name__ == "__main__":
    main()
