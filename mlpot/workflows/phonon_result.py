"""What a phonon calculation gives, and its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from ase import Atoms

from mlpot.files import atomic_write, temporary_beside

from .group_velocities import GroupVelocities, draw_group_velocities
from .grueneisen import Grueneisen, draw_grueneisen
from .outputs import check_outputs, write_pictures
from .phonon_plot import draw
from .phonopy_bridge import computed_force_constants
from .structures import write_structure
from .thermal import Thermal, draw_thermal, thermal_properties

if TYPE_CHECKING:
    from phonopy import Phonopy
    from phonopy.phonon.mesh import Mesh

#: Modes whose frequency is imaginary by less (THz) are taken for numerical noise.
IMAGINARY_TOLERANCE = 0.02


@dataclass(frozen=True)
class ImaginaryMode:
    """A mode along which the energy falls.

    Args:
        q: (3,), in reciprocal lattice vectors of the primitive cell.
        frequency: THz, negative: the imaginary part with a minus sign.
        label: name of the point, where it has one.
    """

    q: tuple[float, float, float]
    frequency: float
    label: str = ""

    def __str__(self) -> str:
        """Frequency and place for people."""
        name = f" ({self.label})" if self.label else ""
        place = ", ".join(f"{component:.4f}" for component in self.q)
        return f"{-self.frequency:.3f}i THz at q = ({place}){name}"


@dataclass(frozen=True)
class Phonons:
    """Result of `phonons`.

    Args:
        phonopy: phonopy's object, with force constants, bands along seekpath's path, mesh, DOS.
        atoms: the unit cell the phonons are those of, relaxed where that was asked for.
        method: "hessian" or "displacements".
        relaxed: whether the structure was relaxed here.
        sum_rule_before: violation of the acoustic sum rule as computed, eV/Angstrom^2.
        sum_rule_after: the same after symmetrisation.
        asymmetry_before: violation of the permutation symmetry as computed, eV/Angstrom^2.
        asymmetry_after: the same after symmetrisation.
        imaginary: modes with imaginary frequencies, the worst first.
        grueneisen: Grueneisen parameters on the mesh, where they were asked for.
        velocities: group velocities on the mesh, where they were asked for.
        files: what was written, by "yaml", "force_constants", "thermal", "png", "svg",
            "thermal_png", "structure", "grueneisen", "grueneisen_png", "velocities",
            "velocities_png".
    """

    phonopy: Phonopy
    atoms: Atoms
    method: str
    relaxed: bool
    sum_rule_before: float
    sum_rule_after: float
    asymmetry_before: float
    asymmetry_after: float
    imaginary: list[ImaginaryMode]
    grueneisen: Grueneisen | None = None
    velocities: GroupVelocities | None = None
    files: dict[str, Path] = field(default_factory=dict)

    def frequencies(self, q_points) -> np.ndarray:
        """Frequencies at points given in reciprocal lattice vectors of the primitive cell.

        Args:
            q_points: (n, 3).

        Returns:
            (n, 3 n_primitive), THz, ascending; negative where imaginary.
        """
        return np.array(self.phonopy.run_qpoints(np.atleast_2d(q_points)).frequencies)

    def group_velocities(self, q_points) -> np.ndarray:
        """Group velocities at points given in reciprocal lattice vectors of the primitive cell.

        Args:
            q_points: (n, 3).

        Returns:
            (n, 3 n_primitive, 3), THz Angstrom, Cartesian, in the order of `frequencies`.
        """
        found = self.phonopy.run_qpoints(np.atleast_2d(q_points), with_group_velocities=True)
        return np.array(found.group_velocities)

    def thermal_properties(self, t_max: float = 1000.0, t_step: float = 10.0) -> Thermal:
        """Harmonic free energy, entropy and heat capacity at constant volume.

        Imaginary modes are left out: ``left_out`` is their share, ``imaginary`` names them.

        Args:
            t_max: highest temperature, K.
            t_step: step of the temperatures, from 0, K.
        """
        return thermal_properties(self.phonopy, t_max, t_step)

    def write(
        self,
        folder: str | os.PathLike[str],
        name: str | None = None,
        plot: bool = True,
        overwrite: bool = False,
    ) -> dict[str, Path]:
        """Write phonopy's files and the picture; each appears complete or not at all.

        Args:
            folder: made where it does not exist.
            name: what file names begin with; the formula by default.
            plot: whether the picture is drawn.
            overwrite: whether existing files are replaced.

        Returns:
            The paths, which are also put into ``files``.

        Raises:
            ValueError: a file exists and ``overwrite`` is False.
        """
        from phonopy.file_IO import write_force_constants_to_hdf5

        name = name or self.atoms.get_chemical_formula()
        asked = [key for key in ("grueneisen", "velocities") if getattr(self, key) is not None]
        paths = output_paths(folder, name, plot, self.relaxed, asked)
        check_outputs(paths.values(), overwrite)
        Path(folder).mkdir(parents=True, exist_ok=True)
        settings = dict.fromkeys(("force_sets", "force_constants", "displacements"), False)
        with temporary_beside(paths["yaml"]) as temporary:
            self.phonopy.save(temporary, settings=settings)
        with temporary_beside(paths["force_constants"]) as temporary:
            write_force_constants_to_hdf5(
                computed_force_constants(self.phonopy),
                filename=str(temporary),
                p2s_map=self.phonopy.primitive.p2s_map,
                physical_unit="eV/angstrom^2",
            )
        write_pictures(paths, lambda path: draw(self.phonopy, path, name))
        tables: list[tuple[str, Any, Callable[[Any, Path, str], None]]] = [
            ("thermal", self.thermal_properties(), draw_thermal),
            ("grueneisen", self.grueneisen, draw_grueneisen),
            ("velocities", self.velocities, draw_group_velocities),
        ]
        for key, table, draw_table in tables:
            if table is None:
                continue
            with atomic_write(paths[key], "w") as file:
                table.write_csv(file)
            if plot:
                with temporary_beside(paths[f"{key}_png"]) as temporary:
                    draw_table(table, temporary, name)
        if "structure" in paths:
            write_structure(paths["structure"], self.atoms, overwrite)
        self.files.update(paths)
        return paths


def output_paths(
    folder: str | os.PathLike[str], name: str, plot: bool, relaxed: bool, asked: Sequence[str]
) -> dict[str, Path]:
    """Names of all files of a result; what was asked for is "grueneisen" or "velocities"."""
    endings = {"yaml": "phonopy.yaml", "force_constants": "force_constants.hdf5"}
    endings["thermal"] = "thermal.csv"
    endings |= {key: f"{key}.csv" for key in asked}
    if plot:
        endings |= {"png": "phonons.png", "svg": "phonons.svg", "thermal_png": "thermal.png"}
        endings |= {f"{key}_png": f"{key}.png" for key in asked}
    if relaxed:
        endings["structure"] = "relaxed.extxyz"
    return {key: Path(folder) / f"{name}-{ending}" for key, ending in endings.items()}


def find_imaginary(phonopy: Phonopy, tolerance: float = IMAGINARY_TOLERANCE) -> list[ImaginaryMode]:
    """Modes with imaginary frequencies on the band path and the mesh, the worst first.

    Args:
        phonopy: after bands and mesh were computed.
        tolerance: smaller ones (THz) are left out.
    """
    bands, mesh = phonopy.band_structure, cast("Mesh", phonopy.mesh)
    assert bands is not None and mesh is not None
    named = _named_points(phonopy)
    points = np.concatenate([*bands.qpoints, mesh.qpoints])
    frequencies = np.concatenate([*bands.frequencies, mesh.frequencies])
    found: dict[tuple[float, ...], ImaginaryMode] = {}
    for q, row in zip(points, frequencies, strict=True):
        for band, value in enumerate(row):
            if value < -tolerance:
                key = (*np.round(q, 6).tolist(), float(band))
                place = (float(q[0]), float(q[1]), float(q[2]))
                label = named.get(key[:3], "")
                found[key] = ImaginaryMode(place, float(value), label)
    return sorted(found.values(), key=lambda mode: mode.frequency)


def _named_points(phonopy: Phonopy) -> dict[tuple[float, ...], str]:
    """Labels of seekpath's points by their rounded coordinates."""
    from .phonon_plot import segments

    named = {}
    for segment in segments(phonopy):
        named[tuple(np.round(segment.q_points[0], 6).tolist())] = segment.start
        named[tuple(np.round(segment.q_points[-1], 6).tolist())] = segment.end
    return named
