"""Jobs of e3nn-mlx, the MLX port of e3nn."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import e3nn_mlx
import mlx.core as mx
import numpy as np
from e3nn_mlx import o3
from e3nn_mlx.graph import scatter_sum
from e3nn_mlx.models.v2106.gate_points_networks import SimpleNetwork
from mlx.utils import tree_flatten, tree_unflatten

from . import model_settings
from .cases import Case
from .jobs import Job
from .random_numbers import normal, weights


def start(name: str) -> dict[str, str]:
    """Choose the device; versions."""
    del name
    mx.set_default_device(mx.gpu if os.environ["BENCHMARK_DEVICE"] == "gpu" else mx.cpu)
    return {"e3nn-mlx": version("e3nn-mlx"), "e3nn-mlx's mlx": mx.__version__}


def paths() -> list[dict]:
    """It does not say which kernels it takes; its own are for Metal."""
    return []


def peak(call: Callable[[], Any]) -> int:
    """Bytes of MLX's arrays at the peak of a call."""
    mx.reset_peak_memory()
    call()
    return int(mx.get_peak_memory())


def release() -> None:
    """Leave the memory of a GPU to the others."""
    mx.clear_cache()


def prepare(case: Case, phase: str, arrays: dict[str, np.ndarray], compiled: bool) -> Job:
    """The job of a case."""
    assert not compiled
    function, given = (
        _network(case, phase, arrays)
        if case.structure
        else _phase(case, phase, *_operation(case, arrays))
    )
    mx.eval(given)

    def begin() -> dict[str, mx.array]:
        result = function(*given)
        if mx.default_device() == mx.Device(mx.gpu):
            mx.async_eval(result)
        return result

    return Job(begin, mx.eval, lambda result: {k: np.array(a) for k, a in result.items()})


def _phase(case: Case, phase: str, function: Callable, inputs: dict[str, np.ndarray]):
    def plain(*xs) -> mx.array:
        out = function(*xs)
        return out.array if isinstance(out, e3nn_mlx.IrrepsArray) else out

    given = [mx.array(x) for x in inputs.values()]
    if phase == "forward":
        return lambda *xs: {"out": plain(*xs)}, given
    cotangent = mx.array(normal(case.seed, "cotangent", tuple(plain(*given).shape)))

    def adjoints(cotangent, *xs):
        out, gradients = mx.vjp(plain, list(xs), [cotangent])
        return {"out": out[0]} | {f"d_{k}": g for k, g in zip(inputs, gradients, strict=True)}

    return adjoints, [cotangent, *given]


def _operation(case: Case, arrays: dict[str, np.ndarray]):
    s = case.settings
    if case.name == "spherical_harmonics":
        degrees = list(range(s["lmax"] + 1))
        return lambda v: o3.spherical_harmonics(degrees, v), arrays
    if case.name == "scatter_sum":
        index = mx.array(arrays["index"])
        return lambda x: scatter_sum(x, index, s["segments"]), {"x": arrays["x"]}
    if case.name == "matrix_product":
        return lambda x, weight: x @ weight, arrays
    if case.name == "full_tensor_product":
        return o3.FullTensorProduct(*s["irreps"]), arrays
    if case.name == "weighted_tensor_product_uvu":
        module = _uvu(s)
        size: Any = (s["n"], module.weight_numel)
    else:
        kind = o3.Linear if case.name == "linear" else o3.FullyConnectedTensorProduct
        module = kind(*s["irreps"], internal_weights=False, shared_weights=True)
        size = module.weight_numel
    return module, arrays | {"weight": normal(case.seed, "weight", size)}


def _uvu(settings: dict):
    irreps = o3.Irreps(settings["irreps"])
    edge = o3.Irreps.spherical_harmonics(settings["lmax"])
    kept = {block.ir for block in irreps}
    triples = [
        (i, j, a.mul, ir)
        for i, a in enumerate(irreps)
        for j, b in enumerate(edge)
        for ir in a.ir * b.ir
        if ir in kept
    ]
    # Python's sort keeps the order of equal irreps, as e3nn's does.
    place = sorted(range(len(triples)), key=lambda k: triples[k][3])
    out = o3.Irreps([(triples[k][2], triples[k][3]) for k in place])
    paths = [(i, j, place.index(k), "uvu", True) for k, (i, j, _, _) in enumerate(triples)]
    return o3.TensorProduct(irreps, edge, out, paths, internal_weights=False, shared_weights=False)


def _network(case: Case, phase: str, arrays: dict[str, np.ndarray]):
    network = SimpleNetwork(**model_settings.arguments(case, arrays))
    flat: Any = tree_flatten(network.parameters())
    drawn = weights(case.seed, {name: a.size for name, a in flat})
    shaped = [(name, mx.array(drawn[name].reshape(a.shape))) for name, a in flat]
    network.update(tree_unflatten(shaped))
    r, targets = mx.array(arrays["positions"]), mx.array(arrays["targets"])
    senders, receivers = mx.array(arrays["senders"]), mx.array(arrays["receivers"])
    ones, batch = mx.ones((len(r), 1)), mx.zeros((len(r),), dtype=mx.int32)

    def nodes(r):
        return network.forward_with_edges(r, ones, batch, senders, receivers, num_graphs=1).array

    if phase == "forward":
        return lambda r: {"out": nodes(r)}, [r]
    if phase == "forces":
        value = mx.value_and_grad(lambda r: nodes(r).sum())

        def forces(r):
            energy, gradient = value(r)
            return {"energy": energy, "forces": -gradient}

        return forces, [r]
    names = [name for name, _ in shaped]

    def of_weights(own):
        network.update(tree_unflatten(list(zip(names, own, strict=True))))
        return mx.mean((nodes(r) - targets) ** 2)

    def train(*own):
        loss, gradients = mx.value_and_grad(of_weights)(list(own))
        return {"loss": loss} | dict(zip(names, gradients, strict=True))

    return train, [array for _, array in shaped]
