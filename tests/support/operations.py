"""Operations under e3nn's names as functions of arrays: every weight is an argument."""

from __future__ import annotations

from mlx.utils import tree_unflatten

from mlpot import nn, o3

PLAIN = ("soft_one_hot_linspace", "soft_unit_step")
NAMED = ("FullyConnectedNet", "NormActivation", "BatchNorm")


def build(case, **extra):
    """(function of arrays, module or None)."""
    op, spec = case["op"], dict(case["spec"])
    evaluate = spec.pop("evaluate", False)
    if op in PLAIN:
        return lambda x: getattr(nn, op)(x, **spec), None
    if op in ("TensorProduct", "FullyConnectedTensorProduct", "Linear"):
        spec["internal_weights"] = False
    if op == "TensorSquare" and "irreps_out" in spec:
        spec["internal_weights"] = False
    module = getattr(o3, op, None) or getattr(nn, op)
    module = module(**spec, **extra)
    if op not in NAMED:
        return module, module
    module.train(not evaluate)
    names = case["facts"]["names"]

    def run(x, *weights):
        # Empty parameters do not exist here.
        filled = [(k, w) for k, w in zip(names, weights, strict=True) if w.size]
        module.update(tree_unflatten(filled))
        return module(x)

    return run, module
