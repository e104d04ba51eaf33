"""Tensor products of single items: every mode, one family closed under differentiation.

    out[n, k, o] = sum over paths, i, j, channels q of
                   C[i, j, k] W(q, o) x[n, i, cx(q)] y[n, j, cy(q)]

With g the cotangent of the result, T(x, y, w, g) = <g, out> is linear in each of its arguments,
so every derivative of any order is a gradient of T to one of them. Weights that all items share
stay one vector throughout; the gradient to them sums over items in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from . import dispatch, gpu, native
from .gpu.item_product import item_product as gpu_item_product
from .gpu.item_product import item_product_refusal as gpu_refusal
from .gpu.item_product import slower_than_plain
from .item_product_spec import ItemProductSpec
from .multilinear_form import Arrays, MultilinearForm

#: From (x, y, w) to the product in plain MLX; w is left out where the product has no weights.
Plain = Callable[..., mx.array]

# What the gradient to each role is called in the report: that to g is the product itself.
_NAMES = {"g": "tensor_product", "x": "tensor_product.x", "y": "tensor_product.y"} | {
    "w": "tensor_product.w"
}


class ItemProduct:
    """A tensor product of items whose values may come from kernels.

    Args:
        spec: its paths.
        plain: computes it in plain MLX, differentiably.
        shared: whether all items share one set of weights.
        use_custom_kernel: None takes kernels where they are faster, True always, False never.
            Derivatives keep the choice, whenever they are traced.
    """

    def __init__(
        self,
        spec: ItemProductSpec,
        plain: Plain,
        shared: bool,
        use_custom_kernel: bool | None = None,
    ) -> None:
        self.spec, self.plain, self.shared = spec, plain, shared
        self.use_custom_kernel = use_custom_kernel
        self._operands = ("x", "y", "w") if spec.n_weights else ("x", "y")
        self._form = MultilinearForm([*self._operands, "g"], self._evaluate)

    def __call__(self, *arrays: mx.array) -> mx.array:
        """The product.

        Args:
            arrays: x (n, dim_x), y (n, dim_y) and, unless there are none, weights (n_weights,)
                if shared, else (n, n_weights).

        Returns:
            (n, dim_out).
        """
        # Plain MLX outside the family: its own derivatives share intermediate results.
        if self._choose("g", arrays) == "reference":
            return self.plain(*arrays)
        return self._form.gradient("g", dict(zip(self._operands, arrays, strict=True)))

    def _choose(self, target: str, arrays: Sequence[mx.array]) -> str:
        n = arrays[0].shape[0]

        def refusal_of_gpu() -> str | None:
            refused = self.spec.refusal(n) or gpu_refusal(self.spec, target, self.shared, arrays)
            return refused or slower_than_plain(self.spec, n)

        offers = (
            *gpu.offers(refusal_of_gpu),
            ("native", lambda: self.spec.refusal(n) or native.refusal(*arrays)),
        )
        return dispatch.choose(_NAMES[target], offers, self.use_custom_kernel)

    def _evaluate(self, targets: tuple[str, ...], arrays: Arrays, _index) -> list[mx.array]:
        return [self._gradient(target, arrays) for target in targets]

    def _gradient(self, target: str, arrays: Arrays) -> mx.array:
        given = [arrays[role] for role in (*self._operands, "g") if role != target]
        backend = self._choose(target, given)
        if backend == "native":
            return native.item_product(self.spec, target, self.shared, given)
        if backend in gpu.DIALECTS:
            return gpu_item_product(self.spec, target, self.shared, given)
        if target == "g":
            return self.plain(*given)
        # The product is linear in each operand, so it does not matter where the derivative is
        # taken.
        g = arrays["g"]
        widths = {"x": self.spec.dim_x, "y": self.spec.dim_y, "w": self.spec.n_weights}
        lead = () if target == "w" and self.shared else (g.shape[0],)
        operands = [arrays.get(role) for role in self._operands]
        place = self._operands.index(target)

        def product(operand: mx.array) -> mx.array:
            return self.plain(*operands[:place], operand, *operands[place + 1 :])

        zero = mx.zeros((*lead, widths[target]), dtype=g.dtype)
        return mx.vjp(product, [zero], [g])[1][0]
