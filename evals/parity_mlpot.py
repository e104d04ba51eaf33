"""Worker of the parity suite that has mlpot: computes the numbers of a stored case.

Reads requests from stdin, answers on stdout, one JSON line each; arrays go through npz files.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import mlx.core as mx  # noqa: E402
from mlx.utils import tree_unflatten  # noqa: E402
from operations import build as build_product  # noqa: E402

import mlpot  # noqa: E402
from mlpot import models, o3  # noqa: E402

DTYPES = {"float64": mx.float64, "float32": mx.float32}


def build(case, dtype, file):
    """The function of arrays for a case; the file has its arrays."""
    op, spec = case["op"], dict(case["spec"])
    if op == "spherical_harmonics":
        l = spec.pop("l")
        return lambda x: o3.spherical_harmonics(l, x, **spec)
    if op == "wigner_D":
        return lambda a, b, c: o3.wigner_D(spec["l"], a, b, c)
    if op == "wigner_3j":
        coupling = o3.wigner_3j(**spec, dtype=dtype)
        return lambda u, v: mx.einsum("...i,...j,ijk->...k", u, v, coupling)
    if op == "ReducedTensorProducts":
        return o3.ReducedTensorProducts(**spec)
    if op in ("ToS2Grid", "FromS2Grid"):
        return getattr(o3, op)(**spec | {"res": tuple(spec["res"])})
    if op in ("Convolution", "MessagePassing"):
        return build_model(case)
    if op in ("SimpleNetwork", "Network"):
        return build_network(case, file["inputs_0"])
    return build_product(case | {"facts": {"names": case["names"]}})[0]


def build_model(case):
    version, settings = case["spec"]["version"], dict(case["spec"]["settings"])
    if version.startswith("gate_points"):
        version = "gate_points"
        # The argument has another name in 2101.
        features = settings.pop("number_of_basis", None)
        settings |= {"number_of_edge_features": features} if features else {}
    model = getattr(getattr(models, version), case["op"])(**settings)
    graph = case["spec"]["graph"]
    src, dst = (mx.array(graph[k], dtype=mx.int32) for k in ("edge_src", "edge_dst"))

    def run(x, z, a, f, *weights):
        fill(model, case["names"], weights)
        return model(x, z, src, dst, a, f)

    return run


def build_network(case, positions):
    spec = case["spec"]
    version = spec["version"]
    if version.startswith("gate_points"):
        name = "Network2101" if version.endswith("2101") else "Network"
        model = getattr(models.gate_points, name)(**spec["settings"])
    else:
        model = getattr(models, version).SimpleNetwork(**spec["settings"])
    # Given, as the search for neighbours cannot see positions that are being differentiated.
    radius = spec["settings"]["max_radius"]
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
    pairs = np.stack(np.nonzero((distances < radius) & (distances > 0)))
    edge_index = mx.array(pairs.astype(np.int32))

    def run(pos, x, z, *weights):
        fill(model, case["names"], weights)
        return model({"pos": pos, "x": x, "z": z, "edge_index": edge_index})

    return run


def fill(model, names, weights):
    # Empty parameters do not exist here.
    filled = [(k, w) for k, w in zip(names, weights, strict=True) if w.size]
    model.update(tree_unflatten(filled))


def numbers(case, file, dtype):
    """Value, vector-Jacobian product (reverse mode), Jacobian-vector product (forward mode)."""
    n = sum(key.startswith("inputs_") for key in file)
    xs, ts = (
        [mx.array(file[f"{key}_{i}"], dtype=dtype) for i in range(n)]
        for key in ("inputs", "tangents")
    )
    f = build(case, dtype, file)
    out = f(*xs)
    result = {"value": out}
    # MLX does not differentiate in arrays without elements.
    which = [i for i, x in enumerate(xs) if x.size]
    pulled, pushed = [mx.zeros_like(x) for x in xs], mx.zeros_like(out)
    if which and out.size:

        def some(*given):
            full = list(xs)
            for i, x in zip(which, given, strict=True):
                full[i] = x
            return f(*full)

        given = [xs[i] for i in which]
        v = mx.array(file["cotangent"], dtype=dtype)
        for i, g in zip(which, mx.vjp(some, given, [v])[1], strict=True):
            pulled[i] = g
        pushed = mx.jvp(some, given, [ts[i] for i in which])[1][0]
    result |= {f"vjp_{i}": g for i, g in enumerate(pulled)} | {"jvp": pushed}
    for key, a in result.items():
        if a.dtype != dtype:
            raise TypeError(f"{key} is {a.dtype} instead of {dtype}")
    return {key: np.array(a, dtype=np.float64) for key, a in result.items()}


def compute(request):
    with np.load(request["path"]) as file:
        case = json.loads(str(file["case"]))
        try:
            with mx.stream(mx.cpu):
                found = numbers(case, file, DTYPES[request["dtype"]])
        except Exception:
            return {"error": traceback.format_exc(limit=-4)}
    np.savez(request["out"], **found)
    return {}


def main():
    versions = {"mlpot": mlpot.__version__, "mlx": mx.__version__}
    print(json.dumps(versions), flush=True)
    for line in sys.stdin:
        print(json.dumps(compute(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
