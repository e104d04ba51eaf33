"""Pictures of training and of predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .errors import Predictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mlpot.datasets import Frame

_ERRORS = (
    ("energy_rmse", "energy RMSE [meV/atom]"),
    ("forces_rmse", "force RMSE [meV/A]"),
    ("stress_rmse", "stress RMSE [meV/A^3]"),
)


def _figure(n_panels: int) -> tuple[Figure, list]:
    # Not through pyplot, which keeps figures and chooses a window system.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * n_panels, 3.6), layout="constrained")
    return figure, list(figure.subplots(1, n_panels, squeeze=False)[0])


def loss_curves(rows: Sequence[Mapping[str, float | None]]) -> Figure:
    """Loss, errors and learning rate by epoch.

    Args:
        rows: of ``metrics.csv``.
    """
    epochs = [row["epoch"] for row in rows]
    known = [
        (name, label) for name, label in _ERRORS if any(_get(r, f"train_{name}") for r in rows)
    ]
    figure, axes = _figure(1 + len(known))
    for axis, (name, label) in zip(axes, [("loss", "loss"), *known], strict=True):
        for part, colour in (("train", "tab:blue"), ("valid", "tab:orange")):
            values = [_get(row, f"{part}_{name}") for row in rows]
            if any(value is not None for value in values):
                unit = 1 if name == "loss" else 1e3  # of eV in meV
                series = [np.nan if value is None else unit * value for value in values]
                axis.semilogy(epochs, series, color=colour, label=part, linewidth=1.2)
        axis.set_xlabel("epoch")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    rate = axes[0].twinx()
    rate.semilogy(epochs, [row["lr"] for row in rows], color="0.7", linewidth=0.8)
    rate.set_ylabel("learning rate", color="0.5")
    return figure


def _get(row: Mapping[str, float | None], name: str) -> float | None:
    value = row.get(name)
    return value if value is not None and np.isfinite(value) and value > 0 else None


def parity(sets: Mapping[str, tuple[Sequence[Frame], Predictions]]) -> Figure | None:
    """Predictions against labels: energies without those of isolated atoms, forces, stresses.

    Args:
        sets: frames and predictions by name of the set.

    Returns:
        The picture; None where there are no labels.
    """
    panels = {
        ("energy less isolated atoms", "eV/atom"): _energies,
        ("force components", "eV/A"): _forces,
        ("stress components", "eV/A^3"): _stresses,
    }
    data = {
        label: {name: points(frames, said) for name, (frames, said) in sets.items()}
        for label, points in panels.items()
    }
    shown = [label for label in panels if any(len(p[0]) for p in data[label].values())]
    if not shown:
        return None
    figure, axes = _figure(len(shown))
    for axis, label in zip(axes, shown, strict=True):
        _parity_panel(axis, *label, data[label])
    return figure


def _parity_panel(
    axis, label: str, unit: str, sets: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> None:
    for name, (true, said) in sets.items():
        if len(true):
            rmse = np.sqrt(np.mean((true - said) ** 2))
            text = f"{name} (RMSE {1e3 * rmse:.3g} m{unit})"
            # Points as an image: a page with 100,000 of them stays small.
            axis.plot(true, said, ".", markersize=2, alpha=0.5, label=text, rasterized=True)
    everything = np.concatenate([np.concatenate(points) for points in sets.values()])
    low, high = float(everything.min()), float(everything.max())
    axis.plot([low, high], [low, high], color="0.3", linewidth=0.8)
    axis.set_xlabel(f"reference {label} [{unit}]")
    axis.set_ylabel("model")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, markerscale=3, fontsize="small")


def _energies(frames: Sequence[Frame], said: Predictions) -> tuple[np.ndarray, np.ndarray]:
    # Isolated atoms, at zero, would squeeze all others into a corner.
    known = [i for i, f in enumerate(frames) if f.energy is not None and not f.is_isolated_atom]
    n_atoms = np.array([frames[i].n_atoms for i in known])
    true = np.array([frames[i].energy for i in known], dtype=np.float64)
    reference = said.reference[known]
    return (true - reference) / n_atoms, (said.energy[known] - reference) / n_atoms


def _forces(frames: Sequence[Frame], said: Predictions) -> tuple[np.ndarray, np.ndarray]:
    pairs = [
        (frame.forces.ravel(), forces.ravel())
        for frame, forces in zip(frames, said.forces, strict=True)
        if frame.forces is not None
    ]
    return _joined(pairs)


def _stresses(frames: Sequence[Frame], said: Predictions) -> tuple[np.ndarray, np.ndarray]:
    if said.stress is None:
        return _joined([])
    upper = np.triu_indices(3)
    pairs = [
        (frame.stress[upper], stress[upper])
        for frame, stress in zip(frames, said.stress, strict=True)
        if frame.stress is not None
    ]
    return _joined(pairs)


def _joined(pairs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if not pairs:
        return np.empty(0), np.empty(0)
    true, said = zip(*pairs, strict=True)
    return np.concatenate(true), np.concatenate(said)
