"""Thermal properties of a crystal from its harmonic phonons."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

if TYPE_CHECKING:
    from phonopy import Phonopy


@dataclass(frozen=True)
class Thermal:
    """Harmonic properties at constant volume, per mole of primitive cells.

    Args:
        temperatures: (n,), K.
        free_energy: (n,), kJ/mol, zero-point energy included.
        entropy: (n,), J/K/mol.
        heat_capacity: (n,), J/K/mol.
        n_atoms: in the primitive cell.
        left_out: share of the modes on the mesh that have imaginary frequencies, from 0 to 1; they
            are in none of the sums.
    """

    temperatures: Float64[np.ndarray, " n"]
    free_energy: Float64[np.ndarray, " n"]
    entropy: Float64[np.ndarray, " n"]
    heat_capacity: Float64[np.ndarray, " n"]
    n_atoms: int
    left_out: float = 0.0

    def write_csv(self, file: IO[Any]) -> None:
        """One line for each temperature; all say how many modes are left out."""
        writer = csv.writer(file)
        writer.writerow(
            [
                "temperature_K",
                "free_energy_kJ/mol",
                "entropy_J/K/mol",
                "heat_capacity_J/K/mol",
                "imaginary_modes_left_out_%",
            ]
        )
        left_out = np.full(len(self.temperatures), round(100 * self.left_out, 4))
        columns = (self.temperatures, self.free_energy, self.entropy, self.heat_capacity, left_out)
        writer.writerows(zip(*(column.tolist() for column in columns), strict=True))


def thermal_properties(phonopy: Phonopy, t_max: float, t_step: float) -> Thermal:
    """Thermal properties from phonopy's mesh.

    Args:
        phonopy: after its mesh was computed.
        t_max: highest temperature, K.
        t_step: step of the temperatures, from 0, K.

    Raises:
        ValueError: a temperature or step that is not positive.
    """
    if not t_max > 0 or not t_step > 0:
        raise ValueError(f"t_max={t_max}, t_step={t_step}: both must be above 0 K")
    # Rigid shifts are no oscillators; their frequencies are zero to rounding.
    found: Any = phonopy.run_thermal_properties(
        t_min=0, t_step=t_step, t_max=t_max, exclude_gamma_acoustic=True
    )
    return Thermal(
        np.array(found.temperatures, dtype=np.float64),
        np.array(found.free_energy, dtype=np.float64),
        np.array(found.entropy, dtype=np.float64),
        np.array(found.heat_capacity, dtype=np.float64),
        len(phonopy.primitive),
        _left_out(phonopy, found),
    )


def _left_out(phonopy: Phonopy, found: Any) -> float:
    """Share of the modes that are not in the sums, but for the rigid shifts."""
    mesh: Any = phonopy.mesh
    at_gamma = np.linalg.norm(mesh.qpoints - np.rint(mesh.qpoints), axis=1) < 1e-9
    rigid = 3 * int(mesh.weights[at_gamma].sum())
    every = int(found.number_of_modes)
    return (every - int(found.number_of_integrated_modes) - rigid) / every


def draw_thermal(thermal: Thermal, path: Path, title: str) -> None:
    """Free energy, entropy and heat capacity against temperature, with Dulong and Petit's limit."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot(thermal.temperatures, thermal.entropy, color="#2f7d4f", label="entropy (J/K/mol)")
    axes.plot(
        thermal.temperatures,
        thermal.heat_capacity,
        color="#b03030",
        label="heat capacity at constant volume (J/K/mol)",
    )
    axes.plot(
        thermal.temperatures, thermal.free_energy, color="#1f5fa8", label="free energy (kJ/mol)"
    )
    axes.axhline(
        3 * 8.314462618 * thermal.n_atoms,
        color="#888888",
        linestyle=":",
        linewidth=1,
        label="3R for each atom (Dulong and Petit)",
    )
    axes.set_xlabel("temperature (K)")
    what = f"{title}: harmonic, per primitive cell of {thermal.n_atoms} atoms"
    if thermal.left_out > 0:
        what += f"\n{100 * thermal.left_out:.3g} % of the modes are imaginary and left out"
    axes.set_title(what)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
