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
from .muon import BlockMuon, adam_by_kernels


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
        share = 1.0 if section.adamw_lr is None else section.adamw_lr / lr
        return BlockMuon(inner, section.momentum, share, weight_decay=decay, **options)
    return AdamW(weight_decay=decay, **options) if section.name == "adamw" else Adam(**options)


class _ByKernels(Optimizer):
    """Steps of Adam with bias correction for all arrays by three kernels, where there are such."""

    betas: list[float]
    eps: float
    weight_decay: float = 0.0

    def has_kernels(self, gradients: dict, parameters: dict) -> bool:
        """Whether `by_kernels` may be called for these."""
        return kernels.takes_adam(*parameters.values(), *gradients.values())

    def by_kernels(
        self, gradients: dict, parameters: dict, averages: dict, decay: mx.array, limit: float
    ) -> tuple[dict, dict, mx.array]:
        """A step with clipping and the running average; ask `has_kernels` first.

        Args:
            gradients: by the parameters' names.
            parameters: to be moved.
            averages: running averages of all parameters, or none.
            decay: (), of the averages.
            limit: largest norm of the gradient.

        Returns:
            The new parameters and averages and the norm of the gradient before clipping.
        """
        numbers, self.state["step"], norm = kernels.step_numbers(
            list(gradients.values()),
            self.step,
            self.learning_rate,
            decay,
            kernels.AdamOptions(tuple(self.betas), self.eps, self.weight_decay, limit),
        )
        moved, mixed = adam_by_kernels(self.state, gradients, parameters, averages, numbers)
        return moved, mixed, norm


class Adam(_ByKernels, mlx.optimizers.Adam):
    """MLX's Adam."""


class AdamW(_ByKernels, mlx.optimizers.AdamW):
    """MLX's AdamW."""


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
