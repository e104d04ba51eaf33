"""Systems and first states of a staged run."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np

from mlpot.graph.cell import check_cell
from mlpot.units import KB

from .config import MDConfig
from .restart import Progress
from .state import State, initial_state
from .structure import Structure
from .system import System
from .velocities import maxwell_boltzmann

#: Angstrom; where single precision tells apart 4e-6.
_FAR = 50.0


#: Atoms of all replicas; a hundred times what the largest GPUs hold.
_MOST_ATOMS = 100_000_000


def check_structure(config: MDConfig, structure: Structure) -> None:
    """Refuse what no run can begin with.

    Raises:
        ValueError: no atoms or far too many, atoms without an element, a cell that cannot be
            periodic as it is said to be, or numbers that are not finite.
    """
    n_atoms = len(structure.numbers)
    if n_atoms == 0:
        raise ValueError("the structure has no atoms")
    if n_atoms * config.replicas > _MOST_ATOMS:
        raise ValueError(
            f"{config.replicas} replicas of {n_atoms} atoms are more than {_MOST_ATOMS:,} atoms: "
            "take fewer replicas"
        )
    if structure.numbers.min() < 1:
        atom = int(np.argmin(structure.numbers))
        raise ValueError(f"atom {atom} has atomic number {structure.numbers[atom]}: give elements")
    check_cell(structure.cell, structure.pbc)
    for name in ("position", "velocity"):
        rows = structure.positions if name == "position" else structure.velocities
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad) > 0 and (name == "position" or config.keep_velocities):
            raise ValueError(f"{name} of atom {bad[0]} is not finite: {rows[bad[0]].tolist()}")


def make_system(config: MDConfig, structure: Structure, number: int) -> System:
    """All replicas side by side, as the stage of this number moves them.

    Raises:
        ValueError: a fixed atom that does not exist, or as `System`.
    """
    copies, n_atoms = config.replicas, len(structure.numbers)
    bad = [index for index in config.fixed if not 0 <= index < n_atoms]
    if bad:
        raise ValueError(
            f"fixed names atom {bad[0]}, but the structure has atoms 0 to {n_atoms - 1}"
        )
    fixed = np.zeros(n_atoms, bool)
    fixed[config.fixed] = True
    fixed[structure.fixed] = True
    # Velocities are drawn without rotation; noise on every atom brings it back for good.
    molecule = not structure.pbc.any()
    noisy = any(stage.ensemble == "langevin" for stage in config.stages[: number + 1])
    still = molecule and not config.keep_velocities and not noisy
    return System(
        np.tile(structure.numbers, copies),
        np.tile(structure.masses, copies),
        node_graph=np.repeat(np.arange(copies), n_atoms),
        pbc=np.tile(structure.pbc, (copies, 1)),
        fixed=np.tile(fixed, copies),
        remove_com=config.remove_com,
        no_rotation=still,
        positions=np.tile(structure.positions, (copies, 1)),
        origin=origin(structure),
        dtype=mx.float64 if config.dtype == "float64" else mx.float32,
    )


def checked_system(config: MDConfig, structure: Structure, first: int) -> System:
    """The system of a stage, once that and all later ones are known to suit the structure.

    Raises:
        ValueError: as `check_structure`, or an ensemble that needs another structure; names the
            stage.
    """
    check_structure(config, structure)
    found: list[System] = []
    for number, stage in enumerate(config.stages[first:], first):
        try:
            found.append(make_system(config, structure, number))
            stage.integrator(found[-1], config.timestep)
        except ValueError as error:
            if len(config.stages) == 1:
                raise
            raise ValueError(f"stage {number + 1}, {stage.label!r}: {error}") from error
    return found[0]


def check_restart(config: MDConfig, progress: Progress, state: State, system: System) -> None:
    """Refuse a restart file that is of another run than the configuration says.

    Raises:
        ValueError: says what differs.
    """
    n_atoms, dtype = len(state.positions), str(state.positions.dtype).removeprefix("mlx.core.")
    wrong: str | None = None
    if (n_atoms, len(state.cells)) != (system.n_atoms, system.n_graphs):
        wrong = (
            f"{len(state.cells)} structure(s) with {n_atoms} atoms in all, not {system.n_graphs} "
            f"with {system.n_atoms}"
        )
    elif dtype != config.dtype:
        wrong = f"{dtype} numbers, not {config.dtype}"
    elif progress.stage_step > config.stages[progress.stage].steps:
        wrong = f"step {progress.stage_step} of stage {progress.stage + 1}, which is shorter"
    if wrong is not None:
        raise other_run(wrong)


def other_run(wrong: str) -> ValueError:
    """The error of a restart file that does not fit the configuration."""
    return ValueError(
        f"the restart file is of another run than config.json: it has {wrong}. Put back "
        "config.json as it was written, or start the run anew with --overwrite"
    )


def origin(structure: Structure) -> np.ndarray:
    """Where the device counts positions from, (3,), whole Angstrom; zero if nothing is far away.

    Single precision tells apart 0.001 Angstrom at 10,000 Angstrom: too coarse for forces. Along
    periodic directions atoms are moved into the cell in any case.
    """
    if not (structure.positions.size and np.isfinite(structure.positions).all()):
        return np.zeros(3)  # to be refused
    mean = structure.positions.mean(axis=0)
    along, _ = np.linalg.qr(structure.cell[structure.pbc].T)
    open_part = mean - along @ (along.T @ mean)
    return np.rint(open_part) if np.abs(open_part).max() > _FAR else np.zeros(3)


def first_state(config: MDConfig, structure: Structure, system: System) -> State:
    """Every replica at the structure's positions, with its velocities."""
    copies = (config.replicas, 1)
    return initial_state(
        system,
        np.tile(structure.positions - system.origin, copies),
        np.tile(structure.velocities, copies),
        structure.cell,
        seed=config.seed,
    )


def with_drawn_velocities(
    config: MDConfig,
    structure: Structure,
    system: System,
    state: State,
    temperatures: list[float],
) -> State:
    """The state with velocities of a temperature for each replica, another draw for each."""
    masses = structure.masses
    mobile = ~system.fixed[: len(masses)]
    drawn = []
    for replica, temperature in enumerate(temperatures):
        rng = np.random.default_rng([config.seed, replica])
        if mobile.all() and config.remove_com:
            rotation = not structure.pbc.any()
            momenta = maxwell_boltzmann(
                masses, structure.positions, temperature, rng, rotation=rotation
            )
        else:
            noise = rng.standard_normal((len(masses), 3)) * mobile[:, None]
            momenta = noise * np.sqrt(masses * KB * temperature)[:, None]
        drawn.append(momenta / masses[:, None])
    return replace(state, velocities=mx.array(np.concatenate(drawn), dtype=system.dtype))
