"""The radial network: a multilayer perceptron without biases."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from mlpot import kernels
from mlpot.kernels.splitting import split

from .normalization_constants import (
    Convention,
    Function,
    activation_constant,
    kernel_name,
    resolve,
)


class _Layer(mlx.nn.Module):
    """One matrix, N(0, 1) entries; normalised by the network."""

    def __init__(self, h_in: int, h_out: int) -> None:
        super().__init__()
        self.weight = mx.random.normal((h_in, h_out))

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]} -> {self.weight.shape[1]}"


class FullyConnectedNet(mlx.nn.Module):
    """Multilayer perceptron with unit-variance normalisation, as e3nn's.

        h <- k f(h W / sqrt(fan_in))     hidden layers
        y  = h W / sqrt(fan_in)          last layer (activated too if ``out_act``)

    The weights are ``layer0.weight``, ``layer1.weight``, ... of shape (h_in, h_out), drawn from
    N(0, 1).

    Args:
        hs: widths, input to output.
        act: activation (a function or "silu", "tanh", "sigmoid", "abs"), or None for none.
        variance_in: variance of the input.
        variance_out: variance wanted of the output.
        out_act: whether the last layer is activated.
        normalization: convention of the activation's constant.

    Raises:
        ValueError: fewer than two widths.
    """

    def __init__(
        self,
        hs: Sequence[int],
        act: str | Function | None = None,
        variance_in: float = 1.0,
        variance_out: float = 1.0,
        out_act: bool = False,
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__()
        self.hs = tuple(hs)
        if len(self.hs) < 2:
            raise ValueError(f"hs is {list(hs)}; give at least the input and the output width")
        self.n_layers = len(self.hs) - 1
        for i in range(self.n_layers):
            setattr(self, f"layer{i}", _Layer(self.hs[i], self.hs[i + 1]))
        self.act = None if act is None else resolve(act)
        k = 1.0 if act is None else activation_constant(act, normalization)
        # Everything that is linear goes into the matrices: one factor per layer.
        self._scales, after, variance = [], 1.0, variance_in
        for i in range(self.n_layers):
            last = i == self.n_layers - 1
            activated = self.act is not None and (out_act or not last)
            scale = after / max(self.hs[i] * variance, 1e-300) ** 0.5
            variance, after = 1.0, k if activated else 1.0
            if last and not activated:
                scale *= variance_out**0.5
            self._scales.append((scale, activated))
        self._out_scale = after * variance_out**0.5 if self._scales[-1][1] else 1.0
        name = None if act is None else kernel_name(act)
        self._activations = None
        if name is not None:
            self._activations = [
                kernels.GateSpec(width, width, (kernels.GateGroup(name, 1.0, width, 0, 0),))
                for width in self.hs[1:]
            ]

    def __call__(self, x: Float[mx.array, "*batch h_in"]) -> Float[mx.array, "*batch h_out"]:
        """Apply the network to the last axis."""
        lead = x.shape[:-1]
        n = int(np.prod(lead))
        if n == 0:
            return mx.zeros((*lead, self.hs[-1]), dtype=x.dtype)
        h = self._layers(x.reshape(n, self.hs[0]), range(self.n_layers))
        if self._out_scale != 1.0:
            h = h * self._out_scale
        return h.reshape(*lead, self.hs[-1])

    def hidden(self, x: Float[mx.array, "n h_in"]) -> Float[mx.array, "n h_last"]:
        """What the last matrix is multiplied with, in the precision of ``x``.

        A network whose last layer is not activated is ``hidden(x) @ last_matrix()``.
        """
        return self._layers(x, range(self.n_layers - 1))

    def hidden_derivatives(
        self,
        x: Float[mx.array, "n h_in"],
        first: Float[mx.array, "n h_in"],
        second: Float[mx.array, "n h_in"],
    ) -> tuple[mx.array, mx.array, mx.array]:
        """`hidden` and its first two derivatives by a number that the inputs are functions of.

        One pass for all three: with z = h W,

            f(z)' = f'(z) z'        f(z)'' = f''(z) z'^2 + f'(z) z''

        Args:
            x: (n, h_in) inputs.
            first: their first derivatives.
            second: their second derivatives.

        Returns:
            Three arrays (n, h_last), in the precision of ``x``.
        """
        for i in range(self.n_layers - 1):
            scale, activated = self._scales[i]
            matrix = self[f"layer{i}"].weight.astype(x.dtype) * scale
            stacked = mx.concatenate([x, first, second]) @ matrix
            x, first, second = split(stacked, [x.shape[0]] * 3, axis=0)
            if activated:
                act = self.act
                assert act is not None
                one = mx.ones_like(x)

                def slope(z: mx.array, act=act, one=one) -> mx.array:
                    return mx.jvp(act, [z], [one])[1][0]

                f1, f2 = slope(x), mx.jvp(slope, [x], [one])[1][0]
                x, first, second = act(x), f1 * first, f2 * first * first + f1 * second
        return x, first, second

    def alike(self, other: FullyConnectedNet) -> bool:
        """Whether another network differs in its numbers and in its last layer alone."""
        return (
            self.hs[:-1] == other.hs[:-1]
            and self.act == other.act
            and self._scales[:-1] == other._scales[:-1]
        )

    def last_matrix(self) -> Float[mx.array, "h_last h_out"]:
        """The last layer's matrix, its normalisation included.

        Raises:
            ValueError: the last layer is activated.
        """
        scale, activated = self._scales[-1]
        if activated:
            raise ValueError("the last layer of this network is activated: it is no matrix")
        return self[f"layer{self.n_layers - 1}"].weight * scale

    def _layers(self, h: mx.array, which: range) -> mx.array:
        for i in which:
            scale, activated = self._scales[i]
            h = h @ (self[f"layer{i}"].weight.astype(h.dtype) * scale)
            if activated:
                h = self._activated(h, i)
        return h

    def _activated(self, h: mx.array, i: int) -> mx.array:
        """Layer ``i`` after its activation, by one kernel where there is one."""
        if self._activations is not None:
            return kernels.gate(self._activations[i], h)
        assert self.act is not None
        return self.act(h)

    def _extra_repr(self) -> str:
        return " -> ".join(str(h) for h in self.hs)


def hidden_together(
    networks: Sequence[FullyConnectedNet], x: Float[mx.array, "n h_in"]
) -> list[Float[mx.array, "n h_last"]]:
    """`FullyConnectedNet.hidden` of several networks, by products of stacks of matrices.

    Args:
        networks: alike, see `FullyConnectedNet.alike`.
        x: inputs of all of them.

    Returns:
        One array for each network.
    """
    first, n, count = networks[0], x.shape[0], len(networks)
    h = x[None]
    for i in range(first.n_layers - 1):
        scale, activated = first._scales[i]
        weights = [network[f"layer{i}"].weight.astype(x.dtype) for network in networks]
        h = h @ (mx.stack(weights) * scale)
        if activated:
            h = first._activated(h.reshape(count * n, -1), i).reshape(count, n, -1)
    return split(h.reshape(count * n, -1), [n] * count, axis=0)
