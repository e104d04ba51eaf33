"""The connection modes: what is done with the product of two blocks of channels."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlpot.kernels import Constant


def outer_scalar(x: mx.array, y: mx.array, factor: float) -> mx.array:
    """Product of all channels where one of the two blocks is scalar.

    Args:
        x: (n, d1, u).
        y: (n, v, d2), d1 or d2 is 1.
        factor: put in front.

    Returns:
        (n, d1 d2, v, u).
    """
    n, d1, u = x.shape
    v, d2 = y.shape[1:]
    if d2 == 1:
        y = y * factor
    else:
        x = x * factor
    if v == 1:
        return (x * y.reshape(n, d2, 1)).reshape(n, d1 * d2, 1, u)
    y = y.swapaxes(1, 2)
    return x.reshape(n, d1, 1, u) * y.reshape(n, d2, v, 1)


def diagonal(x: mx.array, y: mx.array, coupling: Constant | float) -> mx.array:
    """Product of equal channels; an axis of one channel is broadcast.

    Args:
        x: (n, d1, u).
        y: (n, u, d2).
        coupling: (d1 d2, K), or 1.0 where one of the two blocks is scalar.

    Returns:
        (n, K, u).
    """
    if not isinstance(coupling, Constant):
        return x * y.swapaxes(1, 2)
    outer = x.swapaxes(1, 2)[..., :, None] * y[..., None, :]
    n, u = outer.shape[:2]
    return (outer.reshape(n, u, -1) @ coupling(x.dtype)).swapaxes(1, 2)


def apply_weights(mode: str, t: mx.array, w: mx.array | None, shared: bool) -> mx.array:
    """From the products of channels to the output channels of a mode.

    Args:
        mode: connection mode.
        t: (n, d, v, u) products of all channels, or (n, d, u) for uuu and uuw.
        w: weights of the path shape, with a batch axis in front unless shared; None for none.
        shared: whether the weights have no batch axis.

    Returns:
        (n, d, mul_out).
    """
    if mode == "uuu":
        return t if w is None else t * (w if shared else w[:, None, :])
    if mode == "uuw":
        return t.sum(axis=-1, keepdims=True) if w is None else t @ w
    n, d, v, u = t.shape
    if mode == "uvw":
        assert w is not None
        w = w if v == 1 else w.swapaxes(-3, -2)
        return t.reshape(n, d, v * u) @ w.reshape(*w.shape[:-3], v * u, -1)
    if mode == "uvu":
        # With weights there is one channel v only.
        t = t.sum(axis=2) if v > 1 else t.reshape(n, d, u)
        return t if w is None else t * w.reshape(-1, 1, u)
    if mode == "uvuv":
        if w is not None:
            t = t * w.swapaxes(-2, -1).reshape(-1, 1, v, u)
        return t.swapaxes(2, 3).reshape(n, d, u * v)
    # Pairs of channels u < v, in row-major order.
    first, second = np.triu_indices(u, 1)
    index = mx.array((second * u + first).astype(np.int32))
    index = mx.broadcast_to(index, (n, d, index.size))
    pairs = mx.take_along_axis(t.reshape(n, d, v * u), index, axis=-1)
    if mode == "u<vw":
        assert w is not None
        return pairs @ w
    return pairs if w is None else pairs * (w if shared else w[:, None, :])
