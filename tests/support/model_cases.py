"""Cases of the point models that the fixtures and the tests share: arguments, inputs, weights."""

from __future__ import annotations

import numpy as np

N_NODES, RADIUS = 7, 2.0
OUT = "2x0e+1x1o+1x2e"
HIDDEN = "+".join(f"16x{l}{p}" for l in range(4) for p in "oe")
HARMONICS = "1x0e+1x1o+1x2e+1x3o"


def cases() -> list[dict]:
    """Every model with 1 and 3 layers, 16 channels and lmax 3."""
    found = []
    for layers in (1, 3):
        sizes = {"mul": 16, "layers": layers, "lmax": 3}
        common = {"max_radius": RADIUS, "num_neighbors": 3.2, "num_nodes": 6.5}
        for family in ("v2106", "v2103"):
            simple = {"irreps_in": "3x0e+1x1o", "irreps_out": OUT, **common, **sizes}
            found.append({"module": family, "name": "SimpleNetwork", "arguments": simple})
            attributed = {
                "irreps_node_input": "3x0e+1x1o",
                "irreps_node_attr": "2x0e+1x1e",
                "irreps_edge_attr": "2x0e+1x1o",
                "irreps_node_output": OUT,
                **common,
                **sizes,
            }
            name = "NetworkForAGraphWithAttributes"
            found.append({"module": family, "name": name, "arguments": attributed})
        for version in ("2101", "2102"):
            arguments = {
                "irreps_in": "3x0e+1x1o",
                "irreps_hidden": HIDDEN,
                "irreps_out": OUT,
                "irreps_node_attr": "2x0e+1x1e",
                "irreps_edge_attr": HARMONICS,
                "layers": layers,
                "number_of_basis": 5,
                "radial_layers": 1,
                "radial_neurons": 20,
                **common,
            }
            found.append({"module": version, "name": "Network", "arguments": arguments})
    return [{"seed": seed, **case} for seed, case in enumerate(found)]


def edge_list(pos: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """(2, n_edges) senders and receivers within the radius, in no particular order."""
    r = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    pairs = np.nonzero((r < RADIUS) & (r > 0) & (batch[:, None] == batch[None]))
    return np.stack(pairs)


def inputs(case: dict) -> dict[str, np.ndarray]:
    """Numbers of e3nn's data dictionary, under the keys of all models; two graphs."""
    rng = np.random.default_rng(case["seed"])
    pos = 0.8 * rng.standard_normal((N_NODES, 3))
    batch = np.array([0] * 4 + [1] * (N_NODES - 4))
    data = {"pos": pos, "batch": batch, "x": rng.standard_normal((N_NODES, 6))}
    if "irreps_node_attr" in case["arguments"]:
        attributes = rng.standard_normal((N_NODES, 5))
        data |= {"z": attributes, "node_attr": attributes, "node_input": data["x"]}
    if case["name"] == "NetworkForAGraphWithAttributes":
        data["edge_index"] = edge_list(pos, batch)
        data["edge_attr"] = rng.standard_normal((data["edge_index"].shape[1], 5))
    return data


def weights(case: dict, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """A weight for every name with entries: N(0, 1), alpha's smaller."""
    rng = np.random.default_rng([case["seed"], 1])
    small = (".alpha.weight", "alpha.weight")
    return {
        name: rng.standard_normal(shapes[name]) * (0.3 if name.endswith(small) else 1.0)
        for name in sorted(shapes)
    }


def directions(case: dict, n_out: int) -> tuple[np.ndarray, np.ndarray]:
    """Cotangent of the output and direction of the positions."""
    rng = np.random.default_rng([case["seed"], 2])
    return rng.standard_normal((2, n_out)), rng.standard_normal((N_NODES, 3))
