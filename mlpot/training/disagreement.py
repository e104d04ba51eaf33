"""What the members of a committee disagree about, and whether that tells where they err."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlpot.files import atomic_write

from .errors import Predictions
from .tables import terminal_table

if TYPE_CHECKING:
    from rich.table import Table

    from mlpot.datasets import Frame


@dataclass(frozen=True)
class Disagreement:
    """Standard deviations over the members of a committee (divided by their number).

    Args:
        energy: (n_frames,) of the energy per atom, eV/atom.
        forces: of each frame, (n_atoms,), root of the summed variances of the three components,
            eV/Angstrom.
    """

    energy: np.ndarray
    forces: list[np.ndarray]

    @property
    def largest(self) -> np.ndarray:
        """(n_frames,) of the most disputed atom, eV/Angstrom."""
        return np.array([spread.max() for spread in self.forces])


def combine(
    frames: Sequence[Frame], members: Sequence[Predictions]
) -> tuple[Predictions, Disagreement]:
    """Means and standard deviations over predictions of several models for the same frames.

    Args:
        frames: what was predicted.
        members: predictions, at least two.
    """
    if len(members) < 2:
        raise ValueError(f"a committee has at least two members, not {len(members)}")
    sizes = np.array([frame.n_atoms for frame in frames])
    energies = np.stack([one.energy for one in members])
    forces = [np.stack(of_frame) for of_frame in zip(*(m.forces for m in members), strict=True)]
    stresses = [one.stress for one in members if one.stress is not None]
    mean = Predictions(
        reference=np.mean([one.reference for one in members], axis=0),
        energy=energies.mean(axis=0),
        forces=[of_frame.mean(axis=0) for of_frame in forces],
        stress=np.mean(stresses, axis=0) if len(stresses) == len(members) else None,
        hvps=_mean_products([one.hvps for one in members if one.hvps is not None]),
    )
    spread = Disagreement(
        energy=energies.std(axis=0) / sizes,
        forces=[np.sqrt(of_frame.var(axis=0).sum(axis=1)) for of_frame in forces],
    )
    return mean, spread


def _mean_products(members: list[list[np.ndarray | None]]) -> list[np.ndarray | None] | None:
    if not members:
        return None
    return [
        None if of_frame[0] is None else np.mean(of_frame, axis=0)
        for of_frame in zip(*members, strict=True)
    ]


@dataclass(frozen=True)
class DisagreementRow:
    """Disagreement on one set.

    Args:
        set: name of the set.
        n_frames: number of frames.
        energy: mean over frames, eV/atom.
        forces: mean over atoms, eV/Angstrom.
        forces_95: 95 % of the atoms are below, eV/Angstrom.
        forces_max: the most disputed atom, eV/Angstrom.
        correlation: Spearman's, of spread and size of the error of the force on each atom; 1 where
            disagreement orders atoms as errors do; None where there are no force labels.
    """

    set: str
    n_frames: int
    energy: float
    forces: float
    forces_95: float
    forces_max: float
    correlation: float | None


def disagreement_row(
    name: str, frames: Sequence[Frame], mean: Predictions, spread: Disagreement
) -> DisagreementRow:
    """Summary of the disagreement on a set."""
    everything = np.concatenate(spread.forces)
    pairs = [
        (own, np.linalg.norm(said - frame.forces, axis=1))
        for own, said, frame in zip(spread.forces, mean.forces, frames, strict=True)
        if frame.forces is not None
    ]
    correlation = None
    if pairs:
        correlation = rank_correlation(
            np.concatenate([own for own, _ in pairs]), np.concatenate([e for _, e in pairs])
        )
    return DisagreementRow(
        name,
        len(frames),
        float(spread.energy.mean()),
        float(everything.mean()),
        float(np.quantile(everything, 0.95)),
        float(everything.max()),
        correlation,
    )


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float | None:
    """Spearman's rank correlation, None where one of them does not vary."""
    from scipy.stats import rankdata

    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def disagreement_table(rows: Sequence[DisagreementRow]) -> Table:
    """A table for the terminal."""
    table = terminal_table("disagreement: standard deviation over the members")
    table.add_column("set")
    heads = ("frames", "energy\nmeV/atom", "forces\nmeV/Å", "95 %\nmeV/Å", "largest\nmeV/Å")
    for head in (*heads, "correlation\nwith error"):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            row.set,
            str(row.n_frames),
            *(f"{1e3 * v:.3g}" for v in (row.energy, row.forces, row.forces_95, row.forces_max)),
            "-" if row.correlation is None else f"{row.correlation:.2f}",
        )
    return table


def write_disagreement(
    folder: str | os.PathLike[str],
    sets: dict[str, tuple[Sequence[Frame], Predictions, Disagreement]],
) -> None:
    """Write ``disagreement.csv``: a line for each frame, the most disputed of a set first."""
    names = ["set", "frame", "config_type", "atoms", "energy_std [eV/atom]"]
    names += ["forces_std_max [eV/A]", "forces_std_mean [eV/A]", "forces_rmse [eV/A]"]
    with atomic_write(os.path.join(folder, "disagreement.csv"), "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for name, (frames, mean, spread) in sets.items():
            for index in np.argsort(-spread.largest, kind="stable"):
                frame = frames[int(index)]
                rmse = ""
                if frame.forces is not None:
                    rmse = repr(float(np.sqrt(((mean.forces[index] - frame.forces) ** 2).mean())))
                writer.writerow(
                    [
                        *(name, frame.source or int(index), frame.config_type, frame.n_atoms),
                        float(spread.energy[index]),
                        float(spread.forces[index].max()),
                        float(spread.forces[index].mean()),
                        rmse,
                    ]
                )
