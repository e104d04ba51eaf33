"""Times steps of training: their parts on the host, and what the device is waited for.

    python evals/training_step.py models/acac.safetensors train_300K.xyz --optimizer muon
    MLX_USE_CUDA_GRAPHS=0 python evals/training_step.py ...      # one launch at a time

*batch* is the wait for the next batch, which a thread prepares; *build* the graph, recorded or
replayed; *enqueue* what MLX does to start it; *wait* what is left until the numbers are read.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import mlpot  # isort: skip  (before MLX, so that TF32 is off from the start)
import mlx.core as mx
import numpy as np
from benchmark.environment import this_run

from mlpot import datasets
from mlpot.config import validate
from mlpot.datasets import Batches
from mlpot.files import atomic_write
from mlpot.training import Objective, TrainConfig
from mlpot.training.ahead import ahead
from mlpot.training.state import TrainState
from mlpot.training.step import TrainStep

PARTS = ("batch", "build", "enqueue", "wait")


def measure(given: argparse.Namespace) -> dict:
    potential = mlpot.load(given.model)
    config = validate(
        {
            "train_file": given.data,
            "r_max": potential.cutoff,
            "ema_decay": 0.995,
            "optimizer": {"name": given.optimizer},
        },
        TrainConfig,
        "evals/training_step.py",
    )
    state = TrainState(potential, config)
    objective = Objective(config.loss, config.weights())
    step = TrainStep(state, objective, False, config.clip_grad, record=given.record)
    batches = Batches(
        [frame for frame in datasets.read([given.data]) if len(frame.numbers) > 1],
        given.batch_size,
        potential.cutoff,
        E0s=potential.config.E0s,
        dtype=mx.float32,
        seed=1,
        pad=given.record,
    )
    potential.set_radial_intervals(potential.needed_radial_intervals())

    def endless() -> Iterator:
        epoch = 0
        while True:
            yield from batches.epoch(epoch)
            epoch += 1

    supply: Any = ahead(endless())
    rate, decay = mx.array(0.001), mx.array(0.99)

    def one() -> list[float]:
        times = [time.perf_counter()]
        batch = next(supply)
        times.append(time.perf_counter())
        result = step([(batch.graph, batch.labels)], rate, decay)
        times.append(time.perf_counter())
        mx.async_eval(result, state.arrays)
        times.append(time.perf_counter())
        for number in (result.loss, result.gradient_norm, result.sums):
            np.array(number)
        return [*times, time.perf_counter()]

    begun = time.perf_counter()
    for _ in range(given.warm_up):
        one()
    first = time.perf_counter() - begun
    times = 1e3 * np.diff([one() for _ in range(given.steps)], axis=1)
    supply.close()
    return {
        "ms": float(np.median(times.sum(axis=1))),
        "parts_ms": dict(zip(PARTS, np.median(times, axis=0).round(3).tolist(), strict=True)),
        "warm_up_s": first,
        "traces": step.n_traces,
        "optimizer": given.optimizer,
        "batch_size": given.batch_size,
        "device": str(mx.default_device()),
        "cuda_graphs": os.environ.get("MLX_USE_CUDA_GRAPHS", "default"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("model", help="a potential, trained or not")
    parser.add_argument("data", help="frames to train on")
    parser.add_argument("--optimizer", default="adam")
    parser.add_argument("--batch-size", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=25, help="steps before the clock starts")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--no-record", dest="record", action="store_false")
    parser.add_argument("--out", help="JSON file")
    given = parser.parse_args()
    found = measure(given)
    print(json.dumps(found, indent=1))
    if given.out:
        about = this_run()
        with atomic_write(given.out, "w") as file:
            json.dump({"about": about, "rows": [found]}, file, indent=1)


if __name__ == "__main__":
    main()
