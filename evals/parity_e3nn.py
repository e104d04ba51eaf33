"""Worker of the parity suite that has torch and e3nn: draws cases and computes their numbers.

Reads requests from stdin, answers on stdout, one JSON line each; arrays go through npz files.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")

import e3nn  # noqa: E402
import torch  # noqa: E402
from e3nn import o3  # noqa: E402

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "support")]
from drawn_inputs import draw  # noqa: E402
from e3nn_operations import build as build_product  # noqa: E402
from fixtures_models import stand_ins  # noqa: E402
from parity_drawing import draw_case  # noqa: E402

LARGEST = 20_000  # numbers of one input or output
PLAIN = ("soft_one_hot_linspace", "soft_unit_step")
FILES = {
    "Convolution": ".points_convolution",
    "MessagePassing": ".gate_points_message_passing",
    "SimpleNetwork": ".gate_points_networks",
}


def build(case):
    """(function of arrays, [(kind of numbers, shape)], names of parameters)."""
    op, spec, lead = case["op"], dict(case["spec"]), tuple(case["lead"])
    if op == "spherical_harmonics":
        l = spec.pop("l")
        return lambda x: o3.spherical_harmonics(l, x, **spec), [("normal", (*lead, 3))], []
    if op == "wigner_D":
        kinds = ["angle", "polar", "angle"]
        return lambda a, b, c: o3.wigner_D(spec["l"], a, b, c), [(k, lead) for k in kinds], []
    if op == "wigner_3j":
        coupling = o3.wigner_3j(**spec)
        shapes = [("normal", (*lead, n)) for n in coupling.shape[:2]]
        return lambda u, v: torch.einsum("...i,...j,ijk->...k", u, v, coupling), shapes, []
    if op == "ReducedTensorProducts":
        module = o3.ReducedTensorProducts(**spec)
        return module, [("normal", (*lead, ir.dim)) for ir in module.irreps_in], []
    if op == "ToS2Grid":
        module = o3.ToS2Grid(**spec | {"res": tuple(spec["res"])})
        return module, [("normal", (*lead, (spec["lmax"] + 1) ** 2))], []
    if op == "FromS2Grid":
        module = o3.FromS2Grid(**spec | {"res": tuple(spec["res"])})
        return module, [("normal", (*lead, *spec["res"]))], []
    if op in ("Convolution", "MessagePassing"):
        return build_model(op, spec)
    if op in ("SimpleNetwork", "Network"):
        return build_network(op, spec)
    f, shapes, facts = build_product(op, spec, lead)
    names = facts.get("names", [])
    kinds = ["radius" if op in PLAIN else "normal"] * (len(shapes) - len(names))
    kinds += ["positive" if name == "running_var" else "normal" for name in names]
    return f, list(zip(kinds, shapes, strict=True)), names


def point_model(op, version, settings):
    """e3nn's model, the names of its parameters, and how to call it with given ones."""
    module = f"e3nn.nn.models.{version}{FILES[op] if version.startswith('v') else ''}"
    if op != "Convolution":
        # Not every version takes text.
        settings = {k: as_irreps(v) if k.startswith("irreps") else v for k, v in settings.items()}
    model = getattr(importlib.import_module(module), op)(**settings)
    named = dict(model.named_parameters())

    def call(weights, *inputs):
        return torch.func.functional_call(model, dict(zip(named, weights, strict=True)), inputs)

    return named, call


def as_irreps(value):
    if isinstance(value, list):
        return [o3.Irreps(v) for v in value]
    return value and o3.Irreps(value)


def build_model(op, spec):
    settings, graph = spec["settings"], spec["graph"]
    named, call = point_model(op, spec["version"], settings)
    src, dst = (torch.tensor(graph[k], dtype=torch.long) for k in ("edge_src", "edge_dst"))

    def run(x, z, a, f, *weights):
        return call(weights, x, z, src, dst, a, f)

    first = settings.get("irreps_node_sequence", [None])[0]
    first = first or settings.get("irreps_in") or settings["irreps_node_input"]
    scalars = settings.get("number_of_basis") or settings.get("number_of_edge_features")
    scalars = scalars or settings["fc_neurons"][0]
    n, m = graph["n_nodes"], len(graph["edge_src"])
    node, edge = (o3.Irreps(settings[f"irreps_{k}_attr"]).dim for k in ("node", "edge"))
    shapes = [(n, o3.Irreps(first).dim), (n, node), (m, edge), (m, scalars)]
    shapes += [tuple(p.shape) for p in named.values()]
    return run, [("normal", shape) for shape in shapes], list(named)


