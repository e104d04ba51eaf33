"""Layout of mlpot's HDF5 files, version 1.

Frames lie one behind another. Arrays over all atoms are cut into frames by ``atom_ptr``; the other
arrays have one row a frame.

    /                    attributes: format, version, writer, n_frames, n_atoms, and as JSON: units,
                         sha256 (digest of every array), provenance
    /atom_ptr            (n_frames + 1,) int64
    /atoms/numbers       (n_atoms,) uint8
    /atoms/positions     (n_atoms, 3) float64, Angstrom
    /atoms/forces        (n_atoms, 3) float64, eV/Angstrom
    /frames/cell         (n_frames, 3, 3) float64, Angstrom, rows are lattice vectors
    /frames/pbc          (n_frames, 3) bool
    /frames/energy       (n_frames,) float64, eV
    /frames/stress       (n_frames, 6) float64, eV/Angstrom^3, Voigt xx yy zz yz xz xy
    /frames/labels       (n_frames,) uint8, which labels are known: 1 energy + 2 forces + 4 stress;
                         the values of others are 0
    /frames/weights      (n_frames, 4) float64: frame, energy, forces, stress
    /frames/config_type  (n_frames,) int32, row of /config_types
    /config_types        (n_types,) strings

and, where neighbour lists were asked for,

    /neighbors           attribute: cutoff, Angstrom
    /neighbors/edge_ptr  (n_frames + 1,) int64
    /neighbors/senders   (n_edges,) int32, sorted by receiver
    /neighbors/receivers (n_edges,) int32
    /neighbors/shifts    (n_edges, 3) int16, for positions from `mlpot.graph.reduce_positions`

and, where there are Hessian-vector products,

    /hvps/row_ptr        (n_frames + 1,) int64; k products of a frame are k n_atoms rows
    /hvps/vectors        (n_rows, 3) float64, directions without unit
    /hvps/products       (n_rows, 3) float64, eV/Angstrom^2
    /hvps/weights        (n_frames,) float64

Every array is chunked, compressed and carries a Fletcher-32 checksum that HDF5 checks at each read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

FORMAT = "mlpot-dataset"
VERSION = 1
UNITS = {"energy": "eV", "length": "Angstrom", "forces": "eV/Angstrom", "stress": "eV/Angstrom^3"}

ENERGY, FORCES, STRESS = 1, 2, 4


@dataclass(frozen=True)
class Column:
    """One array of the file.

    Attributes:
        name: path in the file.
        dtype: numpy type.
        shape: shape of a row.
        per: of what there is a row: "frame", "atom", "edge" or "product".
        chunk: rows of a chunk; small enough for cheap random access.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    per: str
    chunk: int


COLUMNS = (
    Column("atom_ptr", "i8", (), "frame", 4096),
    Column("atoms/numbers", "u1", (), "atom", 4096),
    Column("atoms/positions", "f8", (3,), "atom", 1024),
    Column("atoms/forces", "f8", (3,), "atom", 1024),
    Column("frames/cell", "f8", (3, 3), "frame", 256),
    Column("frames/pbc", "?", (3,), "frame", 4096),
    Column("frames/energy", "f8", (), "frame", 4096),
    Column("frames/stress", "f8", (6,), "frame", 512),
    Column("frames/labels", "u1", (), "frame", 4096),
    Column("frames/weights", "f8", (4,), "frame", 1024),
    Column("frames/config_type", "i4", (), "frame", 4096),
)

NEIGHBORS = "neighbors"
NEIGHBOR_COLUMNS = (
    Column("neighbors/edge_ptr", "i8", (), "frame", 4096),
    Column("neighbors/senders", "i4", (), "edge", 8192),
    Column("neighbors/receivers", "i4", (), "edge", 8192),
    Column("neighbors/shifts", "i2", (3,), "edge", 8192),
)
HVPS = "hvps"
HVP_COLUMNS = (
    Column("hvps/row_ptr", "i8", (), "frame", 4096),
    Column("hvps/vectors", "f8", (3,), "product", 1024),
    Column("hvps/products", "f8", (3,), "product", 1024),
    Column("hvps/weights", "f8", (), "frame", 4096),
)
#: Arrays with one row more than there are frames.
POINTERS = ("atom_ptr", "neighbors/edge_ptr", "hvps/row_ptr")


def check_format(file: h5py.File, path: Path) -> None:
    """Refuse what is not a set of frames that this mlpot reads.

    Raises:
        ValueError: a trajectory, another file, or one of a newer mlpot; with what to do.
    """
    attributes: Any = file.attrs
    if attributes.get("format") != FORMAT and "h5md" in file:
        raise ValueError(
            f"{path} is a trajectory of molecular dynamics (H5MD): read uncertain.extxyz of a "
            "committee instead, or have the trajectory written as .extxyz"
        )
    if attributes.get("format") != FORMAT:
        raise ValueError(
            f"{path} is HDF5 but not a data set of mlpot; convert the original with `mlpot convert`"
        )
    if int(attributes["version"]) > VERSION:
        raise ValueError(
            f"{path} has format version {attributes['version']}, this mlpot reads up to {VERSION}; "
            "upgrade mlpot"
        )
