"""Reading frames from any of the formats."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import ase.db
from ase import Atoms
from ase.io import iread

from .ase_frames import AtomsReader, Keys, Units
from .extxyz import read_extxyz
from .frame import Frame
from .hdf5 import HDF5Dataset
from .npz import read_npz

HDF5_SUFFIXES = (".h5", ".hdf5")
_COMPRESSIONS = (".gz", ".bz2", ".xz")

PathLike = str | os.PathLike[str]


def expand(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    """Files named by paths and glob patterns, in order; patterns give theirs sorted.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
    """
    single = isinstance(paths, str | os.PathLike)
    found: list[Path] = []
    for path in [paths] if single else paths:  # type: ignore[union-attr]
        name = os.path.expanduser(os.fspath(path))
        if os.path.isfile(name):
            found.append(Path(name))
            continue
        if os.path.isdir(name):
            raise ValueError(f"{name} is a folder; name the files in it, e.g. {name}/*.xyz")
        matches = [m for m in sorted(glob.glob(name, recursive=True)) if os.path.isfile(m)]
        if not matches:
            is_pattern = glob.has_magic(name)
            what = "no file matches" if is_pattern else "there is no file"
            raise FileNotFoundError(f"{what} {name!r} (in {os.getcwd()})")
        found += [Path(match) for match in matches]
    if not found:
        raise ValueError("no data files are named; give at least one")
    return found


def suffix_of(path: Path) -> str:
    """Suffix that tells the format, in lower case, compression aside: ``a.xyz.gz`` -> ``.xyz``."""
    return Path(path.stem if path.suffix.lower() in _COMPRESSIONS else path).suffix.lower()


def iterate(
    paths: PathLike | Iterable[PathLike],
    *,
    energy_key: str | None = None,
    forces_key: str | None = None,
    stress_key: str | None = None,
    virials_key: str | None = None,
    hvp_vectors_key: str | None = None,
    hvps_key: str | None = None,
    config_type_key: str = "config_type",
    energy_unit: str | None = None,
    length_unit: str | None = None,
    forces_unit: str | None = None,
    stress_unit: str | None = None,
) -> Iterator[Frame]:
    """As `read`, one frame after another, for data that does not fit into memory."""
    keys = Keys(
        energy_key,
        forces_key,
        stress_key,
        virials_key,
        hvp_vectors_key,
        hvps_key,
        config_type_key,
    )
    units = Units(energy_unit, length_unit, forces_unit, stress_unit)
    files = expand(paths)
    reader = AtomsReader(keys, units)
    for file in files:
        suffix = suffix_of(file)
        if suffix in HDF5_SUFFIXES:
            if (units.energy_unit or "eV").lower() != "ev" or units.length_unit not in (
                None,
                "Angstrom",
                "A",
            ):
                raise ValueError(
                    f"{file} is in eV and Angstrom already; leave out energy_unit and length_unit"
                )
            with HDF5Dataset(file) as stored:
                yield from stored
        elif suffix == ".npz":
            yield from read_npz(file, units)
        else:
            yield from _frames(file, suffix, reader)
    for label in ("energy", "forces", "stress", "virials", "hvp_vectors", "hvps"):
        key = reader.missing(label)
        if key is not None and reader.seen:
            raise ValueError(
                f"{label}_key {key!r} is in no frame of {', '.join(map(str, files))}; "
                f"there are {', '.join(sorted(reader.seen))}"
            )


def _structures(file: Path, suffix: str) -> Iterator[Atoms]:
    """Structures of a file through ASE, with errors that name the frame."""
    if suffix in (".xyz", ".extxyz"):
        yield from read_extxyz(file)
        return
    found = (
        _database_rows(file)
        if suffix == ".db"
        else iread(os.fspath(file), index=":", do_not_split_by_at_sign=True)
    )
    index = 0
    while True:
        try:
            atoms = next(found, None)
        except Exception as error:  # whatever a parser meets in a damaged file
            kind = type(error).__name__
            raise ValueError(f"{file}:{index}: cannot be read ({kind}: {error})") from error
        if atoms is None:
            return
        yield atoms
        index += 1


def _database_rows(file: Path) -> Iterator[Atoms]:
    """Structures of an ASE database with their columns, which `ase.io` leaves out."""
    for row in ase.db.connect(file).select():
        yield row.toatoms(add_additional_information=True)


def _frames(file: Path, suffix: str, reader: AtomsReader) -> Iterator[Frame]:
    index = -1
    for index, atoms in enumerate(_structures(file, suffix)):
        yield reader.frame(atoms, source=f"{file}:{index}")
    if index < 0:
        raise ValueError(f"{file} holds no frames")


def read(paths: PathLike | Iterable[PathLike], **options) -> list[Frame]:
    """Read labelled structures.

    Formats: extended XYZ, MD17 and rMD17 ``.npz``, mlpot's HDF5, and everything ASE reads
    (databases, trajectories, program outputs); also compressed with gzip, bzip2 or xz.

    Labels are looked for under ``REF_energy``, ``REF_forces``, ``REF_stress``, ``REF_virials`` and
    then ``energy``, ``forces``, ``stress``, ``virials``, ``virial``, wherever ASE keeps them.
    Hessian-vector products are columns of atoms: ``REF_hvp_vectors`` holds 3 k numbers an atom, k
    directions, and ``REF_hvps`` the Hessian of the energy times each of these.
    Virials become stresses, ``stress = -virials / volume``. A label that is not there is None.
    A missing file or damaged content is an error that names the file and the frame.

    Args:
        paths: a file, a pattern such as ``data/*.xyz``, or several of them.
        options: keywords, all optional:
            ``energy_key``, ``forces_key``, ``stress_key``, ``virials_key``, ``hvp_vectors_key``,
            ``hvps_key``: other names for the labels; ``config_type_key``: other name for the kind
            of frame;
            ``energy_unit`` (eV), ``length_unit`` (Angstrom), ``forces_unit`` (energy/length),
            ``stress_unit`` (energy/length^3): units of the file, e.g. ``kcal/mol``, ``Bohr``,
            ``Hartree/Bohr``, ``kbar``.

    Returns:
        All frames, in the order of the files, in eV and Angstrom.

    Raises:
        FileNotFoundError: a file does not exist.
        ValueError: a file cannot be read, holds no frames, or a label is not finite or has the
            wrong shape; or a key that was named is in no frame; or a unit is unknown.
    """
    return list(iterate(paths, **options))
