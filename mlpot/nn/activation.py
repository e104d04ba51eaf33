"""Pointwise functions of scalars, normalised to unit second moment."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from mlpot.o3 import Irreps
from mlpot.o3.layout import split_columns

from .normalization_constants import Convention, Function, activation_constant, kernel_name, resolve


class ScaledFunction:
    """k f(x) with k from a convention; knows its parity.

    Args:
        act: a function or a name.
        normalization: convention of k.

    Attributes:
        parity: 1 for an even function, -1 for an odd one, 0 for neither.
        name: of a function that gates have kernels for, else None.
    """

    def __init__(self, act: str | Function, normalization: Convention = "e3nn") -> None:
        self.function = resolve(act)
        self.constant = activation_constant(act, normalization)
        self.parity = _parity(self.function)
        self.name = kernel_name(act)

    def __call__(self, x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
        """Values k f(x)."""
        y = self.function(x)
        return y if self.constant == 1.0 else y * self.constant


def _parity(function: Function) -> int:
    with mx.stream(mx.cpu):
        x = mx.array(np.linspace(0.0, 10.0, 256), dtype=mx.float64)
        right, left = np.array(function(x)), np.array(function(-x))
    if np.abs(right - left).max() < 1e-5:
        return 1
    return -1 if np.abs(right + left).max() < 1e-5 else 0


class Activation(mlx.nn.Module):
    """Apply one function per block of scalars, as e3nn's.

    Only scalars may be activated; odd scalars need an even or an odd function, which decides
    the parity of the result. Both layouts of features are alike here.

    Args:
        irreps_in: input.
        acts: one per block: a function, "silu", "tanh", "sigmoid", "abs", or None for none.
        normalization: convention of the constants.

    Raises:
        ValueError: a wrong number of functions, a function on a block that is not scalar, or a
            function of no parity on an odd scalar.
    """

    def __init__(
        self,
        irreps_in: Irreps | str,
        acts: Sequence[str | Function | None],
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__()
        self.irreps_in = Irreps(irreps_in)
        if len(acts) != len(self.irreps_in):
            raise ValueError(
                f"{self.irreps_in} has {len(self.irreps_in)} blocks, but {len(acts)} "
                "activations are given; give one per block, None for none"
            )
        self.acts = tuple(None if a is None else ScaledFunction(a, normalization) for a in acts)
        out = []
        for (mul, ir), act in zip(self.irreps_in, self.acts, strict=True):
            if act is None:
                out.append((mul, ir))
                continue
            if ir.l != 0:
                raise ValueError(
                    f"an activation of {mul}x{ir} breaks the symmetry; only scalars may be "
                    "activated, give None"
                )
            if ir.p == -1 and act.parity == 0:
                raise ValueError(
                    f"{mul}x{ir} changes sign under inversion, but the activation is neither even "
                    "nor odd; use for example tanh or abs"
                )
            out.append((mul, (0, act.parity if ir.p == -1 else 1)))
        self.irreps_out = Irreps(out)

    def __call__(
        self, features: Float[mx.array, "*batch dim"], dim: int = -1
    ) -> Float[mx.array, "*batch dim"]:
        """Activated features.

        Args:
            features: irreps along the axis ``dim``.
            dim: axis of the irreps.
        """
        if features.shape[dim] != self.irreps_in.dim:
            raise ValueError(
                f"features have the shape {tuple(features.shape)}; axis {dim} must be "
                f"{self.irreps_in.dim}, the dimension of {self.irreps_in}"
            )
        pieces = split_columns(features, [b.dim for b in self.irreps_in], axis=dim)
        pieces = self.on_blocks(pieces)
        pieces = [p for p in pieces if p.shape[dim] > 0]
        if not pieces:
            return features
        return pieces[0] if len(pieces) == 1 else mx.concatenate(pieces, axis=dim)

    def on_blocks(self, blocks: Sequence[mx.array]) -> list[mx.array]:
        """Activated blocks, in any shape."""
        return [b if a is None else a(b) for a, b in zip(self.acts, blocks, strict=True)]

    def _extra_repr(self) -> str:
        return f"{self.irreps_in} -> {self.irreps_out}"
