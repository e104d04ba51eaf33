"""Rules for the weights of linear maps and tensor products, in one place."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn
import numpy as np


def resolve_weight_flags(
    shared: bool | None, internal: bool | None, has_weights: bool
) -> tuple[bool, bool]:
    """(shared_weights, internal_weights) with e3nn's defaults.

    Raises:
        ValueError: internal weights that are not shared.
    """
    if shared is False and internal is None:
        internal = False
    shared = True if shared is None else shared
    internal = (shared and has_weights) if internal is None else internal
    if internal and not shared:
        raise ValueError("internal_weights=True needs shared_weights=True")
    return shared, internal


def check_weight(
    module: mlx.nn.Module,
    name: str,
    given: mx.array | None,
    shape: tuple[int, ...],
    lead: tuple[int, ...],
) -> mx.array | None:
    """The weights to use: ``shape`` if shared, else (n, *shape) with n the product of ``lead``.

    Args:
        module: has ``shared_weights``, ``internal_weights`` and perhaps own weights ``name``.
        name: attribute and argument.
        given: the caller's weights.
        shape: of one set of weights.
        lead: batch axes of the features.

    Returns:
        The weights, None if the set is empty.

    Raises:
        ValueError: missing weights or a wrong shape.
    """
    if shape[-1] == 0:
        return None
    if given is None:
        if not module.internal_weights:
            raise ValueError(f"{name} is missing: the module has no weights of its own")
        return getattr(module, name)
    batch = given.shape[: -len(shape)] if given.ndim > len(shape) else ()
    fits = given.ndim >= len(shape) and tuple(given.shape[-len(shape) :]) == shape
    if module.shared_weights:
        if not fits or int(np.prod(batch)) != 1:
            raise ValueError(f"{name} has the shape {tuple(given.shape)}; it must be {shape}")
        return given.reshape(shape)
    if not fits:
        raise ValueError(
            f"{name} has the shape {tuple(given.shape)}; the last axes must be {shape}"
        )
    try:
        given = mx.broadcast_to(given, (*lead, *shape))
    except ValueError as error:
        raise ValueError(
            f"{name} has the shape {tuple(given.shape)}; it must broadcast to {(*lead, *shape)}"
        ) from error
    return given.reshape(int(np.prod(lead)), *shape)
