"""Reference numbers of e3nn 0.6 for the point models (needs torch).

Writes tests/fixtures/models.npz: for every case of tests/support/model_cases.py the output, the
gradient of <output, v> in positions and node features, and the Hessian of that number in the
positions times a direction. Inputs and weights are drawn by numpy from the seed of the case.

    python scripts/make_fixtures.py
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parent.parent
OUT = ROOT / "tests" / "fixtures" / "models.npz"
sys.path.insert(0, str(ROOT / "tests" / "support"))

import model_cases  # noqa: E402


def _scatter(src, index, dim=0, dim_size=None):
    size = int(index.max()) + 1 if dim_size is None else dim_size
    return src.new_zeros(size, *src.shape[1:]).index_add(0, index, src)


def _radius_graph(pos, r, batch, max_num_neighbors=None):
    return torch.tensor(model_cases.edge_list(pos.detach().numpy(), batch.numpy()))


def stand_ins() -> None:
    """e3nn's v2103 imports packages for a sum, pairs within a radius and a type annotation."""
    for name, attribute, value in (
        ("torch_scatter", "scatter", _scatter),
        ("torch_cluster", "radius_graph", _radius_graph),
        ("torch_geometric", "data", None),
        ("torch_geometric.data", "Data", dict),
    ):
        module = types.ModuleType(name)
        setattr(module, attribute, value)
        sys.modules.setdefault(name, module)


def model(case: dict) -> torch.nn.Module:
    """e3nn's model of a case with its weights."""
    module = case["module"]
    path = f"{module}.gate_points_networks" if module[0] == "v" else f"gate_points_{module}"
    factory = getattr(importlib.import_module(f"e3nn.nn.models.{path}"), case["name"])
    arguments = dict(case["arguments"])
    if module == "v2103":
        arguments = {k: _irreps(k, v) for k, v in arguments.items()}
    network = factory(**arguments)
    parameters = {k: tuple(p.shape) for k, p in network.named_parameters() if p.numel()}
    values = model_cases.weights(case, parameters)
    network.load_state_dict({k: torch.tensor(v) for k, v in values.items()}, strict=False)
    return network


def _irreps(name: str, value):
    from e3nn import o3

    return o3.Irreps(value) if name.startswith("irreps") else value


def evaluate(case: dict) -> np.ndarray:
    """All numbers of a case, flat."""
    data = {k: torch.tensor(v) for k, v in model_cases.inputs(case).items()}
    data["pos"].requires_grad_()
    data["x"].requires_grad_()
    if "node_input" in data:
        data["node_input"] = data["x"]
    out = model(case)(data)
    cotangent, direction = model_cases.directions(case, out.shape[1])
    value = (out * torch.tensor(cotangent)).sum()
    first = torch.autograd.grad(value, [data["pos"], data["x"]], create_graph=True)
    slope = (first[0] * torch.tensor(direction)).sum()
    second = torch.autograd.grad(slope, data["pos"])[0]
    return np.concatenate([t.detach().numpy().ravel() for t in (out, *first, second)])


def main() -> None:
    """Write the file."""
    warnings.filterwarnings("ignore")
    torch.set_default_dtype(torch.float64)
    stand_ins()
    found = {}
    for case in model_cases.cases():
        found[f"{case['seed']:02d}"] = evaluate(case)
        print(case["module"], case["name"], case["arguments"]["layers"], flush=True)
    np.savez_compressed(OUT, **found)


if __name__ == "__main__":
    main()
