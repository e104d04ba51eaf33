"""Arguments of e3nn's models, which mlpot's take under the same names."""

from __future__ import annotations

import numpy as np

from .cases import Case

#: Of the molecular dynamics, in units of its masses of one.
TIME_STEP = 1e-2


def num_neighbors(case: Case) -> float:
    """Average number of neighbours."""
    return case.structure["n_edges"] / case.structure["n_atoms"]


def hidden(settings: dict) -> str:
    """Hidden irreps, odd before even for each degree, as in e3nn."""
    degrees = range(settings["lmax"] + 1)
    return " + ".join(f"{settings['mul']}x{l}{p}" for l in degrees for p in "oe")


def arguments(case: Case, arrays: dict[str, np.ndarray]) -> dict:
    """Keyword arguments of the model's class."""
    s = case.settings
    common = {
        "max_radius": float(arrays["cutoff"]),
        "num_neighbors": num_neighbors(case),
        "num_nodes": float(case.structure["n_atoms"]),
        "layers": s["layers"],
    }
    if case.name == "gate_points_2102":
        return common | {
            "irreps_in": "1x0e",
            "irreps_hidden": hidden(s),
            "irreps_out": "1x0e",
            "irreps_node_attr": "1x0e",
            "irreps_edge_attr": harmonics(s["lmax"]),
            "number_of_basis": 10,
            "radial_layers": 1,
            "radial_neurons": 100,
            "reduce_output": False,
        }
    common |= {"mul": s["mul"], "lmax": s["lmax"], "pool_nodes": False}
    if case.name == "v2106_simple_network":
        return common | {"irreps_in": "1x0e", "irreps_out": "1x0e"}
    return common | {
        "irreps_node_input": "1x0e",
        "irreps_node_attr": s["irreps_node_attr"],
        "irreps_edge_attr": s["irreps_edge_attr"],
        "irreps_node_output": "1x0e",
    }


def harmonics(lmax: int) -> str:
    """0e + 1o + 2e + ..."""
    return " + ".join(f"1x{l}{'eo'[l % 2]}" for l in range(lmax + 1))
