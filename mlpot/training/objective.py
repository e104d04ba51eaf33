"""The loss of a batch, and the sums from which losses and errors of many batches follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot import kernels

from .config_sections import LossSection

if TYPE_CHECKING:
    from mlpot.datasets import Labels
    from mlpot.derivatives import Results

#: Rows of the sums.
TERMS = ("energy", "forces", "stress", "hvps")
#: Numbers in a label: of a graph, an atom, a graph, an atom.
WIDTHS = (1, 3, 9, 3)
#: Columns of the sums.
LOSS, COUNT, ABSOLUTE, SQUARE = range(4)


class Objective:
    """Weighted mean of the errors of energies per atom, force and stress components and HVPs.

    HVPs, the Hessian of the energy times a vector of each frame, are compared by components, too.

        L = sum over terms t of  weight_t / n_t  sum over labels i of  w_i f(error_i)

    n_t counts the labels there are, so that the loss depends neither on the size of the structures
    nor on how many labels are missing; w_i are the weights of the frames; f is the square or
    Huber's function. What has no label counts nothing.

    Args:
        loss: f.
        weights: of the terms "energy", "forces", "stress" and "hvps"; 0 leaves a term out.
    """

    def __init__(self, loss: LossSection, weights: Mapping[str, float]) -> None:
        self.delta = loss.delta if loss.name == "huber" else None
        self.weights = tuple(float(weights.get(term, 0.0)) for term in TERMS)

    def sums(
        self, result: Results, labels: Labels, hvps: mx.array | None = None
    ) -> Float[mx.array, "4 4"]:
        """Sums over a batch, lazily.

        Args:
            result: what the model says.
            labels: what is true, masked.
            hvps: (n_atoms, 3), the model's Hessian-vector products for the labels' vectors.

        Returns:
            (4, 4): for energy per atom (eV), forces (eV/Angstrom), stress (eV/Angstrom^3) and
            Hessian-vector products (eV/Angstrom^2) the sums of w_i f(error_i), of labels, of
            absolute errors and of squared errors.
        """
        n_atoms = mx.maximum(labels.n_atoms, 1).astype(result.interaction_energy.dtype)
        energy_error = (result.interaction_energy - labels.energy) / n_atoms
        rows = [
            self._row(energy_error, labels.energy_weight, labels.energy_mask, 1),
            self._row(result.forces - labels.forces, labels.forces_weight, labels.forces_mask, 3),
        ]
        if result.stress is None:
            rows.append(mx.zeros_like(rows[0]))
        else:
            error = (result.stress - labels.stress).reshape(-1, 9)
            rows.append(self._row(error, labels.stress_weight, labels.stress_mask, 9))
        if hvps is None:
            rows.append(mx.zeros_like(rows[0]))
        else:
            rows.append(self._row(hvps - labels.hvps, labels.hvps_weight, labels.hvps_mask, 3))
        return mx.stack(rows)

    def _row(self, error: mx.array, weight: mx.array, mask: mx.array, width: int) -> mx.array:
        error = error.reshape(-1, width)
        # Selecting, not multiplying: what a model says where nothing is known may be anything.
        error = mx.where(mask[:, None], error, mx.zeros_like(error))
        absolute, square = mx.abs(error), mx.square(error)
        counted = square
        if self.delta is not None:
            linear = self.delta * (2 * absolute - self.delta)
            counted = mx.where(absolute <= self.delta, square, linear)
        count = width * mx.sum(mask.astype(error.dtype))
        return mx.stack(
            [mx.sum(weight[:, None] * counted), count, mx.sum(absolute), mx.sum(square)]
        )

    def loss_and_sums(
        self,
        result: Results,
        labels: Labels,
        hvps: mx.array | None,
        counts: Float[mx.array, " 4"],
        weights: Float[mx.array, " 4"],
    ) -> tuple[Float[mx.array, ""], Float[mx.array, "4 4"]]:
        """`loss` and `sums` of a batch together, by one kernel where there is one.

        Args:
            result: what the model says.
            labels: what is true, masked.
            hvps: (n_atoms, 3), the model's Hessian-vector products for the labels' vectors.
            counts: numbers of labels of the whole batch.
            weights: of the terms.
        """
        terms = [
            kernels.LabelledTerm(
                result.interaction_energy,
                labels.energy,
                labels.energy_weight,
                labels.energy_mask,
                labels.n_atoms,
            ),
            kernels.LabelledTerm(
                result.forces, labels.forces, labels.forces_weight, labels.forces_mask
            ),
            None
            if result.stress is None
            else kernels.LabelledTerm(
                result.stress, labels.stress, labels.stress_weight, labels.stress_mask
            ),
            None
            if hvps is None
            else kernels.LabelledTerm(hvps, labels.hvps, labels.hvps_weight, labels.hvps_mask),
        ]
        if kernels.takes_label_errors(terms, counts, weights):
            return kernels.label_errors(terms, counts, weights, self.delta)
        sums = self.sums(result, labels, hvps)
        return self.loss(sums, counts, weights), sums

    def counts(self, labels: Labels) -> Float[mx.array, " 4"]:
        """Numbers of labels of each term, lazily: what the sums are divided by."""
        if labels.known is not None:
            numbers = [width * n for width, n in zip(WIDTHS, labels.known, strict=True)]
            return mx.array(numbers, dtype=labels.energy.dtype)
        masks = (labels.energy_mask, labels.forces_mask, labels.stress_mask, labels.hvps_mask)
        dtype = labels.energy.dtype
        widths = mx.array(WIDTHS, dtype=dtype)
        return widths * mx.stack([mx.sum(mask.astype(dtype)) for mask in masks])

    def weights_array(self, dtype: mx.Dtype = mx.float32) -> Float[mx.array, " 4"]:
        """The present weights of the terms."""
        return mx.array(self.weights, dtype=dtype)

    def loss(
        self,
        sums: Float[mx.array, "4 4"],
        counts: Float[mx.array, " 4"] | None = None,
        weights: Float[mx.array, " 4"] | None = None,
    ) -> Float[mx.array, ""]:
        """The loss from the sums of a batch.

        Args:
            sums: of the batch, or of a part of it.
            counts: numbers of labels of the whole batch; those of ``sums`` by default.
            weights: of the terms; the present ones by default.
        """
        counts = sums[:, COUNT] if counts is None else counts
        weights = self.weights_array() if weights is None else weights
        return mx.sum(weights.astype(sums.dtype) * sums[:, LOSS] / mx.maximum(counts, 1))

    def total(self, sums: np.ndarray) -> float:
        """The loss from the sums of many batches, (4, 4) in numpy."""
        weights = np.array(self.weights)
        return float(np.sum(weights * sums[:, LOSS] / np.maximum(sums[:, COUNT], 1)))


def errors(sums: np.ndarray) -> dict[str, float | None]:
    """Mean absolute and root mean square errors from sums, None where there are no labels.

    Args:
        sums: (4, 4), as `Objective.sums` gives, of any number of batches.

    Returns:
        ``energy_mae``, ``energy_rmse`` in eV/atom, ``forces_...`` in eV/Angstrom, ``stress_...`` in
        eV/Angstrom^3.
    """
    found: dict[str, float | None] = {}
    for term, row in zip(TERMS, sums, strict=True):
        known = row[COUNT] > 0
        found[f"{term}_mae"] = float(row[ABSOLUTE] / row[COUNT]) if known else None
        found[f"{term}_rmse"] = float(np.sqrt(row[SQUARE] / row[COUNT])) if known else None
    return found
