"""Compiles the CUDA kernels of potentials without a GPU, into a folder to be taken along.

    python scripts/gpu_kernel_cache.py folder potential.safetensors random:v2106:32 ... \
        [--architecture sm_90a] [--atoms 64 1000] [--feature-dtype float16]

Traces energy and forces, with stress and without, Hessian-vector products and the gradient of a
training loss of each potential, on a rattled crystal of its elements, as on a machine with an
NVIDIA GPU. ``random:MODEL:CHANNELS`` is a new network of two layers, ``benchmark:PRESET`` (gpu,
full, smoke) the models of ``evals/run.py``. On the other machine MLPOT_CACHE_DIR has to name the
folder.

The text of a kernel depends on the potential, the types of arrays and which derivatives are
wanted; on sizes only by two limits: arrays of 2^31 elements, and 2^23 weights of edges in a layer.
So give sizes on both sides. Nothing of the device but its architecture goes in.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from unittest import mock

import mlx.core as mx
import numpy as np

import mlpot
from mlpot import derivatives, graph
from mlpot.kernels.gpu import code_cache, compilation
from mlpot.models import Potential, PotentialConfig


@contextmanager
def imagined_gpu(architecture: str, folder: Path) -> Iterator[None]:
    """An NVIDIA GPU that can be asked for kernels, kept in a folder; what they compute is zero."""
    real_stream = mx.stream

    def stream(where):
        return nullcontext() if where == mx.gpu else real_stream(where)

    def zeros(*, output_shapes, output_dtypes, **_):
        return [mx.zeros(s, d) for s, d in zip(output_shapes, output_dtypes, strict=True)]

    digits = architecture.removeprefix("sm_").rstrip("af")
    info = {"compute_capability_major": digits[:-1], "compute_capability_minor": digits[-1]}
    with (
        mock.patch.object(mx.cuda, "is_available", return_value=True),
        mock.patch.object(mx, "default_device", return_value=mx.Device(mx.gpu)),
        mock.patch.object(mx, "device_info", return_value=info),
        mock.patch.object(mx, "stream", stream),
        mock.patch.object(code_cache, "folder", return_value=folder / "cuda"),
        mock.patch.object(mx.fast, "cuda_kernel", return_value=zeros),
        mock.patch.object(mx.fast, "precompiled_cuda_kernel", zeros),
    ):
        compilation.device_architecture.cache_clear()
        try:
            yield
        finally:
            compilation.device_architecture.cache_clear()


def potential_of(name: str) -> Potential:
    """A potential from a file, or a random one."""
    if not name.startswith("random:"):
        return mlpot.load(name)
    _, model, channels = name.split(":")
    network = {"name": model, "channels": int(channels), "layers": 2}
    return Potential(
        PotentialConfig.model_validate(
            {"numbers": [6, 8], "cutoff": 5.0, "avg_num_neighbors": 30.0, "model": network}
        )
    )


def crystal(potential: Potential, n_atoms: int) -> graph.Graph:
    """A rattled cubic lattice of so many atoms (rounded up to a cube) of the first elements."""
    rng = np.random.default_rng(0)
    side = int(np.ceil(n_atoms ** (1 / 3)))
    cell = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    positions = 2.3 * cell + rng.normal(scale=0.05, size=cell.shape)
    numbers = np.resize(potential.numbers[:2], len(cell))
    box = 2.3 * side * np.eye(3)
    return graph.build(numbers, positions, box, True, cutoff=potential.cutoff)


def traces(potential: Potential, atoms: graph.Graph) -> dict[str, Callable[[], object]]:
    """What is asked of a potential."""
    direction = mx.ones_like(atoms.positions)

    def loss(with_stress: bool):
        def function(parameters):
            potential.update(parameters)
            found = derivatives.energy_forces_stress(potential, atoms, stress=with_stress)
            total = (found.forces**2).sum() + (found.interaction_energy**2).sum()
            return total if found.stress is None else total + (found.stress**2).sum()

        return lambda: mx.value_and_grad(function)(potential.trainable_parameters())

    return {
        "energy": lambda: potential.node_energies(atoms),
        "forces": lambda: derivatives.energy_forces_stress(potential, atoms, stress=False),
        "stress": lambda: derivatives.energy_forces_stress(potential, atoms),
        "HVP": lambda: derivatives.hvp(potential, atoms, direction),
        "training on forces": loss(False),
        "training on stress": loss(True),
    }


def benchmark(preset: str) -> Iterator[tuple[str, Potential | None, Callable[[], object]]]:
    """Phases of the models of the benchmark."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from evals.benchmark import cases, inputs, mlpot_models

    for case, phases in cases.chosen(preset, None, None):
        if case.structure:
            model = mlpot_models.build(case, inputs.draw(case))
            for phase in phases:
                if phase != "md":
                    function, arrays = model.phase(phase)
                    yield f"{case.name}, {phase}", None, partial(function, *arrays)


def tasks(
    name: str, sizes: list[int], feature_dtype: str = "float32"
) -> Iterator[tuple[str, Potential | None, Callable]]:
    """Description, potential (whose weights a trace may change) and function to be traced."""
    kind, _, preset = name.partition(":")
    if kind == "benchmark":
        yield from benchmark(preset)
        return
    potential = potential_of(name)
    potential.set_feature_dtype(feature_dtype)
    for n_atoms in sizes:
        atoms = crystal(potential, n_atoms)
        for what, trace in traces(potential, atoms).items():
            yield f"{name}, {atoms.n_atoms} atoms, {atoms.n_edges} edges, {what}", potential, trace


def main() -> int:
    """Trace everything, then say what lies in the folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the kernels go")
    parser.add_argument("potentials", nargs="+", help="files, random:MODEL:CHANNELS, ...")
    parser.add_argument("--architecture", default="sm_90a", help="of the GPU (H100, H200: sm_90a)")
    parser.add_argument("--feature-dtype", default="float32", help="of features, see Potential")
    parser.add_argument("--atoms", type=int, nargs="+", default=[64, 1000])
    options = parser.parse_args()
    for name in options.potentials:
        for what, potential, trace in tasks(name, options.atoms, options.feature_dtype):
            before, start = compilation.status(), time.perf_counter()
            weights = potential.parameters() if potential is not None else {}
            with imagined_gpu(options.architecture, options.folder):
                compilation.compiled_together(trace)
            if potential is not None:
                potential.update(weights)
            now = compilation.status()
            print(
                f"{what}: {now.compiled - before.compiled} compiled, "
                f"{now.from_disk - before.from_disk} found, {time.perf_counter() - start:.1f} s",
                flush=True,
            )
    if compilation.status().reason:
        print(compilation.status().reason, file=sys.stderr)
    print(f"{len(list((options.folder / 'cuda').iterdir()))} kernels in {options.folder}")
    return 1 if compilation.status().left_to_mlx else 0


if __name__ == "__main__":
    sys.exit(main())
