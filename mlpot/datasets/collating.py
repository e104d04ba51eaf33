"""From frames to a padded batch of graphs and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx
import numpy as np

from mlpot.elements import format_elements
from mlpot.graph import Graph, reduce_positions
from mlpot.graph.host import HostGraph
from mlpot.graph.padding import host_pad
from mlpot.graph.structure import host_structure

from .frame import Frame
from .labels import Labels


def host_graph(frame: Frame, cutoff: float) -> HostGraph:
    """Graph of a frame in numpy, positions moved close to the origin.

    Raises:
        ValueError: from the neighbour list, naming the frame.
    """
    try:
        positions = reduce_positions(frame.positions, frame.cell, frame.pbc)
        return host_structure(frame.numbers, positions, frame.cell, frame.pbc, cutoff)
    except ValueError as error:
        raise ValueError(f"{frame.source}: {error}" if frame.source else str(error)) from None


def interaction_energy(frame: Frame, E0s: Mapping[int, float] | None) -> float:
    """Energy of a frame minus its atoms' E0, in float64; 0 where the energy is not known.

    Raises:
        ValueError: an element without E0.
    """
    if frame.energy is None:
        return 0.0
    if E0s is None:
        return frame.energy
    missing = {int(z) for z in np.unique(frame.numbers)} - set(E0s)
    if missing:
        raise ValueError(
            f"{frame.source or 'a frame'} holds {format_elements(missing)} without E0; "
            f"there are E0s for {format_elements(E0s) or 'no element'}"
        )
    return frame.energy - float(np.sum([E0s[int(z)] for z in frame.numbers]))


def collate(
    frames: Sequence[Frame],
    cutoff: float,
    dtype: mx.Dtype = mx.float32,
    *,
    E0s: Mapping[int, float] | None = None,
    pad: bool = True,
    n_atoms: int | None = None,
    n_edges: int | None = None,
    n_graphs: int | None = None,
    host_graphs: Sequence[HostGraph] | None = None,
    turn: int = 0,
) -> tuple[Graph, Labels]:
    """Join frames into one graph with labels.

    Positions are those of the frames up to a shift and to lattice vectors (see
    `mlpot.graph.reduce_positions`).

    Args:
        frames: at least one.
        cutoff: Angstrom.
        dtype: precision of the arrays.
        E0s: energies of isolated atoms, subtracted from the energies in float64; None subtracts
            nothing.
        pad: whether to pad; sizes that are not given go to the next bucket.
        n_atoms: atoms after padding.
        n_edges: edges after padding.
        n_graphs: graphs after padding.
        host_graphs: results of `host_graph` for these frames, to save their computation.
        turn: of the Hessian-vector products of each frame the one of this number is taken, counted
            round and round.

    Returns:
        The graph and its labels, of the same sizes.

    Raises:
        ValueError: no frames, an element without E0, or a size that is too small.
    """
    frames = list(frames)
    if not frames:
        raise ValueError("cannot collate an empty list of frames; give at least one")
    parts = [host_graph(f, cutoff) for f in frames] if host_graphs is None else list(host_graphs)
    joined = HostGraph.join(parts)
    if pad:
        joined = host_pad(joined, n_atoms, n_edges, n_graphs)
    return joined.to_graph(dtype), _labels(frames, joined, E0s, dtype, turn)


def _labels(
    frames: list[Frame],
    joined: HostGraph,
    E0s: Mapping[int, float] | None,
    dtype: mx.Dtype,
    turn: int,
) -> Labels:
    n_graphs, n_atoms, n_frames = len(joined.cells), len(joined.numbers), len(frames)
    sizes = [f.n_atoms for f in frames]
    energy, stress = np.zeros(n_graphs), np.zeros((n_graphs, 3, 3))
    forces = np.zeros((n_atoms, 3))
    forces_mask, forces_weight = np.zeros(n_atoms, bool), np.zeros(n_atoms)
    vectors, products = np.zeros((n_atoms, 3)), np.zeros((n_atoms, 3))
    products_mask, products_weight = np.zeros(n_atoms, bool), np.zeros(n_atoms)
    masks = {name: np.zeros(n_graphs, bool) for name in ("energy", "stress")}
    counts = np.ones(n_graphs)
    weights = {name: np.zeros(n_graphs) for name in ("energy", "stress")}
    counts[:n_frames] = sizes
    ends = np.cumsum(sizes)
    for k, (frame, end) in enumerate(zip(frames, ends, strict=True)):
        atoms = slice(end - frame.n_atoms, end)
        energy[k] = interaction_energy(frame, E0s)
        masks["energy"][k] = frame.energy is not None
        weights["energy"][k] = frame.weight * frame.energy_weight
        weights["stress"][k] = frame.weight * frame.stress_weight
        forces_weight[atoms] = frame.weight * frame.forces_weight
        if frame.forces is not None:
            forces[atoms], forces_mask[atoms] = frame.forces, True
        if frame.hvp_vectors is not None and frame.hvps is not None:
            number = turn % len(frame.hvps)
            vectors[atoms], products[atoms] = frame.hvp_vectors[number], frame.hvps[number]
            products_mask[atoms], products_weight[atoms] = True, frame.weight * frame.hvps_weight
        # A stress is compared per volume: without three periodic directions there is none.
        if frame.stress is not None and frame.pbc.all():
            stress[k], masks["stress"][k] = frame.stress, True

    def floats(array: np.ndarray) -> mx.array:
        return mx.array(array, dtype=dtype)

    return Labels(
        energy=floats(energy),
        energy_mask=mx.array(masks["energy"]),
        forces=floats(forces),
        forces_mask=mx.array(forces_mask),
        stress=floats(stress),
        stress_mask=mx.array(masks["stress"]),
        n_atoms=floats(counts),
        energy_weight=floats(weights["energy"]),
        forces_weight=floats(forces_weight),
        stress_weight=floats(weights["stress"]),
        hvp_vectors=floats(vectors),
        hvps=floats(products),
        hvps_mask=mx.array(products_mask),
        hvps_weight=floats(products_weight),
        known=(
            int(masks["energy"].sum()),
            int(forces_mask.sum()),
            int(masks["stress"].sum()),
            int(products_mask.sum()),
        ),
    )
