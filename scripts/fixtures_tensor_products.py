"""Reference numbers of e3nn 0.6 for tensor products, linear maps and layers (needs torch).

Writes tests/fixtures/tensor_products.npz: for random operations the output, the gradient of
<output, v> in every input and the Hessian of that number times a direction. Inputs, v and the
direction are drawn by numpy from the seed of the case, so only results are stored.

    python scripts/fixtures_tensor_products.py
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from e3nn import nn, o3  # noqa: E402
from e3nn.math import soft_one_hot_linspace, soft_unit_step  # noqa: E402
from random_products import makers  # noqa: E402

OUT = Path(__file__).parent.parent / "tests" / "fixtures" / "tensor_products.npz"
ACTS = {
    "silu": torch.nn.functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "abs": torch.abs,
    None: None,
}
LARGEST = 420  # numbers stored for one case


def build(op, spec):
    """(function of arrays, shapes of its inputs, extra facts to compare)."""
    args = {k: [ACTS[a] for a in v] if k.startswith("act") and isinstance(v, list) else v
            for k, v in spec.items()}  # fmt: skip
    n = 3
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
        named = dict(module.named_parameters())
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
    lead = () if spec.get("shared_weights", True) else (n,)
    if op == "Linear":
        f = (spec["f_in"], spec["f_out"]) if "f_in" in spec else ()
        shapes = [(n, *f[:1], module.irreps_in.dim), (*lead, *f, module.weight_numel)]
        shapes += [(*lead, *f[1:], module.bias_numel)] if module.bias_numel else []
        return module, shapes, facts
    if op == "TensorSquare":
        shapes = [(n, module.irreps_in1.dim)]
    elif hasattr(module, "irreps_in2"):
        shapes = [(n, module.irreps_in1.dim), (n, module.irreps_in2.dim)]
    else:
        return module, [(n, module.irreps_in.dim)], facts
    weighted = getattr(module, "weight_numel", 0)
    return module, shapes + ([(*lead, module.weight_numel)] if weighted else []), facts


def evaluate(op, spec, seed):
    f, shapes, facts = build(op, spec)
    rng = np.random.default_rng(seed)
    scale = [abs, lambda x: x][op not in ("soft_one_hot_linspace", "soft_unit_step")]
    ins = [torch.tensor(scale(rng.standard_normal(s))).requires_grad_() for s in shapes]
    out = f(*ins)
    v = torch.tensor(rng.standard_normal(tuple(out.shape)))
    tangents = [torch.tensor(rng.standard_normal(s)) for s in shapes]
    value = (out * v).sum()
    zeros = [torch.zeros_like(x) for x in ins]
    first = second = zeros
    if value.requires_grad:
        first = torch.autograd.grad(value, ins, create_graph=True, allow_unused=True)
        first = [z if g is None else g for g, z in zip(first, zeros, strict=True)]
        slope = sum((g * t).sum() for g, t in zip(first, tangents, strict=True))
        if slope.requires_grad:
            second = torch.autograd.grad(slope, ins, allow_unused=True)
            second = [z if g is None else g for g, z in zip(second, zeros, strict=True)]
    parts = [out, *first, *second]
    flat = np.concatenate([p.detach().numpy().ravel() for p in parts])
    return flat, {"op": op, "spec": spec, "seed": seed, "shapes": shapes, "facts": facts}


def main() -> None:
    torch.set_default_dtype(torch.float64)
    rng = np.random.default_rng(20240)
    metas, data, refused = [], [], []
    for maker in makers():
        while True:
            op, spec = maker(rng)
            try:
                flat, meta = evaluate(op, spec, len(metas))
            except Exception as error:
                refused.append((op, type(error).__name__))
                continue
            if np.isfinite(flat).all() and 0 < flat.size <= LARGEST:
                break
        metas.append(meta)
        data.append(flat)
    ends = np.cumsum([d.size for d in data])
    np.savez_compressed(OUT, meta=json.dumps(metas), data=np.concatenate(data), ends=ends)
    print(f"{len(metas)} cases, {ends[-1]} numbers, {OUT.stat().st_size / 1e6:.2f} MB")
    print("refused by e3nn:", sorted({r: refused.count(r) for r in refused}.items()))


if __name__ == "__main__":
    main()
