"""Pictures of training: their units, and what they leave out."""

import numpy as np

from mlpot.datasets import Frame
from mlpot.training import Predictions
from mlpot.training.plots import error_against_distance, loss_curves, parity


def test_curves_are_in_the_units_of_their_labels():
    rows = [
        {"epoch": epoch, "lr": 0.01, "train_loss": 2.0, "valid_loss": 3.0}
        | {"train_forces_rmse": 0.2, "valid_forces_rmse": 0.1}  # eV/Angstrom
        for epoch in (1, 2)
    ]
    loss, forces, _ = loss_curves(rows).axes
    assert [np.asarray(line.get_ydata()).tolist() for line in loss.lines] == [[2, 2], [3, 3]]
    assert forces.get_ylabel() == "force RMSE [meV/Å]"
    np.testing.assert_allclose(np.asarray(forces.lines[0].get_ydata()), 200)


def _frames(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        Frame([6, 1], [[0, 0, 0], [0, 0, 1.1]], energy=rng.normal(), forces=rng.normal(size=(2, 3)))
        for _ in range(n)
    ]


def _said(frames, shift=0.5):
    return Predictions(
        np.zeros(len(frames)),
        np.array([frame.energy + shift for frame in frames]),
        [frame.forces + shift for frame in frames],
    )


def test_parity_shows_each_set_and_its_density():
    few, many = _frames(10), _frames(400)
    figure = parity({"few": (few, _said(few)), "many": (many, _said(many))})
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == [
        "few: MAE 250, RMSE 250 meV/atom",
        "few: MAE 500, RMSE 500 meV/Å",
        "many: MAE 250, RMSE 250 meV/atom",
        "many: MAE 500, RMSE 500 meV/Å",
    ]
    panels = [axis for axis in figure.axes if axis.get_title()]
    counts = panels[3].collections[0].get_array()
    assert counts.sum() == 400 * 6  # every label is in some cell
    assert len(panels[1].lines[0].get_xdata()) == 60
    assert panels[1].get_xlim() == panels[3].get_xlim()


def test_errors_by_distance():
    rng = np.random.default_rng(1)
    distance = rng.random(40)
    figure = error_against_distance({"test": (distance, 0.01 + distance)})
    points, line = figure.axes[0].lines
    np.testing.assert_allclose(np.asarray(points.get_ydata()), 1e3 * (0.01 + distance))
    assert len(line.get_xdata()) == 4
    assert (np.diff(line.get_ydata()) > 0).all()
    assert error_against_distance({}) is None
