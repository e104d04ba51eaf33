"""The kernels of operations on single items as functions of MLX arrays: values only, lazy."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from ..item_product_spec import ItemProductSpec
from .values import native_module


def item_product(
    spec: ItemProductSpec, target: str, shared: bool, arrays: Sequence[mx.array]
) -> mx.array:
    """One gradient of T(x, y, w, g) = <g, tensor product of x and y with weights w>.

    Args:
        spec: the paths.
        target: "x", "y", "w", or "g" for the product itself.
        shared: whether all items share one set of weights.
        arrays: the others of x (n, dim_x), y (n, dim_y), w ((n_weights,) if shared, else
            (n, n_weights); absent if there are none) and g (n, dim_out), in this order.

    Returns:
        An array of the target's shape.
    """
    if "native" not in spec.caches:
        dims = spec.dim_x, spec.dim_y, spec.n_weights, spec.dim_out
        spec.caches["native"] = native_module().ItemPlan(*dims, *spec.description())
    return native_module().item_product(spec.caches["native"], target, shared, list(arrays))


class HarmonicValues:
    """Harmonic polynomials of all degrees up to the number of tables.

    Args:
        tables: G_1, G_2, ..., each (2l+1, 3, 2l-1): Y_l = 1/l sum_k x_k G_l[:, k, :] Y_(l-1).
    """

    def __init__(self, tables: Sequence[np.ndarray]) -> None:
        flat = [np.zeros(0), *(t.ravel() / (l + 1) for l, t in enumerate(tables))]
        self._plan = native_module().HarmonicsPlan(len(tables), np.concatenate(flat).tolist())

    def __call__(self, x: Float[mx.array, "n_vectors 3"]) -> Float[mx.array, "n_vectors dim"]:
        """Harmonics, one degree after the other."""
        return native_module().harmonics(self._plan, x)
