"""Give the frames of mlearn's copper the stresses that their energies and forces imply.

Needs: pip install mlpot    (with its extra for your machine: "mlpot[cpu]" on Linux)
Run:   python datasets/make_copper_pbe.py Cu_training_EFonly.extxyz.gz models/Cu_training.extxyz

The training frames of copper in mlearn (Y. Zuo et al., J. Phys. Chem. A 124, 731 (2020)) have
energies and forces, no stresses, and their strained cells are stretched along one axis or sheared
in one plane. Energies of such cells contain C11 and C44 and nothing of C12, which shows only in the
forces of the moving crystal, as the slope of its soft phonons. A network reaches as far as its
cells of 11 Angstrom are wide and can fit all of that with almost any C12. An embedded-atom form is
short-ranged and has 17 parameters. It is fitted to the forces of crystals, vacancies and melts and
to the energies of the strained cells, by linear least squares:

    E = sum_i [ E0 + 1/2 sum_j phi(r_ij) + sum_p c_p rho_i^p ],    rho_i = sum_j psi(r_ij)

Its stresses are written as labels of all frames but surfaces, of which it knows little; without
them the pressure of the moving crystal and of melts is left free, too. Energies and forces stay
those of mlearn. Strained cells, which are 27 equal cubes, become one cube of four atoms, and all
frames get a config_type: strained, crystal, hot, melt, vacancy, surface.
"""

import argparse

import numpy as np

from mlpot import datasets, graph, units
from mlpot.datasets import Frame

CUTOFF = 5.6  # Angstrom, beyond the fourth shell of fcc copper
DISTANCE = 2.56  # Angstrom, of neighbours, where psi has its unit
DECAY = 2.0  # 1/Angstrom, of psi; 1.5 to 4 give elastic constants that differ by 2 GPa
#: Where cubic terms (knot - r)^3 of phi end, Angstrom.
KNOTS = np.array([2.4, 2.6, 2.8, 3.0, 3.2, 3.5, 3.85, 4.2, 4.55, 4.9, 5.25, CUTOFF])
POWERS = (0.5, 1.5, 2.0, 3.0)  # of the density in the embedding energy
#: Weights of forces (1/(eV/Angstrom)) by config_type; hot frames show where EAM ends.
FORCES = {"crystal": 3.0, "vacancy": 1.0, "hot": 0.3, "melt": 0.02}
ENERGY = 3000.0  # weight of the energies of strained cells, 1/(eV/atom)
STRAIN = 1e-4  # of the central differences that give stresses


def classify(frame: Frame) -> str:
    """What kind of frame of mlearn's copper this is, by atoms, forces and energy."""
    if frame.n_atoms < 107:
        return "surface"
    if frame.n_atoms == 107:
        return "vacancy"
    if np.abs(frame.forces).max() < 0.01:
        return "strained"
    energy = frame.energy / frame.n_atoms
    return "crystal" if energy < -4.0 else "hot" if energy < -3.8 else "melt"


def one_cube(frame: Frame) -> Frame:
    """The conventional cell of a strained 3x3x3 supercell, with a 27th of its energy."""
    cell = frame.cell / 3
    fractional = np.linalg.solve(cell.T, (frame.positions - frame.positions[0]).T).T
    sites = np.round(2 * fractional) / 2
    if np.abs(fractional - sites).max() > 1e-3:
        raise ValueError(f"{frame.source}: no strained 3x3x3 cells of fcc; give mlearn's copper")
    sites = sites[np.all(sites % 3 < 0.9, axis=1)] % 3
    return Frame(
        numbers=frame.numbers[:4],
        positions=sites @ cell,
        cell=cell,
        pbc=frame.pbc,
        energy=frame.energy / 27,
        forces=np.zeros((4, 3)),
        config_type="strained",
    )


