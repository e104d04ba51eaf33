"""Molecular dynamics measured: speed, cost by size, conservation, ensembles, memory.

    python evals/md.py --device gpu --copper copper.safetensors --ethanol ethanol.safetensors
    python evals/md.py --device cpu --parts speed scaling --out results

Each part prints what it finds and adds it to md-DEVICE.json in the folder --out, so that parts can
be run one by one; plots are drawn from that file.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import md_ensembles
import md_parts
import mlx.core as mx
from md_drawing import draw

import mlpot

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
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for a part of speed")
    arguments = parser.parse_args()
    mx.set_default_device(mx.gpu if arguments.device == "gpu" else mx.cpu)
    arguments.largest = arguments.largest or (1_000_000 if arguments.device == "gpu" else 50_000)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"md-{arguments.device}.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results["about"] = {
        "device": arguments.device,
        "machine": platform.machine(),
        "mlx": mx.__version__,
        "mlpot": mlpot.__version__,
        "name": str(mx.device_info().get("device_name", "")) if arguments.device == "gpu" else "",
    }
    chosen = list(PARTS) if "all" in arguments.parts else arguments.parts
    for name in chosen:
        begun = time.perf_counter()
        print(f"== {name}", flush=True)
        try:
            found = PARTS[name](arguments)
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"}
        found["seconds"] = round(time.perf_counter() - begun, 1)
        results[name] = found
        print(json.dumps(found, indent=1), flush=True)
        path.write_text(json.dumps(results, indent=1) + "\n")
        mx.clear_cache()
    for picture in draw(results, arguments.out):
        print("drawn:", picture)


if __name__ == "__main__":
    main()
