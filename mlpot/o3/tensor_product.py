"""The tensor product of two sets of irreps, with weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from mlpot.kernels import Constant, block_linear, block_linear_pays
from mlpot.kernels.primitive import plain_path

from .irreps import Irreps
from .layout import Layout, check_layout, check_width
from .scalar_maps import product_with_scalars
from .tensor_product_instructions import Instruction, complete_instructions, output_mask
from .tensor_product_items import Items
from .tensor_product_plan import Plan, weight_pieces
from .weights import check_weight, resolve_weight_flags


class TensorProduct(mlx.nn.Module):
    """Weighted tensor product, as e3nn's (Geiger and Smidt, arXiv:2207.09453).

        out[i_out] += path_weight * w * sum C(l1, l2, l_out) x[i_in1] y[i_in2]

    with the real Wigner 3j symbols C of unit norm; which channels meet is the instruction's
    mode: uvw, uvu, uvv, uuw, uuu, uvuv, uvu<v, u<vw. Weights are drawn from N(0, 1), all
    normalisation is in the forward pass (see ``complete_instructions``).

    Args:
        irreps_in1: first input (node features).
        irreps_in2: second input (attributes).
        irreps_out: output.
        instructions: (i_in1, i_in2, i_out, mode, has_weight[, path_weight]).
        in1_var, in2_var, out_var: variance of each block, 1 by default.
        irrep_normalization: "component" (default), "norm" or "none".
        path_normalization: "element" (default), "path" or "none".
        internal_weights: whether the module owns ``weight``.
        shared_weights: whether one weight serves the whole batch; else weights
            (..., weight_numel) are given in the call.
        layout: of the first input and of the output; the second input is always mul_ir, and
            weights keep e3nn's order.
        use_custom_kernel: None takes kernels where they are faster, True always, False never;
            the results are the same, and so are derivatives in any nesting.

    Raises:
        ValueError: inconsistent arguments.
    """

    def __init__(
        self,
        irreps_in1: Irreps | str,
        irreps_in2: Irreps | str,
        irreps_out: Irreps | str,
        instructions: Sequence[Sequence],
        in1_var: Sequence[float] | None = None,
        in2_var: Sequence[float] | None = None,
        out_var: Sequence[float] | None = None,
        irrep_normalization: str | None = None,
        path_normalization: str | None = None,
        internal_weights: bool | None = None,
        shared_weights: bool | None = None,
        layout: Layout = "mul_ir",
        use_custom_kernel: bool | None = None,
    ) -> None:
        super().__init__()
        self.irreps_in1, self.irreps_in2 = Irreps(irreps_in1), Irreps(irreps_in2)
        self.irreps_out = Irreps(irreps_out)
        self.layout: Layout = check_layout(layout)
        self.instructions: tuple[Instruction, ...] = complete_instructions(
            self.irreps_in1,
            self.irreps_in2,
            self.irreps_out,
            instructions,
            (
                _variances("in1_var", in1_var, self.irreps_in1),
                _variances("in2_var", in2_var, self.irreps_in2),
                _variances("out_var", out_var, self.irreps_out),
            ),
            irrep_normalization or "component",
            path_normalization or "element",
        )
        self._weighted = tuple(k for k, ins in enumerate(self.instructions) if ins.has_weight)
        self.weight_numel = sum(self._size(k) for k in self._weighted)
        self.shared_weights, self.internal_weights = resolve_weight_flags(
            shared_weights, internal_weights, bool(self._weighted)
        )
        if self.internal_weights and self.weight_numel > 0:
            self.weight = mx.random.normal((self.weight_numel,))
        self._mask = Constant(output_mask(self.irreps_out, self.instructions))
        irreps = (self.irreps_in1, self.irreps_in2, self.irreps_out)
        self._plan = Plan(*irreps, self.instructions)
        self._map = product_with_scalars(*irreps, self.instructions, self.layout)
        self._items = Items(self._plan, self.shared_weights, self.layout)
        self.use_custom_kernel = use_custom_kernel

    @property
    def output_mask(self) -> Float[mx.array, " dim_out"]:
        """1 for the components of the output that an instruction reaches, else 0 (mul_ir)."""
        return self._mask(mx.float32)

    def __call__(
        self,
        x: Float[mx.array, "... dim_in1"],
        y: Float[mx.array, "... dim_in2"] | None,
        weight: Float[mx.array, "... weight_numel"] | None = None,
    ) -> Float[mx.array, "... dim_out"]:
        """The product.

        Args:
            x: (..., irreps_in1.dim).
            y: (..., irreps_in2.dim); None stands for all ones if ``irreps_in2`` has only
                scalars.
            weight: (weight_numel,) or, unless shared, (..., weight_numel); the module's own by
                default. Batch axes of the three are broadcast.

        Returns:
            (..., irreps_out.dim).

        Raises:
            ValueError: a shape does not fit or weights are missing; or kernels are forced by
                ``use_custom_kernel=True`` and there is none for the arguments.
        """
        return self._product(x, y, weight, self.use_custom_kernel)

    def differentiable_arrays(
        self,
        left: Float[mx.array, "... dim_in1"],
        right: Float[mx.array, "... dim_in2"] | None,
        weights: Float[mx.array, "... weight_numel"] | None = None,
    ) -> Float[mx.array, "... dim_out"]:
        """The product in plain MLX, whatever ``use_custom_kernel`` is.

        Kernels have every derivative too; this is for code that must see MLX's own operations
        alone, such as an exported function.

        Args:
            left: as ``x`` in the call.
            right: as ``y`` in the call.
            weights: as ``weight`` in the call.

        Returns:
            (..., irreps_out.dim).
        """
        with plain_path():
            return self._product(left, right, weights, False)

    def _product(self, x, y, weight, use_custom_kernel: bool | None) -> mx.array:
        check_width("x", x, self.irreps_in1)
        if y is None and not (self.shared_weights and self._plan.linear_in_ones):
            y = self._ones(x.dtype)
        lead = x.shape[:-1]
        if y is not None:
            check_width("y", y, self.irreps_in2)
            lead = _broadcast(lead, y.shape[:-1])
        if weight is not None and not self.shared_weights:
            lead = _broadcast(lead, weight.shape[:-1])
        weight = check_weight(self, "weight", weight, (self.weight_numel,), lead)
        n = int(np.prod(lead))
        if n == 0 or 0 in (self.irreps_in1.dim, self.irreps_in2.dim, self.irreps_out.dim):
            return mx.zeros((*lead, self.irreps_out.dim), dtype=x.dtype)
        x = _flatten(x, lead)
        if self._map is not None and self.shared_weights and weight is not None:
            scalars = self._ones(x.dtype) if y is None else y
            if use_custom_kernel is not False and block_linear_pays(self._map, x, scalars, weight):
                out = block_linear(self._map, x, _flatten(scalars, lead), weight)
                return out.reshape(*lead, self.irreps_out.dim)
        y = None if y is None else _flatten(y, lead)
        out = self._items(x, y, weight, use_custom_kernel)
        return out.reshape(*lead, self.irreps_out.dim)

    def right(
        self,
        y: Float[mx.array, "... dim_in2"],
        weight: Float[mx.array, "... weight_numel"] | None = None,
    ) -> Float[mx.array, "... dim_in1 dim_out"]:
        """The linear map of the first input that the second makes of the product.

        ``x[..., None, :] @ right(y)`` is the product of x and y.

        Args:
            y: (..., irreps_in2.dim).
            weight: as in the call.

        Returns:
            (..., irreps_in1.dim, irreps_out.dim).
        """
        check_width("y", y, self.irreps_in2)
        lead = y.shape[:-1]
        if weight is not None and not self.shared_weights:
            lead = _broadcast(lead, weight.shape[:-1])
            weight = weight[..., None, :]
        dim = self.irreps_in1.dim
        identity = mx.broadcast_to(mx.eye(dim, dtype=y.dtype), (*lead, dim, dim))
        return self(identity, y[..., None, :], weight)

    def weight_views(
        self, weight: mx.array | None = None, yield_instruction: bool = False
    ) -> Iterator:
        """Weights of every path that has some.

        Args:
            weight: flat weights, (..., weight_numel); the module's own by default.
            yield_instruction: yield (index, instruction, weights) instead of the weights.
        """
        pieces = self._pieces(self._own_weight(weight)) if self._weighted else []
        for k in self._weighted:
            yield (k, self.instructions[k], pieces[k]) if yield_instruction else pieces[k]

    def weight_view_for_instruction(
        self, instruction: int, weight: mx.array | None = None
    ) -> mx.array:
        """Weights of one instruction, (..., *path_shape).

        Raises:
            ValueError: the instruction has no weights.
        """
        if not self.instructions[instruction].has_weight:
            raise ValueError(f"instruction {instruction} has no weights")
        piece = self._pieces(self._own_weight(weight))[instruction]
        assert piece is not None
        return piece

    def _size(self, k: int) -> int:
        return int(np.prod(self.instructions[k].path_shape))

    def _pieces(self, weight: mx.array | None) -> list[mx.array | None]:
        return weight_pieces(self.instructions, weight)

    def _own_weight(self, weight: mx.array | None) -> mx.array:
        if weight is not None:
            return weight
        if not self.internal_weights:
            raise ValueError("the module has no weights of its own: pass weight=")
        return self.weight

    def _ones(self, dtype: mx.Dtype) -> mx.array:
        if any(block.ir.l > 0 for block in self.irreps_in2):
            raise ValueError(
                f"y is None, which stands for ones, but {self.irreps_in2} is not all scalars"
            )
        return mx.ones((self.irreps_in2.dim,), dtype=dtype)

    def _extra_repr(self) -> str:
        return (
            f"{self.irreps_in1} x {self.irreps_in2} -> {self.irreps_out} | "
            f"{len(self.instructions)} paths | {self.weight_numel} weights"
        )


def _variances(name: str, given: Sequence[float] | None, irreps: Irreps) -> list[float]:
    if given is None:
        return [1.0] * len(irreps)
    values = [float(v) for v in given]
    if len(values) != len(irreps):
        raise ValueError(f"{name} has {len(values)} entries; {irreps} has {len(irreps)} blocks")
    return values


def _broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(tuple(a), tuple(b)))
    except ValueError as error:
        raise ValueError(f"batch axes {tuple(a)} and {tuple(b)} do not broadcast") from error


def _flatten(x: mx.array, lead: Sequence[int]) -> mx.array:
    width = x.shape[-1]
    if tuple(x.shape[:-1]) != tuple(lead):
        x = mx.broadcast_to(x, (*lead, width))
    return x.reshape(int(np.prod(lead)), width)