def build_network(op, spec):
    settings, n = spec["settings"], spec["n_nodes"]
    named, call = point_model(op, spec["version"], settings)

    def run(pos, x, z, *weights):
        return call(weights, {"pos": pos, "x": x, "z": z})

    widths = [o3.Irreps(settings.get(k) or "0e").dim for k in ("irreps_in", "irreps_node_attr")]
    shapes = [(n, 3), *((n, width) for width in widths), *(tuple(p.shape) for p in named.values())]
    return run, [("normal", shape) for shape in shapes], list(named)


def numbers(case, arrays, dtype=torch.float64):
    """Value, <cotangent, J>, and J tangent; no derivatives where there is no output."""
    f, _, _ = build(case)
    xs = [torch.tensor(x, dtype=dtype, requires_grad=True) for x in arrays["inputs"]]
    out = f(*xs)
    v = torch.tensor(arrays["cotangent"], dtype=dtype, requires_grad=True)
    ts = [torch.tensor(t, dtype=dtype) for t in arrays["tangents"]]
    pulled = gradients((out * v).sum(), xs)
    # J^T v is linear in v: its derivative in v, transposed, is J.
    pushed = gradients(sum((g * t).sum() for g, t in zip(pulled, ts, strict=True)), [v])[0]
    as_numpy = [t.detach().numpy().astype(np.float64) for t in (out, *pulled, pushed)]
    return {"value": as_numpy[0], "vjp": as_numpy[1:-1], "jvp": as_numpy[-1]}


def gradients(number, xs):
    """Derivatives of a number, zero where it does not depend on an input."""
    found = [None] * len(xs)
    if number.requires_grad:
        found = torch.autograd.grad(number, xs, create_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, xs, strict=True)]


def single(x):
    """Numbers that float32 holds exactly: both precisions get the same inputs."""
    return np.asarray(x).astype(np.float32).astype(np.float64)


def draw_and_compute(request):
    """A case that e3nn accepts, its arrays and e3nn's numbers, written to a file."""
    rng = np.random.default_rng([request["seed"], request["number"]])
    refused = []
    while True:
        case = draw_case(rng)
        torch.manual_seed(0)
        try:
            f, kinds, names = build(case)
            if any(np.prod(shape) > LARGEST for _, shape in kinds):
                raise ValueError("too large")
            inputs = [single(draw(kind, shape, rng)) for kind, shape in kinds]
            out = f(*[torch.tensor(x) for x in inputs])
            if out.numel() > LARGEST:
                raise ValueError("too large")
            arrays = {
                "inputs": inputs,
                "tangents": [single(rng.normal(size=x.shape)) for x in inputs],
                "cotangent": single(rng.normal(size=tuple(out.shape))),
            }
            result = numbers(case, arrays)
        except Exception as error:
            refused.append([case["op"], type(error).__name__, str(error)[:200]])
            continue
        if all(np.isfinite(a).all() for a in [result["value"], result["jvp"], *result["vjp"]]):
            break
        refused.append([case["op"], "not finite", ""])
    case |= {"names": names, "seed": request["seed"], "number": request["number"]}
    stored = {f"e3nn_{k}": a for k, a in flat(result).items()} | flat(arrays)
    np.savez_compressed(request["path"], case=json.dumps(case), **stored)
    return {"case": case, "refused": refused}


def flat(arrays):
    """Lists spread to one entry each."""
    spread = {}
    for key, value in arrays.items():
        if isinstance(value, list):
            spread |= {f"{key}_{i}": a for i, a in enumerate(value)}
        else:
            spread[key] = value
    return spread


def recompute(request):
    """e3nn's numbers for a stored case, in the precision asked for."""
    with np.load(request["path"]) as file:
        case = json.loads(str(file["case"]))
        n = sum(key.startswith("inputs_") for key in file)
        arrays = {k: [file[f"{k}_{i}"] for i in range(n)] for k in ("inputs", "tangents")}
        arrays["cotangent"] = file["cotangent"]
    dtype = getattr(torch, request["dtype"])
    torch.set_default_dtype(dtype)
    try:
        result = flat(numbers(case, arrays, dtype))
    finally:
        torch.set_default_dtype(torch.float64)
    np.savez(request["out"], **result)
    return {"case": case}


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    stand_ins()
    versions = {"torch": torch.__version__, "e3nn": e3nn.__version__}
    print(json.dumps(versions), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = recompute(request) if "dtype" in request else draw_and_compute(request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
