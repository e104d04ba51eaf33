"""Operations of e3nn as functions of arrays (needs torch): every weight is an argument."""

from __future__ import annotations

import torch
from e3nn import nn, o3
from e3nn.math import soft_one_hot_linspace, soft_unit_step

ACTS = {
    "silu": torch.nn.functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "abs": torch.abs,
    None: None,
}


def build(op, spec, lead=(3,)):
    """(function of arrays, shapes of its inputs, extra facts to compare).

    ``lead``: shape in front of the features; layers that take rows only get its first length.
    A batch norm with ``evaluate`` in its spec uses running statistics, which are arguments then.
    """
    args = {k: [ACTS[a] for a in v] if k.startswith("act") and isinstance(v, list) else v
            for k, v in spec.items()}  # fmt: skip
    n = lead[0] if lead else 1
    evaluate = args.pop("evaluate", False)
    if op in ("soft_one_hot_linspace", "soft_unit_step"):
        f = soft_unit_step if op == "soft_unit_step" else soft_one_hot_linspace
        return (lambda x: f(x, **args)), [(6,)], {}
    for key in ("act", "scalar_nonlinearity"):
        if key in args:
            args[key] = ACTS[args[key]]
    if op == "S2Activation":
        args["irreps"] = o3.Irreps(args["irreps"])
    if op == "NormActivation":
        args["irreps_in"] = o3.Irreps(args["irreps_in"])
    if op in ("TensorProduct", "FullyConnectedTensorProduct", "Linear"):
        args["internal_weights"] = False
    if op == "TensorSquare" and "irreps_out" in args:
        args |= {"internal_weights": False, "shared_weights": True}
    module = getattr(o3, op, None) or getattr(nn, op)
    module = module(**args)
    facts = {}
    for name in ("irreps_in", "irreps_in1", "irreps_in2", "irreps_out", "weight_numel"):
        if hasattr(module, name):
            facts[name] = str(getattr(module, name))
    if op in ("TensorProduct", "FullyConnectedTensorProduct"):
        facts["path_weights"] = [i.path_weight for i in module.instructions]
        facts["mask"] = module.output_mask.tolist()
    if op in ("FullyConnectedNet", "NormActivation", "BatchNorm"):
        module.train(not evaluate)
        named = dict(module.named_parameters())
        if evaluate:
            named |= dict(module.named_buffers())
        facts["names"] = list(named)
        irreps = o3.Irreps(spec.get("irreps_in") or spec.get("irreps") or [])
        width = spec["hs"][0] if "hs" in spec else irreps.dim
        shapes = [(n, 2, width) if op == "BatchNorm" else (n, width)]
        call = torch.func.functional_call

        def run(x, *weights):
            return call(module, dict(zip(named, weights, strict=True)), (x,))

        return run, shapes + [tuple(p.shape) for p in named.values()], facts
    if op == "SO3Activation":
        width = sum((2 * l + 1) ** 2 for l in range(spec["lmax_in"] + 1))
        return module, [(n, width)], facts
    each = () if spec.get("shared_weights", True) else lead
    if op == "Linear":
        f = (spec["f_in"], spec["f_out"]) if "f_in" in spec else ()
        shapes = [(*lead, *f[:1], module.irreps_in.dim), (*each, *f, module.weight_numel)]
        shapes += [(*each, *f[1:], module.bias_numel)] if module.bias_numel else []
        return module, shapes, facts
    if op == "TensorSquare":
        shapes = [(*lead, module.irreps_in1.dim)]
    elif hasattr(module, "irreps_in2"):
        shapes = [(*lead, module.irreps_in1.dim), (*lead, module.irreps_in2.dim)]
    else:
        return module, [(*lead, module.irreps_in.dim)], facts
    weighted = getattr(module, "weight_numel", 0)
    return module, shapes + ([(*each, module.weight_numel)] if weighted else []), facts
