"""Third-order force constants, thermal conductivity, their files."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ase import Atoms
from jaxtyping import Float64

from mlpot.files import atomic_write, temporary_beside

from .outputs import check_outputs, named_paths, write_pictures

if TYPE_CHECKING:
    from phono3py import Phono3py

_VOIGT = ("xx", "yy", "zz", "yz", "xz", "xy")


@dataclass(frozen=True)
class Anharmonic:
    """Result of `anharmonic`.

    Args:
        phono3py: phono3py's object, with symmetrised force constants of second and third order.
        atoms: the unit cell they are those of, relaxed where that was asked for.
        fc3: (n_primitive, n_supercell, n_supercell, 3, 3, 3), eV/Angstrom^3, as computed.
        drift: how far they are off the sum rule as computed, eV/Angstrom^3.
        temperatures: (n,), K, of the conductivity.
        conductivity: (n, 6), W/(m K), xx yy zz yz xz xy; None where no mesh was given.
        files: what was written.
    """

    phono3py: Phono3py
    atoms: Atoms
    fc3: Float64[np.ndarray, "n_primitive n_supercell n_supercell 3 3 3"]
    drift: float
    temperatures: Float64[np.ndarray, " n"] | None = None
    conductivity: Float64[np.ndarray, "n 6"] | None = None
    files: dict[str, Path] = field(default_factory=dict)

    def with_conductivity(self, mesh: Sequence[int], temperatures: Sequence[float]) -> Anharmonic:
        """The same with the lattice thermal conductivity in the relaxation-time approximation.

        Args:
            mesh: (3,) q points.
            temperatures: K.
        """
        solver: Any = self.phono3py
        solver.mesh_numbers = [int(n) for n in mesh]
        # phono3py writes to standard output whatever its level of logging.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            solver.init_phph_interaction()
            solver.run_thermal_conductivity(temperatures=list(temperatures))
        kappa = np.array(solver.thermal_conductivity.kappa, dtype=np.float64)[0]
        return replace(
            self, temperatures=np.array(temperatures, dtype=np.float64), conductivity=kappa
        )

    def table(self) -> str:
        """The conductivity for people."""
        if self.temperatures is None or self.conductivity is None:
            return "No thermal conductivity was asked for."
        lines = ["Thermal conductivity (W/(m K); relaxation times; xx yy zz):"]
        for temperature, row in zip(self.temperatures, self.conductivity, strict=True):
            lines.append(f"  {temperature:7.1f} K " + " ".join(f"{k:10.3f}" for k in row[:3]))
        return "\n".join(lines)

    def write(
        self,
        folder: str | os.PathLike[str],
        name: str | None = None,
        plot: bool = True,
        overwrite: bool = False,
    ) -> dict[str, Path]:
        """Write phono3py's files, the conductivity and a picture of it.

        phono3py reads them as ``phono3py.load("NAME-phono3py.yaml",
        fc2_filename="NAME-fc2.hdf5", fc3_filename="NAME-fc3.hdf5")``.

        Args:
            folder: made where it does not exist.
            name: what file names begin with; the formula by default.
            plot: whether the picture is drawn.
            overwrite: whether existing files are replaced.

        Returns:
            The paths by "yaml", "fc2", "fc3", "conductivity", "png", "svg".

        Raises:
            ValueError: a file exists and ``overwrite`` is False.
        """
        from phono3py.file_IO import write_fc2_to_hdf5, write_fc3_to_hdf5

        name = name or self.atoms.get_chemical_formula()
        paths = output_paths(folder, name, self.conductivity is not None, plot)
        check_outputs(paths.values(), overwrite)
        Path(folder).mkdir(parents=True, exist_ok=True)
        phono3py: Any = self.phono3py
        settings = dict.fromkeys(("force_sets", "force_constants", "displacements"), False)
        with temporary_beside(paths["yaml"]) as temporary:
            phono3py.save(temporary, settings=settings)
        p2s = np.asarray(phono3py.primitive.p2s_map, dtype=np.int64)
        with temporary_beside(paths["fc2"]) as temporary:
            write_fc2_to_hdf5(
                phono3py.fc2,
                filename=str(temporary),
                p2s_map=p2s,
                physical_unit="eV/angstrom^2",
            )
        with temporary_beside(paths["fc3"]) as temporary:
            write_fc3_to_hdf5(phono3py.fc3, filename=str(temporary), p2s_map=p2s)
        if self.conductivity is not None and self.temperatures is not None:
            with atomic_write(paths["conductivity"], "w") as file:
                writer = csv.writer(file)
                writer.writerow(["temperature_K", *(f"kappa_{v}_W/mK" for v in _VOIGT)])
                for temperature, row in zip(self.temperatures, self.conductivity, strict=True):
                    writer.writerow([temperature, *row.tolist()])
            write_pictures(paths, lambda path: _draw(self, path, name))
        self.files.update(paths)
        return paths


def output_paths(
    folder: str | os.PathLike[str], name: str, conductivity: bool, plot: bool
) -> dict[str, Path]:
    """Names of all files of a result."""
    endings = {"yaml": "phono3py.yaml", "fc2": "fc2.hdf5", "fc3": "fc3.hdf5"}
    if conductivity:
        endings["conductivity"] = "kappa.csv"
    return named_paths(folder, name, endings, "kappa" if plot and conductivity else None)


def _draw(result: Anharmonic, path: Path, title: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    assert result.conductivity is not None and result.temperatures is not None
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for column, (label, colour, style) in enumerate(
        zip("xyz", ("#1f5fa8", "#b03030", "#2f7d4f"), ("-", "--", ":"), strict=True)
    ):
        axes.loglog(
            result.temperatures,
            result.conductivity[:, column],
            style,
            color=colour,
            label=label * 2,
        )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}")
        axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    axes.set_xlabel("temperature (K)")
    axes.set_ylabel("thermal conductivity (W/(m K))")
    axes.set_title(f"{title}: relaxation-time approximation")
    axes.legend()
    figure.savefig(path, dpi=150)
