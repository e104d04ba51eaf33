"""Labelled frames from a Morse pair potential, whose energies, forces and stresses are exact."""

from __future__ import annotations

import numpy as np

from mlpot.datasets import Frame

DEPTH, STEEPNESS, DISTANCE = 0.4, 1.6, 2.4  # eV, 1/Angstrom, Angstrom
E0 = {2: -3.0, 10: -5.0}


def morse_frame(rng: np.random.Generator, n_atoms: int, crystal: bool = False) -> Frame:
    """A rattled cluster, or a rattled and strained simple cubic cell with stress."""
    side = int(np.ceil(n_atoms ** (1 / 3)))
    grid = np.array([(i, j, k) for i in range(side) for j in range(side) for k in range(side)])
    positions = DISTANCE * grid[:n_atoms] + rng.normal(scale=0.15, size=(n_atoms, 3))
    numbers = rng.choice([2, 10], size=n_atoms)
    cell = np.zeros((3, 3))
    shifts = np.zeros((1, 3))
    if crystal:
        cell = DISTANCE * side * (np.eye(3) + rng.normal(scale=0.02, size=(3, 3)))
        shifts = np.array([(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)])
    # vectors[s, i, j] from i to the image s of j; all pairs, smoothly cut off at 4 Angstrom.
    images = (shifts @ cell)[:, None, None]
    vectors = positions[None, None] + images - positions[None, :, None]
    r = np.linalg.norm(vectors, axis=-1)
    near = (r > 0) & (r < 4.0)
    r = np.where(near, r, 1.0)
    energy, slope = _pair(r)
    pull = np.where(near, slope / r, 0.0)[..., None] * vectors
    stress = None
    if crystal:
        stress = 0.5 * np.einsum("sija,sijb->ab", pull, vectors) / abs(np.linalg.det(cell))
    return Frame(
        numbers=numbers,
        positions=positions,
        cell=cell,
        pbc=crystal,
        energy=0.5 * float(np.where(near, energy, 0.0).sum()) + sum(E0[int(z)] for z in numbers),
        forces=pull.sum(axis=(0, 2)),
        stress=stress,
        config_type="crystal" if crystal else "cluster",
    )


def _pair(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    decay = np.exp(-STEEPNESS * (r - DISTANCE))
    morse = DEPTH * ((1 - decay) ** 2 - 1)
    slope = 2 * DEPTH * STEEPNESS * decay * (1 - decay)
    switch = (1 - (r / 4.0) ** 2) ** 3
    return morse * switch, slope * switch - morse * 6 * r / 16.0 * (1 - (r / 4.0) ** 2) ** 2


def isolated_atoms() -> list[Frame]:
    """One frame for each element."""
    return [
        Frame(numbers=[z], positions=np.zeros((1, 3)), energy=energy, config_type="IsolatedAtom")
        for z, energy in E0.items()
    ]


def morse_frames(n_frames: int, seed: int = 0, crystals: bool = False) -> list[Frame]:
    """Clusters of 4 to 6 atoms; every second frame a crystal of 8 atoms where they are wanted."""
    rng = np.random.default_rng(seed)
    return [
        morse_frame(rng, 8, crystal=True)
        if crystals and index % 2
        else morse_frame(rng, int(rng.integers(4, 7)))
        for index in range(n_frames)
    ]
