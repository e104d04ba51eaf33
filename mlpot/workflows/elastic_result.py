"""Elastic constants: moduli, stability, table, files, picture."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from jaxtyping import Float64

from mlpot.derivatives.strain import VOIGT

from .outputs import check_outputs, named_paths, write_numbers
from .relaxation import told_unrelaxed

#: Directions (degrees) beside the axes of the picture in which its circles may be labelled.
_LABELS = np.array([75, 60, 45])


@dataclass(frozen=True)
class Moduli:
    """Moduli of a polycrystal, GPa (Hill, Proc. Phys. Soc. A 65, 349 (1952)).

    Args:
        bulk_voigt, shear_voigt: equal strain, upper bounds.
        bulk_reuss, shear_reuss: equal stress, lower bounds.
    """

    bulk_voigt: float
    shear_voigt: float
    bulk_reuss: float
    shear_reuss: float

    @property
    def bulk(self) -> float:
        """Hill's mean, GPa."""
        return 0.5 * (self.bulk_voigt + self.bulk_reuss)

    @property
    def shear(self) -> float:
        """Hill's mean, GPa."""
        return 0.5 * (self.shear_voigt + self.shear_reuss)

    @property
    def young(self) -> float:
        """From Hill's means, GPa."""
        return 9 * self.bulk * self.shear / (3 * self.bulk + self.shear)

    @property
    def poisson(self) -> float:
        """Poisson's ratio from Hill's means."""
        return (3 * self.bulk - 2 * self.shear) / (2 * (3 * self.bulk + self.shear))


def moduli(c: Float64[np.ndarray, "6 6"]) -> Moduli:
    """Averages of an elastic tensor (6, 6) in Voigt's order, GPa."""

    def sums(m: np.ndarray) -> tuple[float, float, float]:
        off_diagonal = m[0, 1] + m[0, 2] + m[1, 2]
        return float(m.trace() - sum_of_shears(m)), float(off_diagonal), float(sum_of_shears(m))

    def sum_of_shears(m: np.ndarray) -> float:
        return m[3, 3] + m[4, 4] + m[5, 5]

    stretch, beside, shear = sums(c)
    s_stretch, s_beside, s_shear = sums(np.linalg.inv(c))
    return Moduli(
        bulk_voigt=(stretch + 2 * beside) / 9,
        shear_voigt=(stretch - beside + 3 * shear) / 15,
        bulk_reuss=1 / (s_stretch + 2 * s_beside),
        shear_reuss=15 / (4 * s_stretch - 4 * s_beside + 3 * s_shear),
    )


