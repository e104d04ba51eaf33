"""Second derivatives with respect to strain, and mixed ones with positions."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from jaxtyping import Float64

from mlpot import kernels
from mlpot.graph import Graph
from mlpot.models import Potential

#: Rows and columns of a symmetric tensor in Voigt's order xx yy zz yz xz xy.
VOIGT = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))


@dataclass(frozen=True)
class StrainDerivatives:
    """Derivatives of the energy E(R, e), where edge vectors become r (1 + e).

    Positions R are those before the strain, so that atoms follow the cell; e is the symmetric
    strain in Voigt's order with engineering shears (e_4 = 2 e_yz).

    Args:
        gradient: (6,), dE/de, eV: volume times stress.
        hessian: (6, 6), d2E/de de, eV: volume times the clamped-ion elastic constants at zero
            stress.
        mixed: (6, n_atoms, 3), d2E/de dR, eV/Angstrom: minus the internal-strain tensor.
        volume: Angstrom^3; 0 without three periodic directions.
    """

    gradient: Float64[np.ndarray, "6"]
    hessian: Float64[np.ndarray, "6 6"]
    mixed: Float64[np.ndarray, "6 n_atoms 3"]
    volume: float


def strain_directions() -> Float64[np.ndarray, "6 3 3"]:
    """Symmetric strains of unit engineering components, (6, 3, 3), in Voigt's order."""
    directions = np.zeros((6, 3, 3))
    for n, (i, j) in enumerate(VOIGT):
        directions[n, i, j] += 0.5
        directions[n, j, i] += 0.5
    return directions


def strain_derivatives(potential: Potential, graph: Graph) -> StrainDerivatives:
    """First and second derivatives with respect to strain, and mixed strain-position ones.

    Forward mode along the six strains over one reverse pass: exact, no finite steps.

    Args:
        potential: the model.
        graph: one structure, in the precision of the model (float64 recommended).

    Returns:
        The derivatives, evaluated, in float64.

    Raises:
        ValueError: the graph holds several structures.
    """
    if graph.n_graphs != 1:
        raise ValueError(f"the graph holds {graph.n_graphs} structures; give one")
    dtype = graph.positions.dtype

    def energy(positions: mx.array, strain: mx.array) -> mx.array:
        symmetric = 0.5 * (strain + strain.swapaxes(1, 2))
        return potential.node_energies(graph, graph.edge_vectors(positions, symmetric)).sum()

    gradient = mx.grad(energy, argnums=(0, 1))
    origin = [graph.positions, mx.zeros((1, 3, 3), dtype=dtype)]
    still = mx.zeros_like(graph.positions)

    def along(direction: mx.array) -> list[mx.array]:
        return mx.jvp(gradient, origin, [still, direction])[1]

    directions = strain_directions()
    mixed, second = kernels.each(along)(mx.array(directions[:, None], dtype=dtype))
    first = gradient(*origin)[1]
    mx.eval(first, mixed, second)
    # dE/de_4 = dE/de_yz for a symmetric gradient: both of its entries times one half.
    project = directions.reshape(6, 9)
    per_strain = np.array(second).astype(np.float64).reshape(6, 9)
    volume = float(np.array(graph.volumes()).astype(np.float64)[0])
    return StrainDerivatives(
        gradient=project @ np.array(first).astype(np.float64).reshape(9),
        hessian=per_strain @ project.T,
        mixed=np.array(mixed).astype(np.float64),
        volume=volume,
    )
