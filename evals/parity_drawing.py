"""Cases of the parity suite: operations of scripts/random_products.py and a few more.

Runs in the process that has e3nn. A case is data only: op, spec (arguments under e3nn's names) and
lead, the shape in front of the features.
"""

from __future__ import annotations

import random_products as products
from e3nn import o3

# What is drawn how often. An operation is picked first, then its settings.
SHARES = {
    "TensorProduct": 22,
    "FullyConnectedTensorProduct": 9,
    "FullTensorProduct": 5,
    "ElementwiseTensorProduct": 5,
    "TensorSquare": 6,
    "Linear": 8,
    "Norm": 3,
    "Gate": 5,
    "Activation": 3,
    "NormActivation": 4,
    "BatchNorm": 4,
    "FullyConnectedNet": 4,
    "S2Activation": 2,
    "SO3Activation": 1,
    "soft_one_hot_linspace": 4,
    "soft_unit_step": 1,
    "spherical_harmonics": 6,
    "wigner_D": 4,
    "wigner_3j": 4,
    "ReducedTensorProducts": 3,
    "ToS2Grid": 2,
    "FromS2Grid": 2,
    "Convolution": 3,
    "MessagePassing": 2,
    "SimpleNetwork": 2,
    "Network": 2,
}
LEADS = [(3,), (), (1,), (2, 2), (5,), (0,)]
LEAD_SHARES = [0.5, 0.1, 0.1, 0.15, 0.1, 0.05]
FORMULAS = [
    ("ij=ji", 4),
    ("ij=-ji", 4),
    ("ij", 3),
    ("ijk=-jik=-ikj", 3),
    ("ijk=jik=ikj", 3),
    ("ijk=jik", 3),
]


def spherical_harmonics(rng):
    l = [
        int(rng.integers(0, 12)),
        [int(d) for d in rng.integers(0, 5, rng.integers(1, 5))],
        str(products.random_irreps(rng).filter(keep=["0e", "1o", "2e", "3o"])) or "1o",
        str(o3.Irreps.spherical_harmonics(int(rng.integers(0, 9)))),
    ][rng.integers(4)]
    return {
        "l": l,
        "normalize": bool(rng.random() < 0.6),
        "normalization": str(rng.choice(["integral", "component", "norm"])),
    }


def wigner_3j(rng):
    l1, l2 = (int(l) for l in rng.integers(0, 7, 2))
    return {"l1": l1, "l2": l2, "l3": int(rng.integers(abs(l1 - l2), l1 + l2 + 1))}


def reduced(rng):
    formula, largest = FORMULAS[rng.integers(len(FORMULAS))]
    spec = {"formula": formula}
    # Indices that the symmetries do not join to the first have irreps of their own.
    for index in {"ij": "ij", "ijk=jik": "ik"}.get(formula, "i"):
        while True:
            irreps = products.random_irreps(rng, blocks=2, lmax=2)
            if 0 < irreps.dim <= 2 * largest:
                break
        spec[index] = str(irreps)
    return spec


def grid(rng):
    lmax = int(rng.integers(0, 6))
    res = [int(2 * rng.integers(lmax + 1, lmax + 4)), int(2 * rng.integers(lmax, lmax + 4) + 1)]
    return {"lmax": lmax, "res": res, "normalization": str(rng.choice(["component", "norm"]))}


def basis(rng):
    basis = ["gaussian", "cosine", "smooth_finite", "fourier", "bessel"][rng.integers(5)]
    return products.case_basis(rng, basis, bool(rng.random() < 0.5))[1]


def graph(rng):
    """Edges of a small graph, senders and receivers."""
    n_nodes, n_edges = int(rng.integers(1, 5)), int(rng.integers(0, 9))
    pairs = rng.integers(0, n_nodes, (2, n_edges)).tolist()
    return {"n_nodes": n_nodes, "edge_src": pairs[0], "edge_dst": pairs[1]}


def features(rng):
    return str(products.random_irreps(rng, 3, 2).remove_zero_multiplicities()) or "0e+1o"


def edge_attributes(rng):
    harmonics = str(o3.Irreps.spherical_harmonics(int(rng.integers(0, 4))))
    return harmonics if rng.random() < 0.7 else f"0e+{features(rng)}"


def convolution(rng):
    kind = str(rng.choice(["v2103", "v2106", "gate_points_2101", "gate_points_2102"]))
    old = kind.startswith("gate_points")
    settings = {
        "irreps_in" if old else "irreps_node_input": features(rng),
        "irreps_node_attr": str(rng.choice(["0e", "2x0e", "0e+1o"])),
        "irreps_edge_attr": edge_attributes(rng),
        "irreps_out" if old else "irreps_node_output": features(rng),
        "num_neighbors": float(rng.uniform(1, 8)),
    }
    widths = [int(n) for n in rng.integers(1, 6, rng.integers(1, 4))]
    if old:
        features_name = f"number_of_{'basis' if kind.endswith('2101') else 'edge_features'}"
        settings |= {features_name: widths[0], "radial_layers": len(widths) - 1}
        settings |= {"radial_neurons": widths[-1]}
    else:
        settings |= {"fc_neurons": widths}
    return {"version": kind, "settings": settings, "graph": graph(rng)}


