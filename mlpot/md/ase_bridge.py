"""The part of molecular dynamics that is ASE's: integrators, units and trajectory files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from ase import Atoms, units
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms, FixCom
from ase.io import read, write
from ase.io.trajectory import TrajectoryReader, TrajectoryWriter
from ase.md.langevin import Langevin
from ase.md.verlet import VelocityVerlet
from jaxtyping import Bool

from mlpot.files import temporary_beside

from .frame import Frame
from .kept_part import FIX, cut_bytes
from .settings import Settings
from .structure import Structure

TRAJECTORY_SUFFIXES = (".traj", ".extxyz", ".xyz")


def working_copy(atoms: Atoms, fix_com: bool) -> Atoms:
    """A copy with the same calculator, its centre of mass held where it is.

    Args:
        atoms: structure with a calculator; not changed.
        fix_com: hold the centre of mass, where there are no other constraints.

    Raises:
        ValueError: no atoms, no calculator, masses that are not positive.
    """
    if not isinstance(atoms, Atoms):
        raise ValueError(f"atoms is a {type(atoms).__name__}: give an ase.Atoms with a calculator")
    if len(atoms) == 0:
        raise ValueError("the structure has no atoms")
    if atoms.calc is None:
        raise ValueError("the atoms have no calculator: set atoms.calc before run_md")
    if not np.isfinite(atoms.positions).all():
        raise ValueError("the structure has positions that are not finite")
    if not (atoms.get_masses() > 0).all():
        raise ValueError("every atom needs a positive mass: set them with atoms.set_masses")
    copy = atoms.copy()
    copy.calc = atoms.calc
    if fix_com and len(copy) > 1 and not copy.constraints:
        copy.set_constraint(FixCom())
    return copy


def dynamics(
    atoms: Atoms, settings: Settings, rng: np.random.Generator
) -> VelocityVerlet | Langevin:
    """The integrator of an ensemble, at step 0."""
    timestep = settings.timestep * units.fs
    if settings.ensemble == "nve":
        return VelocityVerlet(atoms, timestep)
    return Langevin(
        atoms,
        timestep,
        temperature_K=settings.temperature,
        friction=settings.friction / (1000 * units.fs),
        fixcm=False,
        rng=rng,
    )


def snapshot(atoms: Atoms) -> Atoms:
    """The state with its energy and unconstrained forces, without calculator or constraints."""
    copy = atoms.copy()
    copy.set_constraint()
    copy.calc = SinglePointCalculator(
        copy, energy=atoms.get_potential_energy(), forces=atoms.get_forces(apply_constraint=False)
    )
    return copy


def save(path: Path, atoms: Atoms | list[Atoms]) -> None:
    """Write one structure, or several, as extxyz."""
    with temporary_beside(path) as temporary:
        write(temporary, atoms, format="extxyz")


class TrajectoryFile:
    """Frames written one after the other; each is on its way to the disk at once.

    Args:
        path: ends in .traj (ASE's format), .extxyz or .xyz (extended XYZ).

    Raises:
        ValueError: another ending, or a folder that does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._binary = None
        if path.suffix == ".traj":
            self._binary = TrajectoryWriter(path, "w")
        else:
            path.write_bytes(b"")

    @staticmethod
    def check(path: Path) -> None:
        """See :class:`TrajectoryFile`."""
        if path.suffix not in TRAJECTORY_SUFFIXES:
            raise ValueError(
                f"trajectory {str(path)!r}: its name must end in {', '.join(TRAJECTORY_SUFFIXES)}"
            )
        if not path.parent.is_dir():
            raise ValueError(
                f"trajectory {str(path)!r}: folder {str(path.parent)!r} does not exist"
            )

    def write(self, atoms: Atoms) -> None:
        """Append a frame."""
        if self._binary is not None:
            self._binary.write(atoms)
        else:
            write(self.path, atoms, format="extxyz", append=True)

    def close(self) -> None:
        """Finish the file."""
        if self._binary is not None:
            self._binary.close()


def fixed_atoms(atoms: Atoms, refusal: str) -> Bool[np.ndarray, " n_atoms"]:
    """Which atoms ``FixAtoms`` holds.

    Args:
        atoms: with constraints or without.
        refusal: what is said of another constraint, whose name takes the place of {}.

    Raises:
        ValueError: a constraint other than FixAtoms.
    """
    fixed = np.zeros(len(atoms), dtype=bool)
    for constraint in atoms.constraints:
        if not isinstance(constraint, FixAtoms):
            raise ValueError(refusal.format(type(constraint).__name__))
        fixed[constraint.get_indices()] = True
    return fixed


def to_structure(atoms: Atoms) -> Structure:
    """Atoms as arrays; rows of the cell along open directions are set to zero.

    Raises:
        ValueError: a constraint other than FixAtoms.
    """
    pbc = np.array(atoms.pbc)
    fixed = fixed_atoms(
        atoms,
        "the structure has the constraint {}, which molecular dynamics here does not know: use "
        "FixAtoms, or remove it from the structure",
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # masses are looked at by `System`
        velocities = atoms.get_velocities()
    return Structure(
        numbers=np.array(atoms.numbers),
        masses=atoms.get_masses(),
        positions=atoms.get_positions(),
        velocities=velocities,
        cell=np.where(pbc[:, None], np.array(atoms.cell), 0.0),
        pbc=pbc,
        fixed=np.flatnonzero(fixed),
    )


def to_atoms(frame: Frame) -> Atoms:
    """A frame of one structure with its energy and forces, unwrapped positions."""
    atoms = Atoms(
        numbers=frame.numbers,
        positions=frame.positions + frame.images @ frame.cells[0],
        cell=frame.cells[0],
        pbc=frame.pbc[0],
        masses=frame.masses,
    )
    atoms.set_velocities(frame.velocities / units.fs)
    atoms.info["step"], atoms.info["time_fs"] = frame.step, frame.time
    atoms.calc = SinglePointCalculator(
        atoms, energy=float(frame.energies[0]), forces=np.array(frame.forces)
    )
    return atoms


def _cut_frames(path: Path, n_frames: int) -> None:
    """Cut a .traj file after a number of frames, in one step: a kill leaves it as it was.

    Raises:
        ValueError: it has fewer frames, or cannot be read.
    """
    try:
        with TrajectoryReader(path) as kept:
            found = len(kept)
            if found > n_frames:
                with temporary_beside(path) as new, TrajectoryWriter(new, "w") as writer:
                    for number in range(n_frames):
                        writer.write(kept[number])
    except FileNotFoundError:
        found = 0
    except Exception as error:  # the reader raises whatever a damaged file trips
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"trajectory {str(path)!r} cannot be read ({error}): {FIX}") from error
    if found < n_frames:
        raise ValueError(
            f"trajectory {str(path)!r} has {found} frames, the restart file counts {n_frames}: "
            f"they do not belong together; {FIX}"
        )


class AseFrames:
    """Frames of one structure as .extxyz or .traj.

    Args:
        path: made anew, or continued.
        n_frames: frames of an earlier part of the run that are kept.
        n_bytes: where an .extxyz file is cut then.

    Raises:
        ValueError: fewer frames or bytes are found than are to be kept.
    """

    def __init__(self, path: Path, n_frames: int | None = None, n_bytes: int = 0) -> None:
        self.path = path
        self._binary: TrajectoryWriter | None = None
        if path.suffix == ".traj":
            if n_frames:
                _cut_frames(path, n_frames)
            self._binary = TrajectoryWriter(path, "a" if n_frames else "w")
        elif n_frames is None:
            path.write_bytes(b"")
        else:
            cut_bytes(path, n_bytes)

    def write(self, frame: Frame) -> None:
        """Append a frame."""
        atoms = to_atoms(frame)
        if self._binary is not None:
            self._binary.write(atoms)
        else:
            write(self.path, atoms, format="extxyz", append=True)

    def write_unlabelled(self, frame: Frame, **info) -> None:
        """Append a structure without the potential's energy and forces: it waits for labels."""
        atoms = to_atoms(frame)
        atoms.calc = None
        atoms.info.update(info)
        write(self.path, atoms, format="extxyz", append=True)

    def flush(self) -> None:
        """Wait until all frames are on the disk."""
        if self._binary is not None:
            self._binary.backend.fd.flush()  # pyright: ignore[reportAttributeAccessIssue]
        with open(self.path, "r+b") as file:
            os.fsync(file.fileno())

    def abandon(self) -> None:
        """Close the file without what could not be written."""
        if self._binary is not None:
            self._binary.backend.fd.close()  # pyright: ignore[reportAttributeAccessIssue]

    def close(self) -> None:
        """Finish the file."""
        if self._binary is not None:
            self._binary.close()


def read_marks(path: Path) -> list[tuple[int, int]]:
    """Step and replica of each structure that `AseFrames.write_unlabelled` wrote."""
    if path.stat().st_size == 0:
        return []
    found = [one for one in read(path, index=":") if isinstance(one, Atoms)]
    return [(int(one.info["step"]), int(one.info["replica"])) for one in found]


def read_frames(path: Path) -> dict[str, np.ndarray]:
    """Arrays of an .extxyz or .traj trajectory, as `mlpot.md.h5md.read_h5md` gives them."""
    found = [one for one in read(path, index=":") if isinstance(one, Atoms)]
    positions = np.array([one.positions for one in found])
    return {
        "step": np.array([one.info["step"] for one in found]),
        "time": np.array([one.info["time_fs"] for one in found]),
        "species": found[0].numbers,
        "position": positions,
        "image": np.zeros(positions.shape, np.int32),
        "velocity": np.array([one.get_velocities() * units.fs for one in found]),
        "force": np.array([one.get_forces() for one in found]),
        "edges": np.array([np.array(one.cell) for one in found]),
        "energy": np.array([one.get_potential_energy() for one in found]),
    }
