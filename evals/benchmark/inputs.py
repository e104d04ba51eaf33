"""Inputs of every case as numpy arrays, drawn from its seed: all implementations get these."""

from __future__ import annotations

import re

import numpy as np

from .cases import Case
from .random_numbers import normal
from .structures import cluster, random_edges

#: Cutoff of the radial convolution, Angstrom, and the nearest distance drawn.
RADIAL_CUTOFF, NEAREST = 5.0, 0.8


def dim(irreps: str) -> int:
    """Number of components of irreps."""
    total = 0
    for block in irreps.split("+"):
        match = re.fullmatch(r"(?:(\d+)x)?(\d+)[eo]", block.strip())
        assert match, block
        total += int(match[1] or 1) * (2 * int(match[2]) + 1)
    return total


def draw(case: Case) -> dict[str, np.ndarray]:
    """Arrays of a case by name; float32 and int32. See the branches for what there is."""
    s, seed = case.settings, case.seed
    if case.structure:
        return _structure(case)
    n = s["n"]
    if case.name == "spherical_harmonics":
        return {"vectors": normal(seed, "vectors", (n, 3))}
    if case.name == "scatter_sum":
        index = np.random.default_rng(seed).integers(0, s["segments"], n).astype("i4")
        return {"x": normal(seed, "x", (n, s["width"])), "index": index}
    if case.name == "matrix_product":
        shape = (s["width"], s["width"])
        return {"x": normal(seed, "x", (n, shape[0])), "weight": normal(seed, "weight", shape)}
    if case.name in ("full_tensor_product", "fully_connected_tensor_product"):
        a, b = s["irreps"][:2]
        return {"x": normal(seed, "x", (n, dim(a))), "y": normal(seed, "y", (n, dim(b)))}
    if case.name == "linear":
        return {"x": normal(seed, "x", (n, dim(s["irreps"][0])))}
    rows = s.get("edges", n)
    arrays = {
        "x": normal(seed, "x", (n, dim(s["irreps"]))),
        "y": normal(seed, "y", (rows, (s["lmax"] + 1) ** 2)),
    }
    if "edges" in s:
        arrays |= random_edges(n, rows, seed)
    if case.name == "radial_convolution":
        distances = np.random.default_rng(seed).uniform(NEAREST, RADIAL_CUTOFF, rows)
        arrays["distances"] = distances.astype("f4")
    return arrays


def _structure(case: Case) -> dict[str, np.ndarray]:
    arrays = cluster(**case.structure, seed=case.seed)
    n, e = case.structure["n_atoms"], case.structure["n_edges"]
    arrays["direction"] = normal(case.seed, "direction", (n, 3))
    arrays["forces"] = normal(case.seed, "forces", (n, 3))
    arrays["targets"] = normal(case.seed, "targets", (n, 1))
    if case.name == "v2106_attributed_network":
        s = case.settings
        arrays["node_attr"] = normal(case.seed, "node_attr", (n, dim(s["irreps_node_attr"])))
        arrays["edge_attr"] = normal(case.seed, "edge_attr", (e, dim(s["irreps_edge_attr"])))
    return arrays
