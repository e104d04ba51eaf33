"""The loss of a batch and its sums of errors by one kernel on GPUs, and one for its gradient.

In plain MLX they are sixty small operations, each of which a GPU waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import mlx.core as mx

from . import dispatch, gpu
from .primitive import CustomFunction, as_tuple, fixed


class LabelledTerm(NamedTuple):
    """Numbers, what they should be, and what counts.

    Args:
        value: (n, ...), what a model says.
        label: same shape.
        weight: (n,), of each label.
        mask: (n,), whether there is a label.
        size: (n,), what errors are divided by, 1 at least; None for nothing.
    """

    value: mx.array
    label: mx.array
    weight: mx.array
    mask: mx.array
    size: mx.array | None = None


def takes_label_errors(
    terms: Sequence[LabelledTerm | None], counts: mx.array, weights: mx.array
) -> bool:
    """Whether kernels compute `label_errors` for these arguments here."""
    present = [term for term in terms if term is not None]
    floats = [counts, weights]
    for term in present:
        floats += [term.label, term.weight, *([] if term.size is None else [term.size])]
    values = [term.value for term in present]
    offers = gpu.offers(lambda: gpu.label_errors_refusal(values, floats))
    return dispatch.choose("label_errors", offers) in gpu.DIALECTS


def label_errors(
    terms: Sequence[LabelledTerm | None],
    counts: mx.array,
    weights: mx.array,
    delta: float | None = None,
) -> tuple[mx.array, mx.array]:
    """The loss and sums of errors; ask `takes_label_errors` first.

    With e = (value - label) / size where there is a label, else 0,

        loss = sum over terms t of  weights_t / max(counts_t, 1)  sum over labels  weight f(e)

    The loss has its first derivative to the values, in reverse mode; the sums have none.

    Args:
        terms: four; None for one that is not there.
        counts: (4,), what each term is divided by.
        weights: (4,), of the terms.
        delta: of Huber's function f; None for the square.

    Returns:
        The loss () and for each term the sums of weight f(e), of numbers that have labels, of
        abs(e) and of e^2, (4, 4); zeros for what is not there.
    """
    kinds, arrays = [], []
    for row, term in enumerate(terms):
        if term is None:
            continue
        n = term.mask.shape[0]
        kinds.append((row, term.value.size // n, term.size is not None))
        arrays += [term.value.reshape(-1), term.label.reshape(-1), term.weight, term.mask]
        arrays += [] if term.size is None else [term.size]
    loss, sums = _function(tuple(kinds), delta)(*arrays, counts, weights)
    return loss, sums


@cache
def _function(kinds: gpu.Terms, delta: float | None) -> CustomFunction:
    @CustomFunction
    def function(*arrays: Any) -> Any:
        given = [a if a.dtype == mx.bool_ else fixed(a) for a in arrays]
        return list(gpu.label_errors(kinds, delta, given))

    @function.vjp
    def _(primals, cotangents, _outputs):
        primals = as_tuple(primals)
        found = gpu.label_errors_adjoint(kinds, delta, primals, as_tuple(cotangents)[0])
        gradients, place = [mx.zeros_like(p) for p in primals], 0
        for (_row, _width, sized), gradient in zip(kinds, found, strict=True):
            gradients[place] = gradient
            place += 5 if sized else 4
        return tuple(gradients)

    return function
