"""What a tensor product of items computes: blocks, channels and couplings of its paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Weighting = Literal["none", "channel", "matrix"]

#: More terms than this (couplings times channels) are not worth their tables.
LARGEST_NUMBER_OF_TERMS = 2_000_000


@dataclass(frozen=True)
class ItemBlock:
    """A block of an operand: component i of channel u is column offset + i stride + u step.

    Args:
        offset: first column.
        dim: number of components, 2l+1.
        mul: number of channels.
        stride: distance of components.
        step: distance of channels.
    """

    offset: int
    dim: int
    mul: int
    stride: int
    step: int

    @property
    def triple(self) -> tuple[int, int, int]:
        """Offset, stride and number of components."""
        return self.offset, self.stride, self.dim


@dataclass(frozen=True, eq=False)
class ItemPath:
    """One block of x times one of y into one of the output.

    Args:
        x, y, out: the blocks.
        mode: connection mode of the channels, as in `mlpot.o3.TensorProduct`.
        weighting: none, one weight for each channel q, or a matrix (channels q, out.mul).
        w_offset: first weight.
        coefficients: (x.dim, y.dim, out.dim), normalisation included.
    """

    x: ItemBlock
    y: ItemBlock
    out: ItemBlock
    mode: str
    weighting: Weighting
    w_offset: int
    coefficients: np.ndarray

    def channels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Channels of x, y and the output that meet in each channel q of the path."""
        u, v = self.x.mul, self.y.mul
        if self.mode in ("uuu", "uuw"):
            first = second = np.arange(u)
        elif "<" in self.mode:
            first, second = np.triu_indices(u, 1)
        else:
            first, second = np.divmod(np.arange(u * v), v)
        if self.mode == "uvu":
            out = first
        elif self.mode == "uvv":
            out = second
        elif self.mode == "uuw":
            out = np.zeros_like(first)
        else:
            out = np.arange(first.size)
        return first, second, out


@dataclass(frozen=True, eq=False)
class ItemProductSpec:
    """A tensor product of items.

    Args:
        dim_x, dim_y, dim_out: columns of the operands and of the result.
        n_weights: number of weights of one set; 0 for none.
        paths: at least one.
    """

    dim_x: int
    dim_y: int
    dim_out: int
    n_weights: int
    paths: tuple[ItemPath, ...]
    caches: dict[str, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict:
        """Copies and pickles make their own caches: plans cannot be copied."""
        return self.__dict__ | {"caches": {}}

    @property
    def n_terms(self) -> int:
        """Couplings that are not zero, times the channels of their paths."""
        if "n_terms" not in self.caches:
            self.caches["n_terms"] = sum(
                int(np.count_nonzero(p.coefficients)) * len(p.channels()[0]) for p in self.paths
            )
        return self.caches["n_terms"]

    def refusal(self, n_items: int) -> str | None:
        """Why kernels should not take it for this many items; None if they should."""
        if n_items == 0:
            return "no items"
        if not self.paths:
            return "no paths"
        if self.n_terms > LARGEST_NUMBER_OF_TERMS:
            return f"{self.n_terms} terms are more than {LARGEST_NUMBER_OF_TERMS}"
        return None

    def description(self) -> tuple[list[int], list[float]]:
        """Integers and coefficients for the native plan, paths of the same channels together."""
        groups: dict[tuple, list[ItemPath]] = {}
        for path in self.paths:
            kind = "equal" if path.mode in ("uuu", "uuw") else "less" if "<" in path.mode else "all"
            groups.setdefault((path.x, path.y, kind), []).append(path)
        integers: list[int] = []
        coefficients = [np.zeros(0)]
        for (x, y, _), paths in groups.items():
            first, second, _ = paths[0].channels()
            integers += [*x.triple, *y.triple, first.size, len(paths)]
            integers += [*(first * x.step), *(second * y.step)]
            for path in paths:
                integers += [*path.out.triple, ("none", "channel", "matrix").index(path.weighting)]
                integers += [path.w_offset, path.out.mul, path.out.step]
                if path.weighting != "matrix":
                    integers += [*(path.channels()[2] * path.out.step)]
                coefficients.append(np.asarray(path.coefficients, np.float64).ravel())
        return [int(i) for i in integers], np.concatenate(coefficients).tolist()
