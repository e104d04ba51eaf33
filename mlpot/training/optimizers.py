"""The optimisers: those of MLX, Muon for the blocks of linear maps, and schedule-free AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import mlx.optimizers
from mlx.optimizers import Optimizer

from mlpot import kernels

from .config_sections import OptimizerSection
from .matrices import Block

_QUINTIC = (3.4445, -4.7750, 2.0315)
_ROUNDS = 5


def make_optimizer(
    section: OptimizerSection, lr: float, blocks: Mapping[str, Sequence[Block]]
) -> Optimizer:
    """The optimiser of a configuration; its learning rate is set at each step.

    Args:
        section: of the configuration.
        lr: learning rate at first.
        blocks: matrices in flat weights, by the weight's name; Muon treats each of them.
    """
    beta2 = section.beta2
    if beta2 is None:
        beta2 = 0.99 if section.name == "lion" else 0.999
    betas, decay = [section.beta1, beta2], section.weight_decay
    options: Any = {"learning_rate": lr, "betas": betas}
    if section.name == "lion":
        return mlx.optimizers.Lion(weight_decay=decay, **options)
    options["eps"] = section.eps
    if section.name == "schedule_free":
        return ScheduleFree(weight_decay=decay, **options)
    options["bias_correction"] = True
    if section.name == "muon":
        # As in the original, vectors and what one-hot species choose rows of are left to AdamW.
        inner = {
            name: parts
            for name, parts in blocks.items()
            if "embedding" not in name and all(min(b.n_rows, b.n_columns) > 1 for b in parts)
        }
        return BlockMuon(inner, section.momentum, weight_decay=decay, **options)
    return AdamW(weight_decay=decay, **options) if section.name == "adamw" else Adam(**options)


class _ByKernels(Optimizer):
    """Steps of Adam with bias correction for all arrays by three kernels, where there are such."""

    betas: list[float]
    eps: float
    weight_decay: float = 0.0

    def by_kernels(
        self, gradients: dict, parameters: dict, averages: dict, decay: mx.array, limit: float
    ) -> tuple[dict, dict, mx.array]:
        """A step with clipping and the running average; ask `kernels.takes_adam` first.

        Args:
            gradients: by the parameters' names.
            parameters: to be moved.
            averages: running averages of all parameters, or none.
            decay: (), of the averages.
            limit: largest norm of the gradient.

        Returns:
            The new parameters and averages and the norm of the gradient before clipping.
        """
        names = list(gradients)
        own: list[Any] = [self.state[name] for name in names]
        found = kernels.adam(
            [parameters[name] for name in names],
            [gradients[name] for name in names],
            [slots["m"] for slots in own],
            [slots["v"] for slots in own],
            [averages[name] for name in names] if averages else [],
            self.step,
            self.learning_rate,
            decay,
            self.betas,
            self.eps,
            self.weight_decay,
            limit,
        )
        self.state["step"] = found.step
        for slots, m, v in zip(own, found.m, found.v, strict=True):
            slots |= {"m": m, "v": v}
        moved = dict(zip(names, found.parameters, strict=True))
        return moved, dict(zip(names, found.averages, strict=bool(averages))), found.norm


class Adam(_ByKernels, mlx.optimizers.Adam):
    """MLX's Adam."""


class AdamW(_ByKernels, mlx.optimizers.AdamW):
    """MLX's AdamW."""


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


class BlockMuon(mlx.optimizers.AdamW):
    """Muon for matrices and for the matrices within flat weights, AdamW for everything else.

    The weight of an equivariant linear map is flat, one matrix for each pair of irreps that it
    connects; each of these is a map of its own and is orthogonalised by itself. Updates have the
    root mean square 0.2 of AdamW's, so both share a learning rate: J. Liu et al., "Muon is scalable
    for LLM training", arXiv:2502.16982. The decay is decoupled.

    Args:
        blocks: matrices in flat weights, by the weight's name.
        momentum: decay per step of the average gradient.
        options: of AdamW.
    """

    def __init__(
        self, blocks: Mapping[str, Sequence[Block]], momentum: float, **options: Any
    ) -> None:
        super().__init__(**options)
        self.blocks, self.momentum = dict(blocks), momentum

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
        moved = super().apply_gradients(others, parameters)
        inside = {name: g for name, g in gradients.items() if self.blocks.get(name)}
        directions = self._directions(inside)
        for name, direction in directions.items():
            lr = self.learning_rate.astype(direction.dtype)
            moved[name] = parameters[name] * (1 - lr * self.weight_decay) - lr * direction
        return moved

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


class ScheduleFree(Optimizer):
    """Schedule-free AdamW: A. Defazio et al., "The road less scheduled", arXiv:2405.15682.

        y = (1 - beta1) z + beta1 x                       (where gradients g are taken)
        v <- beta2 v + (1 - beta2) g^2
        z <- z - lr (g / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay y)
        x <- (1 - c) x + c z,  c = lr^2 / (sum of lr^2 so far)

    The parameters of the model are y while it is trained; x are the parameters to use.

    Args:
        learning_rate: lr.
        betas: beta1 and beta2.
        eps: see above.
        weight_decay: see above.
    """

    def __init__(
        self, learning_rate: float, betas: Sequence[float], eps: float, weight_decay: float
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas, self.eps, self.weight_decay = tuple(betas), eps, weight_decay
        self.state["weight_sum"] = mx.array(0.0)

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """State of a parameter before the first step."""
        state |= {"v": mx.zeros_like(parameter), "x": parameter, "z": parameter}

    def apply_gradients(self, gradients: dict, parameters: dict) -> dict:
        """Moved parameters."""
        rate = self.learning_rate.astype(mx.float32)
        self.state["weight_sum"] = self.state["weight_sum"] + rate * rate
        return super().apply_gradients(gradients, parameters)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """The next y of one parameter."""
        (beta1, beta2), dtype = self.betas, gradient.dtype
        rate = self.learning_rate.astype(dtype)
        share = (rate * rate / self.state["weight_sum"].astype(dtype)).astype(dtype)
        v = beta2 * state["v"] + (1 - beta2) * gradient * gradient
        unbiased = v / (1 - beta2 ** self.step.astype(dtype))
        direction = gradient / (mx.sqrt(unbiased) + self.eps) + self.weight_decay * parameter
        z = state["z"] - rate * direction
        x = (1 - share) * state["x"] + share * z
        state |= {"v": v, "x": x, "z": z}
        return (1 - beta1) * z + beta1 * x
