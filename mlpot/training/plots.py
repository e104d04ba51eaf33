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
    ("forces_rmse", "force RMSE [meV/Å]"),
    ("stress_rmse", "stress RMSE [meV/Å³]"),
    ("hvps_rmse", "Hessian product RMSE [meV/Å²]"),
)


#: Points of a set beyond which a panel shows how dense they are.
_MOST_POINTS = 2000


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
        The picture, a row for each set; None where there are no labels.
    """
    panels = {
        ("energy less isolated atoms", "eV/atom"): _energies,
        ("force components", "eV/Å"): _forces,
        ("stress components", "eV/Å³"): _stresses,
    }
    data = {
        label: {name: points(frames, said) for name, (frames, said) in sets.items()}
        for label, points in panels.items()
    }
    shown = [label for label in panels if any(len(p[0]) for p in data[label].values())]
    if not shown:
        return None
    figure, grid = _grid(len(sets), len(shown))
    for row, name in zip(grid, sets, strict=True):
        for axis, label in zip(row, shown, strict=True):
            # The same range in all rows of a column: sets are to be compared.
            everything = np.concatenate([np.concatenate(points) for points in data[label].values()])
            _parity_panel(axis, name, label, data[label][name], everything)
    return figure


def _grid(n_rows: int, n_columns: int) -> tuple[Figure, list[list]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * n_columns, 3.5 * n_rows), layout="constrained")
    return figure, [list(row) for row in figure.subplots(n_rows, n_columns, squeeze=False)]


def _parity_panel(
    axis,
    name: str,
    label: tuple[str, str],
    points: tuple[np.ndarray, np.ndarray],
    everything: np.ndarray,
) -> None:
    (true, said), (quantity, unit) = points, label
    low, high = float(everything.min()), float(everything.max())
    margin = 0.03 * (high - low) or 1.0
    low, high = low - margin, high + margin
    title = f"{name}: no labels"
    if len(true):
        error = 1e3 * np.array([np.abs(true - said).mean(), np.sqrt(((true - said) ** 2).mean())])
        title = f"{name}: MAE {error[0]:.3g}, RMSE {error[1]:.3g} m{unit}"
    if len(true) > _MOST_POINTS:
        # Colours tell how many lie one upon another; bins are exact where points are not.
        bins = [np.linspace(low, high, 121)] * 2
        counts, *edges = np.histogram2d(true, said, bins=bins)
        from matplotlib.colors import LogNorm

        picture = np.ma.masked_equal(counts.T, 0)
        norm = LogNorm(1, max(2.0, float(counts.max())))
        mesh = axis.pcolormesh(*edges, picture, norm=norm, cmap="viridis", rasterized=True)
        axis.figure.colorbar(mesh, ax=axis, label="labels in a cell")
    elif len(true):
        axis.plot(true, said, ".", markersize=3, alpha=0.5, rasterized=True)
    axis.plot([low, high], [low, high], color="0.3", linewidth=0.8)
    axis.set(xlim=(low, high), ylim=(low, high))
    axis.locator_params(nbins=5)
    axis.set_title(title, fontsize="small")
    axis.set_xlabel(f"reference {quantity} [{unit}]")
    axis.set_ylabel("model")
    axis.grid(alpha=0.3)


def error_against_distance(data: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure | None:
    """Errors of forces by distance from the training data.

    Args:
        data: distances and errors (eV/Angstrom) by set, see `mlpot.training.insights.distances`.

    Returns:
        The picture; None where there is nothing to show.
    """
    if not data:
        return None
    figure, (axis,) = _figure(1)
    figure.set_size_inches(6.5, 4)
    for number, (name, (distance, error)) in enumerate(data.items()):
        colour = f"C{number % 10}"
        axis.semilogy(distance, 1e3 * error, ".", color=colour, markersize=4, alpha=0.4, label=name)
        if len(distance) >= 20:
            order = np.argsort(distance)
            parts = np.array_split(order, min(8, len(order) // 10))
            middle = [np.median(distance[part]) for part in parts]
            typical = [1e3 * np.sqrt((error[part] ** 2).mean()) for part in parts]
            axis.semilogy(middle, typical, "-o", color=colour, markersize=4, linewidth=1.2)
    axis.set_xlabel("distance to the nearest training frame (descriptors)")
    axis.set_ylabel("force RMSE of the frame [meV/Å]")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize="small")
    return figure


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
