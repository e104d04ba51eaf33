"""A trained potential for more elements than it was made for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from mlpot import graph
from mlpot.models import Potential

_NOBLE = (0, 2, 10, 18, 36, 54, 86, 118)


def most_similar(number: int, known: Sequence[int]) -> int:
    """The known element that is most like another: of its column if there is one, else close by.

    Args:
        number: atomic number.
        known: atomic numbers to choose from.
    """
    column = [z for z in known if _column(z) == _column(number)]
    return min(column or known, key=lambda z: (abs(z - number), z))


def _column(number: int) -> tuple[str, int]:
    """Columns counted from the left for the first two, from the noble gases for the others."""
    before = max(z for z in _NOBLE if z < number)
    if number - before <= 2 and number != 2:
        return "left", number - before
    return "right", min(z for z in _NOBLE if z >= number) - number


def with_elements(base: Potential, new: Sequence[int]) -> tuple[Potential, dict[int, int]]:
    """A potential that knows further elements, each with the weights of a similar one at first.

    What it says about the elements it knew does not change.

    Args:
        base: trained potential; it is not changed.
        new: atomic numbers that it does not know.

    Returns:
        The potential, and for each new element the one whose weights it has. New elements have no
        E0 yet.

    Raises:
        ValueError: elements are more than rows of weights, as where hidden features are one for
            each element (Nequix without embedding).
    """
    old = base.numbers
    similar = {z: most_similar(z, old) for z in new}
    numbers = sorted({*old, *new})
    config = base.config.model_copy(update={"numbers": numbers})
    potential = Potential(config)
    potential.set_dtype(base.dtype)
    rows = [old.index(similar.get(z, z)) for z in numbers]
    own: Any = dict(tree_flatten(base.parameters()))
    target: Any = dict(tree_flatten(potential.parameters()))
    modules: Any = dict(base.named_modules()), dict(potential.named_modules())
    changed = []
    for name, array in target.items():
        owner = name.rpartition(".")[0]
        if array.shape == own[name].shape:
            value = own[name]
        elif hasattr(modules[0][owner], "weight_views"):
            value = _of_views(modules[0][owner], modules[1][owner], rows)
        else:
            value = _of_pairs(np.array(own[name]), array.shape, rows, len(old))
        if value is None or value.size != array.size:
            raise ValueError(
                f"elements cannot be added to this model, whose {name} does not hold one row for "
                "each: start from another model, or leave frames with new elements out"
            )
        changed.append((name, mx.array(value, dtype=base.dtype).reshape(array.shape)))
    potential.load_weights(changed)
    potential.set_radial_intervals(base.radial_intervals)
    mx.eval(potential.parameters())
    _check(base, potential)
    return potential, similar


def _of_views(old: Any, new: Any, rows: Sequence[int]) -> np.ndarray | None:
    """The flat weight of a map whose input or attributes are elements."""
    pieces = []
    for view, wanted in zip(old.weight_views(), new.weight_views(), strict=True):
        indices = []
        for size, other in zip(view.shape, wanted.shape, strict=True):
            if size != other and other != len(rows):
                return None
            indices.append(rows if size != other else range(size))
        pieces.append(np.array(view)[np.ix_(*indices)].reshape(-1))
    return np.concatenate(pieces)


def _of_pairs(
    matrix: np.ndarray, shape: tuple[int, ...], rows: Sequence[int], n_old: int
) -> np.ndarray | None:
    """First matrix of a radial network that sees the elements of both ends of an edge, too."""
    n_basis = len(matrix) - 2 * n_old
    if matrix.ndim != 2 or n_basis < 1 or shape[0] != n_basis + 2 * len(rows):
        return None
    ends = [[n_basis + end * n_old + row for row in rows] for end in (0, 1)]
    found = matrix[[*range(n_basis), *ends[0], *ends[1]]]
    # The network divides by the root of the number of its inputs; one-hot vectors are as long as
    # the root of the number of elements.
    found *= (shape[0] / len(matrix)) ** 0.5
    found[n_basis:] *= (n_old / len(rows)) ** 0.5
    return found


def _check(base: Potential, potential: Potential) -> None:
    """Both must say the same about the elements that both know."""
    rng = np.random.default_rng(0)
    numbers = rng.choice(base.numbers, size=12)
    positions = 0.6 * base.cutoff * rng.random((12, 3))
    atoms = graph.build(numbers, positions, cutoff=base.cutoff, dtype=base.dtype)
    with mx.stream(mx.cpu):
        one, other = (np.array(p.node_energies(atoms)) for p in (base, potential))
    if np.abs(one - other).max() > 1e-4 * max(np.abs(one).max(), 1e-3):
        raise ValueError("elements cannot be added to this model: what it says would change")