def rotated(c: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """An elastic tensor (6, 6) in axes turned by a rotation (3, 3): v' = rotation v."""
    full = np.empty((3, 3, 3, 3))
    for a, (i, j) in enumerate(VOIGT):
        for b, (k, l) in enumerate(VOIGT):
            full[i, j, k, l] = full[j, i, k, l] = full[i, j, l, k] = full[j, i, l, k] = c[a, b]
    r = rotation
    turned = np.einsum("ai,bj,ck,dl,ijkl->abcd", r, r, r, r, full, optimize=True)
    return np.array([[turned[i, j, k, l] for k, l in VOIGT] for i, j in VOIGT])


def standard_rotation(atoms: Atoms) -> tuple[str, np.ndarray] | None:
    """Space group, and the rotation from the axes of a cell to the crystal's standard ones.

    Those of spglib's standardised cell: along the edges of a cubic cell, with c along the axis of
    a hexagonal one. None where spglib is missing or finds no symmetry.
    """
    try:
        import spglib
    except ImportError:
        return None
    cell: Any = (atoms.cell.array, atoms.get_scaled_positions(), atoms.numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of spglib about errors to come
        found = spglib.get_symmetry_dataset(cell, symprec=1e-4)
    if found is None:
        return None
    return str(found.international), np.array(found.std_rotation_matrix)


def young_modulus(c: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Young's modulus along unit vectors (n, 3), GPa: 1 / (S_ijkl n_i n_j n_k n_l)."""
    s = np.linalg.inv(c)
    # Stress n n as a Voigt vector; engineering strain = S stress; its component along n n.
    stress = np.stack([directions[:, i] * directions[:, j] for i, j in VOIGT], axis=1)
    return 1.0 / np.einsum("na,ab,nb->n", stress, s, stress)


@dataclass(frozen=True)
class Elastic:
    """Result of `elastic`.

    Args:
        atoms: the unit cell, relaxed where that was asked for.
        clamped: (6, 6), GPa, ions at fixed fractional coordinates; Voigt's order xx yy zz yz xz xy.
        relaxed: (6, 6), GPa, ions following the strain.
        stress: (6,), GPa, left in the cell; the constants are exact where it is zero.
        method: "derivatives" or "strains".
        unrelaxed: strained cells whose atoms did not reach fmax: ``relaxed`` is then wrong.
    """

    atoms: Atoms
    clamped: Float64[np.ndarray, "6 6"]
    relaxed: Float64[np.ndarray, "6 6"]
    stress: Float64[np.ndarray, "6"]
    method: str
    unrelaxed: int = 0

    @property
    def moduli(self) -> Moduli:
        """Polycrystalline averages of the constants with relaxed ions."""
        return moduli(self.relaxed)

    @property
    def stability(self) -> Float64[np.ndarray, "6"]:
        """Eigenvalues of the relaxed tensor, ascending, GPa; all positive where it is stable."""
        # In Mandel's form, in which the eigenvalues do not depend on the axes.
        scale = np.array([1, 1, 1, np.sqrt(2), np.sqrt(2), np.sqrt(2)])
        return np.linalg.eigvalsh(self.relaxed * scale[:, None] * scale)

    @property
    def stable(self) -> bool:
        """Whether every small strain raises the energy (Born's criterion)."""
        return bool(self.stability[0] > 0)

    def in_standard_axes(self) -> tuple[str, Elastic] | None:
        """Space group and the same result in the crystal's standard axes; None if not known."""
        found = standard_rotation(self.atoms)
        if found is None:
            return None
        group, rotation = found
        pressed = np.zeros((3, 3))
        for value, (i, j) in zip(self.stress, VOIGT, strict=True):
            pressed[i, j] = pressed[j, i] = value
        pressed = rotation @ pressed @ rotation.T
        return group, replace(
            self,
            clamped=rotated(self.clamped, rotation),
            relaxed=rotated(self.relaxed, rotation),
            stress=np.array([pressed[i, j] for i, j in VOIGT]),
        )

    def table(self) -> str:
        """The result for people; in standard axes too, where those of the cell are others."""
        lines = self._tensors("")
        standard = self.in_standard_axes()
        if standard is not None:
            group, other = standard
            if not np.allclose(other.relaxed, self.relaxed, atol=0.01):
                lines.append(
                    f"These are the axes of the cell as it was given. Space group {group}:"
                )
                lines += other._tensors(" in the crystal's standard axes")
        if self.unrelaxed:
            lines.append(f"NOT CONVERGED: {told_unrelaxed(self.unrelaxed, 'strained cells')}.")
        return "\n".join([*lines, *self._summary()])

    def _tensors(self, axes: str) -> list[str]:
        lines = []
        for title, tensor in (("clamped ions", self.clamped), ("relaxed ions", self.relaxed)):
            lines.append(f"Elastic constants, {title}{axes} (GPa; xx yy zz yz xz xy):")
            # Without the sign of what rounds to zero.
            rows = np.round(tensor, 2) + 0.0
            lines += ["  " + " ".join(f"{value:9.2f}" for value in row) for row in rows]
        return lines

    def _summary(self) -> list[str]:
        lines = []
        lowest = self.stability[0]
        if self.stable:
            m = self.moduli
            lines += [
                f"Bulk modulus {m.bulk:.2f} GPa (Voigt {m.bulk_voigt:.2f}, Reuss "
                f"{m.bulk_reuss:.2f}), shear {m.shear:.2f} GPa (Voigt {m.shear_voigt:.2f}, Reuss "
                f"{m.shear_reuss:.2f}),",
                f"Young {m.young:.2f} GPa, Poisson's ratio {m.poisson:.4f} (Hill).",
                f"Mechanically stable: lowest eigenvalue {lowest:.2f} GPa.",
            ]
        else:
            lines.append(f"NOT stable: a strain lowers the energy (eigenvalue {lowest:.2f} GPa).")
        lines.append(f"Stress left in the cell: at most {np.abs(self.stress).max():.2e} GPa.")
        return lines

    def write(
        self,
        folder: str | os.PathLike[str],
        name: str | None = None,
        plot: bool = True,
        overwrite: bool = False,
    ) -> dict[str, Path]:
        """Write NAME-elastic.json and a picture of Young's modulus.

        Args:
            folder: made where it does not exist.
            name: what file names begin with; the formula by default.
            plot: whether the picture is drawn; there is none of an unstable crystal.
            overwrite: whether existing files are replaced.

        Returns:
            The paths by "json", "png", "svg".

        Raises:
            ValueError: a file exists and ``overwrite`` is False.
        """
        name = name or self.atoms.get_chemical_formula()
        paths = output_paths(folder, name, plot and self.stable)
        check_outputs(paths.values(), overwrite)
        Path(folder).mkdir(parents=True, exist_ok=True)
        data = {
            "units": "GPa",
            "order": "xx yy zz yz xz xy",
            "method": self.method,
            "clamped_ions": self.clamped.tolist(),
            "relaxed_ions": self.relaxed.tolist(),
            "stress": self.stress.tolist(),
            "stable": self.stable,
            "unrelaxed": self.unrelaxed,
            "eigenvalues": self.stability.tolist(),
        }
        standard = self.in_standard_axes()
        if standard is not None:
            group, other = standard
            data["space_group"] = group
            data["standard_axes"] = {
                "clamped_ions": other.clamped.tolist(),
                "relaxed_ions": other.relaxed.tolist(),
            }
        if self.stable:
            m = self.moduli
            data["moduli"] = {
                **vars(m), "bulk_hill": m.bulk, "shear_hill": m.shear, "young": m.young,
                "poisson": m.poisson,
            }  # fmt: skip
        shown, axes = self.relaxed, "axes of the cell"
        if standard is not None:
            shown, axes = standard[1].relaxed, "standard axes"
        write_numbers(paths, data, lambda path: draw(shown, path, f"{name}: {axes}"))
        return paths


def output_paths(folder: str | os.PathLike[str], name: str, plot: bool) -> dict[str, Path]:
    """Names of all files of a result."""
    return named_paths(folder, name, {"json": "elastic.json"}, "elastic" if plot else None)


def draw(c: np.ndarray, path: Path, title: str) -> None:
    """Young's modulus in the three planes of the axes, as polar curves."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    angles = np.linspace(0, 2 * np.pi, 361)
    for place, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
        directions = np.zeros((len(angles), 3))
        directions[:, i], directions[:, j] = np.cos(angles), np.sin(angles)
        axes: Any = figure.add_subplot(1, 3, place + 1, projection="polar")
        moduli = young_modulus(c, directions)
        axes.plot(angles, moduli, color="#1f5fa8", linewidth=1.4)
        axes.set_title(f"{'xyz'[i]}{'xyz'[j]} plane", fontsize=10)
        axes.set_thetagrids(range(0, 360, 45), ["xyz"[i], "", "xyz"[j], *[""] * 5])
        axes.set_ylim(0, 1.1 * moduli.max())
        axes.yaxis.set_major_locator(MaxNLocator(3))
        # The labels stand where the curve is farthest from them.
        circles = np.asarray(axes.get_yticks())[:, None]
        gaps = np.abs(circles - moduli[_LABELS]).min(axis=0)
        axes.set_rlabel_position(float(_LABELS[gaps.argmax()]))
        for label in axes.get_yticklabels():
            label.set(fontsize=8, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
    figure.suptitle(f"{title}, Young's modulus (GPa) by direction")
    figure.savefig(path, dpi=110)