def message_passing(rng):
    hidden = [features(rng) for _ in range(rng.integers(1, 3))]
    settings = {
        "irreps_node_attr": str(rng.choice(["0e", "2x0e"])),
        "irreps_edge_attr": str(o3.Irreps.spherical_harmonics(int(rng.integers(1, 3)))),
        "fc_neurons": [int(n) for n in rng.integers(1, 5, rng.integers(1, 3))],
        "num_neighbors": float(rng.uniform(1, 8)),
    }
    kind = str(rng.choice(["v2103", "v2106"]))
    if kind == "v2106":
        settings |= {"irreps_node_sequence": ["0e+1o", *hidden, "0e+1o"]}
    else:
        settings |= {"irreps_node_input": "0e+1o", "irreps_node_output": "0e+1o"}
        settings |= {"irreps_node_hidden": hidden[0], "layers": len(hidden)}
    return {"version": kind, "settings": settings, "graph": graph(rng)}


def simple_network(rng):
    settings = {
        "irreps_in": features(rng),
        "irreps_out": features(rng),
        "max_radius": 2.0,
        "num_neighbors": float(rng.uniform(1, 8)),
        "num_nodes": float(rng.uniform(1, 8)),
        "mul": int(rng.integers(1, 4)),
        "layers": int(rng.integers(0, 3)),
        "lmax": int(rng.integers(0, 3)),
        "pool_nodes": bool(rng.random() < 0.5),
    }
    kind = str(rng.choice(["v2103", "v2106"]))
    return {"version": kind, "settings": settings, "n_nodes": int(rng.integers(1, 6))}


def gate_points_network(rng):
    settings = {
        "irreps_in": [features(rng), None][rng.integers(2)],
        "irreps_hidden": features(rng),
        "irreps_out": features(rng),
        "irreps_node_attr": [None, "2x0e", "0e+1o"][rng.integers(3)],
        "irreps_edge_attr": str(o3.Irreps.spherical_harmonics(int(rng.integers(0, 3)))),
        "layers": int(rng.integers(0, 3)),
        "max_radius": 2.0,
        "number_of_basis": int(rng.integers(2, 5)),
        "radial_layers": int(rng.integers(1, 3)),
        "radial_neurons": int(rng.integers(1, 5)),
        "num_neighbors": float(rng.uniform(1, 8)),
        "num_nodes": float(rng.uniform(1, 8)),
        "reduce_output": bool(rng.random() < 0.5),
    }
    kind = str(rng.choice(["gate_points_2101", "gate_points_2102"]))
    return {"version": kind, "settings": settings, "n_nodes": int(rng.integers(1, 6))}


DRAWN = {
    "TensorProduct": lambda r: products.case_tensor_product(
        r, [*products.MODES, None][r.integers(len(products.MODES) + 1)]
    )[1],
    "FullyConnectedTensorProduct": lambda r: products.case_fully_connected(r)[1],
    "FullTensorProduct": lambda r: products.case_full(r)[1],
    "ElementwiseTensorProduct": lambda r: products.case_elementwise(r)[1],
    "TensorSquare": lambda r: products.case_square(r)[1],
    "Linear": lambda r: products.case_linear(r)[1],
    "Norm": lambda r: products.case_norm(r)[1],
    "Gate": lambda r: products.case_gate(r)[1],
    "Activation": lambda r: products.case_activation(r)[1],
    "NormActivation": lambda r: products.case_norm_activation(r)[1],
    "BatchNorm": lambda r: products.case_batch_norm(r)[1] | {"evaluate": True},
    "FullyConnectedNet": lambda r: products.case_net(r)[1],
    "S2Activation": lambda r: products.case_s2(r)[1],
    "SO3Activation": lambda r: products.case_so3(r)[1],
    "soft_one_hot_linspace": basis,
    "soft_unit_step": lambda _: {},
    "spherical_harmonics": spherical_harmonics,
    "wigner_D": lambda r: {"l": int(r.integers(0, 9))},
    "wigner_3j": wigner_3j,
    "ReducedTensorProducts": reduced,
    "ToS2Grid": grid,
    "FromS2Grid": grid,
    "Convolution": convolution,
    "MessagePassing": message_passing,
    "SimpleNetwork": simple_network,
    "Network": gate_points_network,
}


def draw_case(rng):
    """A case of a random operation."""
    shares = [share / sum(SHARES.values()) for share in SHARES.values()]
    op = list(SHARES)[int(rng.choice(len(SHARES), p=shares))]
    lead = LEADS[rng.choice(len(LEADS), p=LEAD_SHARES)]
    return {"op": op, "spec": DRAWN[op](rng), "lead": list(lead)}
