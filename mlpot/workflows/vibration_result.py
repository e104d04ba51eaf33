"""What a vibrational analysis gives, and its files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from ase import Atoms
from jaxtyping import Float64

from mlpot.files import atomic_write, temporary_beside
from mlpot.units import EV_PER_THZ, INVERSE_CM_PER_THZ

from .outputs import check_outputs, named_paths, write_pictures

#: Frames of a mode's animation and its largest displacement, Angstrom.
_FRAMES, _AMPLITUDE = 20, 0.3
#: Of elements in the picture.
_COLORS = ("#1f5fa8", "#b03030", "#2f7d4f", "#c8801e", "#7a4fa0", "#3a9aa8")

Geometry = Literal["monatomic", "linear", "nonlinear"]


@dataclass(frozen=True)
class Thermochemistry:
    """Ideal gas, rigid rotor, harmonic oscillators.

    Args:
        enthalpy: eV, potential energy included.
        entropy: eV/K.
        gibbs: eV, potential energy included.
    """

    enthalpy: float
    entropy: float
    gibbs: float


@dataclass(frozen=True)
class Vibrations:
    """Result of `vibrations`.

    Args:
        atoms: the molecule, relaxed where that was asked for.
        energy: potential energy, eV.
        largest_force: left on an atom, eV/Angstrom.
        hessian: (3 n_atoms, 3 n_atoms), eV/Angstrom^2, as computed.
        frequencies: (n_modes,), THz, ascending; negative where imaginary.
        modes: (n_modes, n_atoms, 3), displacements, normalised with the masses (amu).
        rigid: frequencies of translations and rotations before they were projected out, THz.
        geometry: "monatomic", "linear" or "nonlinear".
        temperature: K.
        pressure: Pa.
        symmetry_number: of the rotations.
        spin: total electronic spin.
    """

    atoms: Atoms
    energy: float
    largest_force: float
    hessian: Float64[np.ndarray, "n3 n3"]
    frequencies: Float64[np.ndarray, " n_modes"]
    modes: Float64[np.ndarray, "n_modes n_atoms 3"]
    rigid: Float64[np.ndarray, " n_rigid"]
    geometry: Geometry
    temperature: float
    pressure: float
    symmetry_number: int
    spin: float

    @property
    def wavenumbers(self) -> Float64[np.ndarray, " n_modes"]:
        """Frequencies in 1/cm."""
        return self.frequencies * INVERSE_CM_PER_THZ

    @property
    def imaginary(self) -> int:
        """Number of imaginary modes: 0 at a minimum, 1 at a transition state."""
        return int(np.sum(self.frequencies < 0))

    @property
    def zero_point_energy(self) -> float:
        """Half a quantum of each real mode, eV."""
        return float(0.5 * EV_PER_THZ * self.frequencies[self.frequencies > 0].sum())

    def thermochemistry(self) -> Thermochemistry:
        """Enthalpy, entropy and Gibbs energy at the temperature and pressure given.

        Raises:
            ValueError: a mode is imaginary: the structure is no minimum.
        """
        from ase.thermochemistry import IdealGasThermo

        if self.imaginary:
            raise ValueError(
                f"{self.imaginary} modes are imaginary: the structure is no minimum, so it has no "
                "thermochemistry; relax it further"
            )
        thermo = IdealGasThermo(
            vib_energies=[float(f) * EV_PER_THZ for f in self.frequencies],
            geometry=self.geometry,
            potentialenergy=self.energy,
            atoms=self.atoms,
            symmetrynumber=self.symmetry_number,
            spin=self.spin,
        )
        return Thermochemistry(
            thermo.get_enthalpy(self.temperature, verbose=False),
            thermo.get_entropy(self.temperature, self.pressure, verbose=False),
            thermo.get_gibbs_energy(self.temperature, self.pressure, verbose=False),
        )

    def table(self) -> str:
        """The result for people."""
        lines = ["mode   THz        1/cm       meV"]
        for n, thz in enumerate(self.frequencies):
            mark = "i" if thz < 0 else " "
            size = abs(thz)
            lines.append(
                f"{n:4d} {size:9.4f}{mark} {size * INVERSE_CM_PER_THZ:10.2f}{mark} "
                f"{size * EV_PER_THZ * 1e3:9.3f}{mark}"
            )
        lines.append(
            f"{self.geometry} molecule; translations and rotations were within "
            f"{np.abs(self.rigid).max(initial=0.0):.1e} THz of zero."
        )
        lines.append(f"Zero-point energy {self.zero_point_energy:.5f} eV.")
        if self.imaginary:
            lines.append(f"{self.imaginary} IMAGINARY modes (i): this is no minimum.")
        else:
            thermo = self.thermochemistry()
            lines.append(
                f"At {self.temperature:g} K and {self.pressure:g} Pa: H = {thermo.enthalpy:.5f} eV,"
                f" S = {thermo.entropy * 1e3:.5f} meV/K, G = {thermo.gibbs:.5f} eV (ideal gas, "
                f"symmetry number {self.symmetry_number})."
            )
        return "\n".join(lines)

    def animation(self, mode: int) -> list[Atoms]:
        """One period of a mode, the largest displacement 0.3 Angstrom."""
        shape = self.modes[mode]
        shape = shape * (_AMPLITUDE / np.linalg.norm(shape, axis=1).max())
        frames = []
        for phase in np.linspace(0, 2 * np.pi, _FRAMES, endpoint=False):
            frame = self.atoms.copy()
            frame.positions += np.sin(phase) * shape
            frames.append(frame)
        return frames

    def write(
        self,
        folder: str | os.PathLike[str],
        name: str | None = None,
        plot: bool = True,
        overwrite: bool = False,
    ) -> dict[str, Path]:
        """Write NAME-vibrations.json, the modes as animations in extended XYZ, and a picture.

        Args:
            folder: made where it does not exist.
            name: what file names begin with; the formula by default.
            plot: whether the picture is drawn.
            overwrite: whether existing files are replaced.

        Returns:
            The paths by "json", "modes", "png", "svg".

        Raises:
            ValueError: a file exists and ``overwrite`` is False.
        """
        import ase.io

        name = name or self.atoms.get_chemical_formula()
        paths = output_paths(folder, name, plot)
        check_outputs(paths.values(), overwrite)
        Path(folder).mkdir(parents=True, exist_ok=True)
        data = {
            "symbols": self.atoms.get_chemical_symbols(),
            "positions_angstrom": self.atoms.positions.tolist(),
            "energy_eV": self.energy,
            "largest_force_eV_per_angstrom": self.largest_force,
            "frequencies_THz": self.frequencies.tolist(),
            "wavenumbers_per_cm": self.wavenumbers.tolist(),
            "modes": self.modes.tolist(),
            "rigid_THz": self.rigid.tolist(),
            "zero_point_energy_eV": self.zero_point_energy,
        }
        if not self.imaginary:
            data["thermochemistry"] = {
                "temperature_K": self.temperature, "pressure_Pa": self.pressure,
                "symmetry_number": self.symmetry_number, "spin": self.spin,
                **vars(self.thermochemistry()),
            }  # fmt: skip
        with atomic_write(paths["json"], "w") as file:
            json.dump(data, file, indent=2)
        frames = []
        for mode in range(len(self.frequencies)):
            for frame in self.animation(mode):
                frame.info.update(mode=mode, frequency_THz=float(self.frequencies[mode]))
                frames.append(frame)
        with temporary_beside(paths["modes"]) as temporary:
            ase.io.write(temporary, frames, format="extxyz")
        write_pictures(paths, lambda path: draw(self, path, name))
        return paths


def output_paths(folder: str | os.PathLike[str], name: str, plot: bool) -> dict[str, Path]:
    """Names of all files of a result."""
    return named_paths(
        folder,
        name,
        {"json": "vibrations.json", "modes": "modes.extxyz"},
        "vibrations" if plot else None,
    )


def draw(result: Vibrations, path: Path, title: str) -> None:
    """The frequencies as lines on an axis of wave numbers; how far atoms of each element move."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    elements = np.array(result.atoms.get_chemical_symbols())
    # Parts of the kinetic energy: modes are normalised with the masses.
    kinetic = result.atoms.get_masses()[:, None] * result.modes**2
    parts = kinetic.sum(axis=2) / kinetic.sum(axis=(1, 2))[:, None]
    bottom = np.zeros(len(result.wavenumbers))
    width = 0.006 * max(float(np.ptp([0.0, *result.wavenumbers])), 1.0)
    for element, color in zip(dict.fromkeys(elements.tolist()), _COLORS * 8, strict=False):
        part = parts[:, elements == element].sum(axis=1)
        axes.bar(result.wavenumbers, part, width, bottom, color=color, label=element)
        bottom += part
    if result.imaginary:
        axes.axvline(0.0, color="#888888", linewidth=0.8, linestyle="--")
    axes.set_ylim(0, 1)
    axes.set_ylabel("part of the motion")
    axes.set_xlabel(f"wave number (1/cm){'; imaginary below 0' * bool(result.imaginary)}")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), title="element")
    axes.set_title(f"{title}: zero-point energy {result.zero_point_energy:.4f} eV")
    figure.savefig(path, dpi=150)