def density(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """psi(r) and its derivative; r (n_edges,) in Angstrom."""
    t = np.clip(1 - r / CUTOFF, 0, None)
    decay = np.exp(-DECAY * (r - DISTANCE))
    return decay * t**3, -decay * (DECAY * t**3 + 3 * t**2 / CUTOFF)


def terms(cell: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each parameter of the embedded-atom form adds to energy and forces.

    Args:
        cell: (3, 3) in Angstrom.
        positions: (n_atoms, 3) in Angstrom.

    Returns:
        (n_parameters,) and (3 n_atoms, n_parameters): derivatives of energy and forces by the
        parameters.
    """
    n_atoms = len(positions)
    senders, receivers, shifts = graph.neighbor_list(positions, cell, np.ones(3, bool), CUTOFF)
    vectors = positions[senders] + shifts @ cell - positions[receivers]
    r = np.linalg.norm(vectors, axis=1)
    t = np.clip(KNOTS - r[:, None], 0, None)
    psi, slope = density(r)
    rho = np.bincount(receivers, psi, n_atoms)
    energy = [*(t**3).sum(axis=0) / 2, *((rho**p).sum() for p in POWERS), float(n_atoms)]
    by_r = [*(-1.5 * t**2).T, *(p * rho[receivers] ** (p - 1) * slope for p in POWERS)]
    forces = np.zeros((3 * n_atoms, len(energy)))
    for k, derivative in enumerate(by_r):
        pull = derivative[:, None] * vectors / r[:, None]
        for axis in range(3):
            forces[axis::3, k] = np.bincount(receivers, pull[:, axis], n_atoms)
            forces[axis::3, k] -= np.bincount(senders, pull[:, axis], n_atoms)
    return np.array(energy), forces


def fit(frames: list[Frame]) -> np.ndarray:
    """Parameters of the embedded-atom form, (n_parameters,), by weighted least squares."""
    rows, labels = [], []
    for frame in frames:
        if frame.config_type not in (*FORCES, "strained"):
            continue
        energy, forces = terms(frame.cell, frame.positions)
        if frame.config_type == "strained":
            rows.append(ENERGY * energy[None] / frame.n_atoms)
            labels.append([ENERGY * frame.energy / frame.n_atoms])
        else:
            rows.append(FORCES[frame.config_type] * forces)
            labels.append(FORCES[frame.config_type] * frame.forces.ravel())
    matrix = np.concatenate(rows)
    scale = np.linalg.norm(matrix, axis=0)
    normal = (matrix / scale).T @ (matrix / scale)
    # Terms that the frames hardly tell apart: a little damping, so that none grows large.
    normal += 1e-9 * np.eye(len(scale))
    return np.linalg.solve(normal, (matrix / scale).T @ np.concatenate(labels)) / scale


def stress(cell: np.ndarray, positions: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """dE/dstrain/volume of the embedded-atom form, (3, 3) in eV/Angstrom^3."""
    found = np.zeros((3, 3))
    for i in range(3):
        for j in range(i, 3):
            strain = np.zeros((3, 3))
            strain[i, j] += STRAIN / 2
            strain[j, i] += STRAIN / 2
            both = [
                terms(cell @ change, positions @ change)[0] @ parameters
                for change in (np.eye(3) + strain, np.eye(3) - strain)
            ]
            found[i, j] = found[j, i] = (both[0] - both[1]) / (2 * STRAIN)
    return found / abs(np.linalg.det(cell))


def elastic(lattice: float, parameters: np.ndarray) -> list[float]:
    """Pressure, C11, C12, C44 in GPa of the embedded-atom form at a lattice constant."""
    cell, positions = lattice * np.eye(3), lattice * FCC
    columns = []
    for strain in (np.diag([1.0, 0, 0]), np.array([[0, 0, 0], [0, 0, 1.0], [0, 1.0, 0]]) / 2):
        up, down = (
            stress(cell @ change, positions @ change, parameters)
            for change in (np.eye(3) + 1e-3 * strain, np.eye(3) - 1e-3 * strain)
        )
        columns.append((up - down) / 2e-3)
    pressure = -np.trace(stress(cell, positions, parameters)) / 3
    numbers = [pressure, columns[0][0, 0], columns[0][1, 1], columns[1][1, 2]]
    return [float(number / units.GPA) for number in numbers]


FCC = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", help="mlearn's training frames of copper")
    parser.add_argument("out", help="file to write: extended XYZ or HDF5")
    arguments = parser.parse_args()
    frames = datasets.read([arguments.source])
    for frame in frames:
        if frame.energy is None or frame.forces is None:
            parser.error(f"{frame.source} has no energy or forces: give mlearn's copper")
        frame.config_type = classify(frame)
    missing = {*FORCES, "strained"} - {frame.config_type for frame in frames}
    if missing:
        parser.error(f"no frames of {', '.join(sorted(missing))}: give mlearn's training frames")
    frames = [one_cube(f) if f.config_type == "strained" else f for f in frames]
    parameters = fit(frames)
    for frame in frames:
        if frame.config_type != "surface":
            frame.stress = stress(frame.cell, frame.positions, parameters)
    datasets.write(arguments.out, frames)
    for kind in sorted({frame.config_type for frame in frames}):
        energies, forces = [], []
        group = [frame for frame in frames if frame.config_type == kind]
        for frame in group:
            energy, force = terms(frame.cell, frame.positions)
            energies.append((energy @ parameters - frame.energy) / frame.n_atoms)
            forces.append(force @ parameters - frame.forces.ravel())
        print(
            f"{kind:9s} {len(group):4d} frames; EAM form: energies off by "
            f"{np.mean(energies) * 1e3:7.2f} +- {np.std(energies) * 1e3:5.2f} meV/atom, forces by "
            f"{np.sqrt(np.mean(np.concatenate(forces) ** 2)) * 1e3:5.1f} meV/Angstrom (RMS)"
        )
    for lattice in (3.6164, 3.634):
        found = " ".join(f"{number:7.2f}" for number in elastic(lattice, parameters))
        print(f"a = {lattice} Angstrom: pressure, C11, C12, C44 of the EAM form (GPa) {found}")


if __name__ == "__main__":
    main()
