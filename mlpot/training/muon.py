"""Muon: orthogonalised updates of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import mlx.optimizers

from mlpot import kernels

from .matrices import Block

_QUINTIC = (3.4445, -4.7750, 2.0315)
_ROUNDS = 5


def orthogonalized(matrices: mx.array) -> mx.array:
    """Matrices (..., n, m) with all singular values near 1 and the same singular vectors.

    Five rounds of the quintic Newton-Schulz iteration of K. Jordan et al., "Muon: An optimizer for
    hidden layers in neural networks" (2024), on all matrices at once.
    """
    wide = matrices.shape[-2] <= matrices.shape[-1]
    x = matrices if wide else matrices.swapaxes(-1, -2)
    x = x / (mx.sqrt(mx.sum(x * x, axis=(-2, -1), keepdims=True)) + 1e-7)
    a, b, c = _QUINTIC
    for _ in range(_ROUNDS):
        square = x @ x.swapaxes(-1, -2)
        x = a * x + (b * square + c * square @ square) @ x
    return x if wide else x.swapaxes(-1, -2)


def _by_products(x: mx.array) -> mx.array:
    """The rounds of `orthogonalized` for wide matrices of norm 1 at most, by products alone."""
    a, b, c = _QUINTIC
    for _ in range(_ROUNDS):
        square = x @ x.swapaxes(-1, -2)
        polynomial = mx.addmm(square, square, square, alpha=c, beta=b)
        x = mx.addmm(x, polynomial, x, beta=a)
    return x


def adam_by_kernels(
    state: dict, gradients: dict, parameters: dict, averages: dict, numbers: mx.array
) -> tuple[dict, dict]:
    """A step of Adam by a kernel: new parameters and running averages, by name.

    Args:
        state: of the optimiser; m and v in it are replaced.
        gradients: by the parameters' names.
        parameters: to be moved.
        averages: running averages of these parameters, or none.
        numbers: of `kernels.step_numbers`.
    """
    names = list(gradients)
    if not names:
        return {}, {}
    moved, m, v, mixed = kernels.adam(
        [parameters[name] for name in names],
        [gradients[name] for name in names],
        [state[name]["m"] for name in names],
        [state[name]["v"] for name in names],
        [averages[name] for name in names] if averages else [],
        numbers,
    )
    for name, mean, variance in zip(names, m, v, strict=True):
        state[name] |= {"m": mean, "v": variance}
    return dict(zip(names, moved, strict=True)), dict(zip(names, mixed, strict=bool(averages)))


class BlockMuon(mlx.optimizers.AdamW):
    """Muon for matrices and for the matrices within flat weights, AdamW for everything else.

    The weight of an equivariant linear map is flat, one matrix for each pair of irreps that it
    connects; each of these is a map of its own and is orthogonalised by itself. Updates have the
    root mean square 0.2 of AdamW's, so both may share a learning rate: J. Liu et al., "Muon is
    scalable for LLM training", arXiv:2502.16982. The decay is decoupled.

    Args:
        blocks: matrices in flat weights, by the weight's name.
        momentum: decay per step of the average gradient.
        adamw_share: learning rate of AdamW as a part of ``learning_rate``.
        options: of AdamW.
    """

    def __init__(
        self,
        blocks: Mapping[str, Sequence[Block]],
        momentum: float,
        adamw_share: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.blocks, self.momentum, self.adamw_share = dict(blocks), momentum, adamw_share
        self._layouts: dict[tuple[str, ...], kernels.MuonLayout] = {}

    def init(self, parameters: dict) -> None:
        """Make the state of named parameters."""
        state: dict[str, Any] = self.state
        for name, parameter in parameters.items():
            if self.blocks.get(name):
                state.setdefault(name, {"momentum": mx.zeros_like(parameter)})
        super().init({name: p for name, p in parameters.items() if not self.blocks.get(name)})

    def apply_gradients(self, gradients: dict, parameters: dict) -> dict:
        """Moved parameters, by name."""
        others = {name: g for name, g in gradients.items() if not self.blocks.get(name)}
        rate = self.learning_rate
        self.state["learning_rate"] = self._adamw_rate(rate)
        moved = super().apply_gradients(others, parameters)
        self.state["learning_rate"] = rate
        inside = {name: g for name, g in gradients.items() if self.blocks.get(name)}
        directions = self._directions(inside)
        for name, direction in directions.items():
            lr = rate.astype(direction.dtype)
            moved[name] = parameters[name] * (1 - lr * self.weight_decay) - lr * direction
        return moved

    def _adamw_rate(self, rate: mx.array) -> mx.array:
        return rate if self.adamw_share == 1.0 else rate * self.adamw_share

    def _layout(self, names: Sequence[str]) -> kernels.MuonLayout:
        key = tuple(names)
        if key not in self._layouts:
            pieces = [(k, *block) for k, name in enumerate(names) for block in self.blocks[name]]
            self._layouts[key] = kernels.MuonLayout(
                len(names),
                tuple(kernels.Piece(*piece) for piece in pieces),
                self.momentum,
                self.weight_decay,
            )
        return self._layouts[key]

    def has_kernels(self, gradients: dict, parameters: dict) -> bool:
        """Whether `by_kernels` may be called for these."""
        inside = [name for name in gradients if self.blocks.get(name)]
        arrays = [*parameters.values(), *gradients.values()]
        return bool(inside) and kernels.takes_muon(self._layout(inside), *arrays)

    def by_kernels(
        self, gradients: dict, parameters: dict, averages: dict, decay: mx.array, limit: float
    ) -> tuple[dict, dict, mx.array]:
        """A step by kernels and products of stacks of matrices, as `AdamW.by_kernels`."""
        state: dict[str, Any] = self.state
        rate = self.learning_rate.astype(mx.float32)
        options = kernels.AdamOptions(tuple(self.betas), self.eps, self.weight_decay, limit)
        numbers, state["step"], norm = kernels.step_numbers(
            list(gradients.values()), self.step, self._adamw_rate(rate), decay, options
        )
        others = {name: g for name, g in gradients.items() if not self.blocks.get(name)}
        moved, mixed = adam_by_kernels(state, others, parameters, averages, numbers)
        names = [name for name in gradients if self.blocks.get(name)]
        layout = self._layout(names)
        means, stacks = kernels.muon_gather(
            layout,
            [gradients[name] for name in names],
            [state[name]["momentum"] for name in names],
            numbers,
        )
        own, average = kernels.muon_move(
            layout,
            [parameters[name] for name in names],
            [averages[name] for name in names] if averages else [],
            [_by_products(stack) for stack in stacks],
            numbers,
            rate,
        )
        for name, mean in zip(names, means, strict=True):
            state[name] |= {"momentum": mean}
        moved |= dict(zip(names, own, strict=True))
        mixed |= dict(zip(names, average, strict=bool(averages)))
        return moved, mixed, norm

    def _directions(self, gradients: dict[str, mx.array]) -> dict[str, mx.array]:
        """Updates for a learning rate of 1; blocks of one shape are treated together."""
        shapes: dict[tuple[int, int], list[tuple[str, int, mx.array]]] = {}
        for name, gradient in gradients.items():
            average = self.momentum * self.state[name]["momentum"] + (1 - self.momentum) * gradient
            self.state[name]["momentum"] = average
            ahead = self.momentum * average + (1 - self.momentum) * gradient  # Nesterov
            flat = ahead.reshape(-1)
            for number, (start, n, m) in enumerate(self.blocks[name]):
                piece = flat[start : start + n * m].reshape(n, m)
                shapes.setdefault((n, m), []).append((name, number, piece))
        found: dict[str, dict[int, mx.array]] = {name: {} for name in gradients}
        for (n, m), members in shapes.items():
            stack = orthogonalized(mx.stack([piece for _, _, piece in members]))
            stack = 0.2 * max(n, m) ** 0.5 * stack
            for row, (name, number, _) in enumerate(members):
                found[name][number] = stack[row].reshape(-1)
        return {
            name: mx.concatenate([parts[k] for k in sorted(parts)]).reshape(gradients[name].shape)
            for name, parts in found.items()
        }
