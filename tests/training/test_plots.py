"""Pictures of training: their units, and what they leave out."""

import numpy as np

from mlpot.training.plots import loss_curves


def test_curves_are_in_the_units_of_their_labels():
    rows = [
        {"epoch": epoch, "lr": 0.01, "train_loss": 2.0, "valid_loss": 3.0}
        | {"train_forces_rmse": 0.2, "valid_forces_rmse": 0.1}  # eV/Angstrom
        for epoch in (1, 2)
    ]
    loss, forces, _ = loss_curves(rows).axes
    assert [np.asarray(line.get_ydata()).tolist() for line in loss.lines] == [[2, 2], [3, 3]]
    assert forces.get_ylabel() == "force RMSE [meV/A]"
    np.testing.assert_allclose(np.asarray(forces.lines[0].get_ydata()), 200)
