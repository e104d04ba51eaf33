"""How every output answers to a small change of every input, in one forward pass."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np
from jaxtyping import Float64
from mlx.utils import tree_flatten

from mlpot.graph import Graph
from mlpot.models import Potential

from .first import energy_forces_stress


@dataclass(frozen=True)
class Response:
    """Derivatives of outputs along one direction in the space of inputs.

    Args:
        energy: (n_graphs,), eV, without E0, which no input moves.
        node_energies: (n_atoms,), eV.
        forces: (n_atoms, 3), eV/Angstrom.
        stress: (n_graphs, 3, 3), eV/Angstrom^3; zero where there is no volume.
        descriptors: (n_atoms, n_descriptors), or None where they were not asked for.
    """

    energy: Float64[np.ndarray, " n_graphs"]
    node_energies: Float64[np.ndarray, " n_atoms"]
    forces: Float64[np.ndarray, "n_atoms 3"]
    stress: Float64[np.ndarray, "n_graphs 3 3"]
    descriptors: Float64[np.ndarray, "n_atoms n_descriptors"] | None


def response(
    potential: Potential,
    graph: Graph,
    *,
    positions=None,
    cells=None,
    strain=None,
    parameters: Mapping[str, Any] | None = None,
    descriptors: bool = False,
) -> Response:
    """Directional derivative of energy, forces, stress and descriptors by forward mode.

    The direction is the sum of all that is given. With ``positions`` alone the forces answer with
    minus a Hessian-vector product; with ``strain`` they give the internal strain, and the stress
    gives elastic constants, also at finite stress; with ``cells`` the cell changes while atoms
    stay where they are; with ``parameters`` everything answers to the weights. No finite steps.

    Args:
        potential: the model; not changed.
        graph: one structure or a batch, in the precision of the model.
        positions: (n_atoms, 3), change of the positions.
        cells: (n_graphs, 3, 3), change of the lattice vectors, Cartesian positions kept.
        strain: (n_graphs, 3, 3), symmetric: positions and cells change by themselves @ strain.
        parameters: change of parameters by their names, as in ``tree_flatten``, such as
            ``{"network.embedding.weight": array}``; those not named stay.
        descriptors: whether descriptors are wanted too.

    Returns:
        The derivatives, evaluated, in float64.

    Raises:
        ValueError: nothing was given, a wrong shape, or an unknown parameter.
    """
    moved = _direction("positions", positions, graph.positions.shape)
    cell = _direction("cells", cells, graph.cells.shape)
    deformation = _direction("strain", strain, graph.cells.shape)
    if deformation is not None and not np.allclose(deformation, deformation.swapaxes(1, 2)):
        raise ValueError("the strain is not symmetric: give 0.5 (e + e.T), and rotate by positions")
    if all(one is None for one in (moved, cell, deformation)) and not parameters:
        raise ValueError("no direction was given: give positions, cells, strain or parameters")
    dtype = graph.positions.dtype
    at_cells = np.array(graph.cells).astype(np.float64)
    total_cells = np.zeros(graph.cells.shape) if cell is None else cell
    total = np.zeros(graph.positions.shape) if moved is None else moved
    if deformation is not None:
        xyz = np.array(graph.positions).astype(np.float64)
        total = total + np.einsum("ni,nij->nj", xyz, deformation[np.array(graph.node_graph)])
        total_cells = total_cells + at_cells @ deformation
    model, names, weights, tangents = with_parameters(potential, parameters)

    def outputs(positions: mx.array, cells: mx.array, *arrays: mx.array) -> list[mx.array]:
        set_parameters(model, names, arrays)
        present = replace(graph, positions=positions, cells=cells)
        lazy = energy_forces_stress(model, present, stress=True)
        assert lazy.stress is not None
        found = [lazy.interaction_energy, lazy.node_energies, lazy.forces, lazy.stress]
        return [*found, model.descriptors(present)] if descriptors else found

    origin = [graph.positions, graph.cells, *weights]
    along = [mx.array(total, dtype=dtype), mx.array(total_cells, dtype=dtype), *tangents]
    changes = mx.jvp(outputs, origin, along)[1]
    mx.eval(changes)
    energy, nodes, forces, stress, *further = (np.array(one).astype(np.float64) for one in changes)
    return Response(energy, nodes, forces, stress, further[0] if descriptors else None)


def _direction(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    if given is None:
        return None
    found = np.asarray(given, dtype=np.float64)
    if found.shape != tuple(shape) or not np.isfinite(found).all():
        raise ValueError(
            f"the direction of {name} has shape {found.shape}; give {tuple(shape)}, finite numbers"
        )
    return found


def with_parameters(
    potential: Potential, directions: Mapping[str, Any] | None
) -> tuple[Potential, list[str], list[mx.array], list[mx.array]]:
    """A potential whose parameters may be traced, their names, values and tangents.

    Without directions it is the potential itself, else a copy.

    Raises:
        ValueError: an unknown name or a wrong shape.
    """
    if not directions:
        return potential, [], [], []
    model = copy.deepcopy(potential)
    known: Any = dict(tree_flatten(model.parameters()))
    unknown = sorted(set(directions) - set(known))
    if unknown:
        raise ValueError(
            f"the potential has no parameters {unknown}; it has {', '.join(sorted(known))}"
        )
    tangents = []
    for name, direction in directions.items():
        found = mx.array(np.asarray(direction, dtype=np.float64), dtype=known[name].dtype)
        if found.shape != known[name].shape:
            raise ValueError(
                f"the direction of {name} has shape {found.shape}; give {known[name].shape}"
            )
        tangents.append(found)
    return model, list(directions), [known[name] for name in directions], tangents


def set_parameters(model: Potential, names: list[str], arrays: Any) -> None:
    """Give a potential some parameters by their names."""
    if names:
        model.load_weights(list(zip(names, arrays, strict=True)), strict=False)
