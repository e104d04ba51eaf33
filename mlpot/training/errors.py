"""Errors of predictions by set and kind of frame, next to those of a model that knows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlpot.units import GPA

if TYPE_CHECKING:
    from mlpot.datasets import Frame

#: Name of the row over all kinds of frames.
ALL = "all"
#: Name of the model that only knows the mean energy.
MEAN_ONLY = "mean-only"
#: Units in names of columns.
_ASCII = str.maketrans({"Å": "A", "²": "^2", "³": "^3"})


@dataclass
class Predictions:
    """What a model says about frames.

    Args:
        reference: (n_frames,) sums of the energies of isolated atoms, eV.
        energy: (n_frames,) total energies, eV.
        forces: of each frame, (n_atoms, 3), eV/Angstrom.
        stress: (n_frames, 3, 3), eV/Angstrom^3; None where none was computed.
        hvps: of each frame with such labels, (k, n_atoms, 3), the Hessian of the energy times the
            labels' vectors, eV/Angstrom^2; None for others, and where none was computed.
    """

    reference: np.ndarray
    energy: np.ndarray
    forces: list[np.ndarray]
    stress: np.ndarray | None = None
    hvps: list[np.ndarray | None] | None = None


@dataclass(frozen=True)
class Quantity:
    """A column pair of error tables: mean absolute and root mean square error.

    Args:
        name: of the quantity.
        unit: of the errors shown.
        factor: from eV and Angstrom to it.
    """

    name: str
    unit: str
    factor: float


QUANTITIES = (
    Quantity("energy", "meV/atom", 1e3),
    Quantity("total_energy", "meV", 1e3),
    Quantity("forces", "meV/Å", 1e3),
    Quantity("stress", "meV/Å³", 1e3),
    Quantity("stress_GPa", "GPa", 1 / GPA),
    Quantity("hvps", "meV/Å²", 1e3),
)


@dataclass(frozen=True)
class ErrorRow:
    """Errors of one model on frames of one kind.

    Args:
        set: name of the set of frames.
        model: name of the model.
        config_type: kind of the frames, or "all".
        n_frames: number of frames.
        n_labels: number of labels by quantity (components for forces, stresses and HVPs).
        mae: mean absolute errors by quantity, in its unit; only where there are labels.
        rmse: root mean square errors likewise.
    """

    set: str
    model: str
    config_type: str
    n_frames: int
    n_labels: dict[str, int]
    mae: dict[str, float]
    rmse: dict[str, float]

    def plain(self) -> dict:
        """Flat, for CSV: ``energy_mae [meV/atom]`` and the like, None where nothing is known."""
        row: dict = {
            "set": self.set,
            "model": self.model,
            "config_type": self.config_type,
            "frames": self.n_frames,
        }
        for quantity in QUANTITIES:
            unit = quantity.unit.translate(_ASCII)
            for kind, values in (("mae", self.mae), ("rmse", self.rmse)):
                row[f"{quantity.name}_{kind} [{unit}]"] = values.get(quantity.name)
        return row


def mean_only(frames: Sequence[Frame], reference: np.ndarray) -> Predictions:
    """What follows from the composition alone: any model that has learnt something is better.

    Args:
        frames: with labels; the mean is theirs, the best a constant can be.
        reference: (n_frames,) sums of the energies of isolated atoms, eV.

    Returns:
        Energies ``reference + n_atoms * mean``, the mean that of ``(energy - reference) / n_atoms``
        over frames with energies; forces, stresses and Hessian-vector products zero.
    """
    n_atoms = np.array([frame.n_atoms for frame in frames])
    per_atom = [
        (frame.energy - known) / frame.n_atoms
        for frame, known in zip(frames, reference, strict=True)
        if frame.energy is not None
    ]
    mean = float(np.mean(per_atom)) if per_atom else 0.0
    return Predictions(
        reference=reference,
        energy=reference + n_atoms * mean,
        forces=[np.zeros((n, 3)) for n in n_atoms],
        stress=np.zeros((len(frames), 3, 3)),
        hvps=[None if frame.hvps is None else np.zeros_like(frame.hvps) for frame in frames],
    )


def error_rows(
    set_name: str, model_name: str, frames: Sequence[Frame], predictions: Predictions
) -> list[ErrorRow]:
    """Errors over all frames and, where there are several, for each kind of frame.

    Args:
        set_name: name of the set.
        model_name: name of the model.
        frames: with labels; missing ones count nothing.
        predictions: of the model for these frames.
    """
    found = [_frame_errors(frame, predictions, index) for index, frame in enumerate(frames)]
    kinds = sorted({frame.config_type for frame in frames})
    groups = {ALL: list(range(len(frames)))}
    if len(kinds) > 1:
        for kind in kinds:
            groups[kind] = [i for i, frame in enumerate(frames) if frame.config_type == kind]
    return [
        _row(set_name, model_name, kind, [found[i] for i in members])
        for kind, members in groups.items()
    ]


def _frame_errors(frame: Frame, predictions: Predictions, index: int) -> dict[str, np.ndarray]:
    errors = {}
    if frame.energy is not None:
        error = np.array([predictions.energy[index] - frame.energy])
        errors["total_energy"], errors["energy"] = error, error / frame.n_atoms
    if frame.forces is not None:
        errors["forces"] = (predictions.forces[index] - frame.forces).ravel()
    if frame.stress is not None and predictions.stress is not None:
        error = predictions.stress[index] - frame.stress
        errors["stress"] = errors["stress_GPa"] = error.ravel()
    products = None if predictions.hvps is None else predictions.hvps[index]
    if frame.hvps is not None and products is not None:
        errors["hvps"] = (products - frame.hvps).ravel()
    return errors


def _row(set_name: str, model_name: str, kind: str, found: list[dict[str, np.ndarray]]) -> ErrorRow:
    n_labels, mae, rmse = {}, {}, {}
    for quantity in QUANTITIES:
        parts = [errors[quantity.name] for errors in found if quantity.name in errors]
        if parts:
            error = np.concatenate(parts) * quantity.factor
            n_labels[quantity.name] = len(error)
            mae[quantity.name] = float(np.abs(error).mean())
            rmse[quantity.name] = float(np.sqrt((error**2).mean()))
    return ErrorRow(set_name, model_name, kind, len(found), n_labels, mae, rmse)
