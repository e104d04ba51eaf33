"""Reference numbers of e3nn 0.6 for tensor products, linear maps and layers (needs torch).

Writes tests/fixtures/tensor_products.npz: for random operations the output, the gradient of
<output, v> in every input and the Hessian of that number times a direction. Inputs, v and the
direction are drawn by numpy from the seed of the case, so only results are stored.

    python scripts/make_fixtures.py
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from e3nn_operations import build  # noqa: E402
from random_products import makers  # noqa: E402

OUT = Path(__file__).parent.parent / "tests" / "fixtures" / "tensor_products.npz"
LARGEST = 420  # numbers stored for one case


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
