"""Random operations for scripts/fixtures_tensor_products.py: names and arguments as in e3nn."""

from __future__ import annotations

import numpy as np
from e3nn import o3

MODES = ["uvw", "uvu", "uvv", "uuw", "uuu", "uvuv", "uvu<v", "u<vw"]


def random_ir(rng, lmax=3):
    p = np.array([0.35, 0.35, 0.2, 0.1][: lmax + 1])
    return o3.Irrep(int(rng.choice(lmax + 1, p=p / p.sum())), int(rng.choice([-1, 1])))


def random_irreps(rng, blocks=4, lmax=3):
    """Irreps that need not be simplified: repeated blocks, zero multiplicities, any order."""
    out = []
    for _ in range(rng.integers(1, blocks + 1)):
        if out and rng.random() < 0.25:
            out.append(out[rng.integers(len(out))])
        else:
            out.append((int(rng.choice(4, p=[0.12, 0.38, 0.3, 0.2])), random_ir(rng, lmax)))
    return o3.Irreps(out)


def reachable(rng, irreps1, irreps2):
    """Irreps most of which occur in the product."""
    products = [ir for _, a in irreps1 for _, b in irreps2 for ir in a * b if ir.l <= 3]
    out = [
        (int(rng.integers(0, 4)), products[rng.integers(len(products))] if products else "0e")
        for _ in range(rng.integers(1, 5))
    ]
    return o3.Irreps(out)


def case_tensor_product(rng, mode=None):
    blocks1, blocks2, outs, instructions = [], [], [], []
    for _ in range(rng.integers(1, 5)):
        m = mode or str(rng.choice(MODES))
        mul1, mul2 = (int(rng.choice([1, 1, 2, 3, 0], p=[0.25, 0.2, 0.3, 0.2, 0.05])) for _ in "ab")
        if m in ("uuw", "uuu", "uvu<v", "u<vw"):
            mul2 = mul1
        i1 = next((i for i, b in enumerate(blocks1) if b[0] == mul1 and rng.random() < 0.5), None)
        if i1 is None:
            blocks1.append((mul1, random_ir(rng)))
            i1 = len(blocks1) - 1
        i2 = next((i for i, b in enumerate(blocks2) if b[0] == mul2 and rng.random() < 0.5), None)
        if i2 is None:
            blocks2.append((mul2, random_ir(rng)))
            i2 = len(blocks2) - 1
        has_weight = m in ("uvw", "u<vw") or bool(rng.random() < 0.7)
        pairs = mul1 * (mul1 - 1) // 2
        mul_out = {"uvu": mul1, "uvv": mul2, "uuu": mul1, "uvuv": mul1 * mul2, "uvu<v": pairs}.get(
            m, int(rng.integers(1, 4)) if has_weight else 1
        )
        choices = [ir for ir in blocks1[i1][1] * blocks2[i2][1] if ir.l <= 4]
        if not choices:
            continue
        out = (mul_out, choices[rng.integers(len(choices))])
        io = next((i for i, b in enumerate(outs) if b == out and rng.random() < 0.7), None)
        if io is None:
            outs.append(out)
            io = len(outs) - 1
        weight = float(rng.choice([1.0, 0.5, 2.0, 0.0], p=[0.7, 0.15, 0.1, 0.05]))
        instructions.append([i1, i2, io, m, has_weight, weight])
    spec = {
        "irreps_in1": str(o3.Irreps(blocks1)),
        "irreps_in2": str(o3.Irreps(blocks2)),
        "irreps_out": str(o3.Irreps(outs)),
        "instructions": instructions,
        "irrep_normalization": str(rng.choice(["component", "norm", "none"])),
        "path_normalization": str(rng.choice(["element", "path", "none"])),
    }
    if rng.random() < 0.3:
        for name, blocks in (("in1_var", blocks1), ("in2_var", blocks2), ("out_var", outs)):
            spec[name] = [float(v) for v in rng.choice([0.5, 1.0, 3.0], len(blocks))]
    return "TensorProduct", spec | {"shared_weights": bool(rng.random() < 0.6)}


def case_fully_connected(rng):
    a, b = random_irreps(rng, 3), random_irreps(rng, 3)
    if rng.random() < 0.4:
        b = o3.Irreps([(mul, (0, ir.p)) for mul, ir in b])
    return "FullyConnectedTensorProduct", {
        "irreps_in1": str(a),
        "irreps_in2": str(b),
        "irreps_out": str(reachable(rng, a, b)),
        "irrep_normalization": str(rng.choice(["component", "norm"])),
        "path_normalization": str(rng.choice(["element", "path"])),
        "shared_weights": bool(rng.random() < 0.7),
    }


def case_full(rng):
    spec = {"irreps_in1": str(random_irreps(rng, 2)), "irreps_in2": str(random_irreps(rng, 2, 2))}
    if rng.random() < 0.4:
        spec["filter_ir_out"] = ["0e", "1o", "1e", "2e"]
    return "FullTensorProduct", spec | {
        "irrep_normalization": str(rng.choice(["component", "norm"]))
    }


def case_elementwise(rng):
    a = random_irreps(rng, 3)
    left, blocks = a.num_irreps, []
    while left > 0:
        mul = int(rng.integers(1, left + 1))
        blocks.append((mul, random_ir(rng, 3)))
        left -= mul
    return "ElementwiseTensorProduct", {"irreps_in1": str(a), "irreps_in2": str(o3.Irreps(blocks))}


def case_square(rng):
    a = random_irreps(rng, 2)
    spec = {
        "irreps_in": str(a),
        "irrep_normalization": str(rng.choice(["component", "norm", "none"])),
    }
    if rng.random() < 0.5:
        spec["irreps_out"] = str(reachable(rng, a, a))
    return "TensorSquare", spec


def case_linear(rng):
    a, b = random_irreps(rng), random_irreps(rng)
    b = o3.Irreps([*b, *[a[rng.integers(len(a))] for _ in range(2)]])
    spec = {
        "irreps_in": str(a),
        "irreps_out": str(b),
        "biases": bool(rng.random() < 0.5),
        "path_normalization": str(rng.choice(["element", "path"])),
        "shared_weights": bool(rng.random() < 0.7),
    }
    if rng.random() < 0.3:
        spec |= {"f_in": int(rng.integers(1, 4)), "f_out": int(rng.integers(1, 4))}
    if rng.random() < 0.3:
        pairs = [[i, o] for i, x in enumerate(a) for o, y in enumerate(b) if x.ir == y.ir]
        spec["instructions"] = [p for p in pairs if rng.random() < 0.6] or pairs
    return "Linear", spec


def case_norm(rng):
    return "Norm", {"irreps_in": str(random_irreps(rng)), "squared": bool(rng.random() < 0.5)}


def scalars_and_acts(rng, blocks):
    irreps = o3.Irreps(
        [(int(rng.integers(0, 4)), (0, int(rng.choice([-1, 1])))) for _ in range(blocks)]
    )
    even = ["silu", "tanh", "sigmoid", "abs", None]
    return irreps, [
        even[rng.integers(5)] if ir.p == 1 else ["tanh", "abs", None][rng.integers(3)]
        for _, ir in irreps
    ]


def case_gate(rng):
    scalars, act_scalars = scalars_and_acts(rng, rng.integers(1, 4))
    gates, act_gates = scalars_and_acts(rng, rng.integers(1, 3))
    left, blocks = gates.num_irreps, []
    while left > 0:
        mul = int(rng.integers(1, left + 1))
        blocks.append((mul, random_ir(rng)))
        left -= mul
    return "Gate", {
        "irreps_scalars": str(scalars),
        "act_scalars": act_scalars,
        "irreps_gates": str(gates),
        "act_gates": act_gates,
        "irreps_gated": str(o3.Irreps(blocks)),
    }


def case_activation(rng):
    irreps, acts = scalars_and_acts(rng, rng.integers(1, 5))
    return "Activation", {"irreps_in": f"{irreps}+2x1o", "acts": [*acts, None]}


def case_norm_activation(rng):
    spec = {
        "irreps_in": str(random_irreps(rng)),
        "scalar_nonlinearity": str(rng.choice(["silu", "tanh", "sigmoid"])),
        "normalize": bool(rng.random() < 0.6),
        "bias": bool(rng.random() < 0.5),
    }
    return "NormActivation", spec


def case_net(rng):
    return "FullyConnectedNet", {
        "hs": [int(h) for h in rng.integers(1, 8, rng.integers(2, 5))],
        "act": [None, "silu", "tanh"][rng.integers(3)],
        "variance_in": float(rng.choice([1.0, 2.0])),
        "variance_out": float(rng.choice([1.0, 0.5])),
        "out_act": bool(rng.random() < 0.3),
    }


def case_batch_norm(rng):
    return "BatchNorm", {
        "irreps": str(random_irreps(rng)),
        "affine": bool(rng.random() < 0.7),
        "reduce": str(rng.choice(["mean", "max"])),
        "instance": bool(rng.random() < 0.3),
        "include_bias": bool(rng.random() < 0.7),
        "normalization": str(rng.choice(["component", "norm"])),
    }


def case_basis(rng, basis, cutoff):
    return "soft_one_hot_linspace", {
        "start": 0.2,
        "end": float(rng.uniform(2.0, 5.0)),
        "number": int(rng.integers(3, 8)),
        "basis": basis,
        "cutoff": cutoff,
    }


def case_s2(rng):
    lmax, p_val, p_arg = int(rng.integers(0, 4)), rng.choice([-1, 1]), rng.choice([-1, 1])
    return "S2Activation", {
        "irreps": str(o3.Irreps([(1, (l, int(p_val * p_arg**l))) for l in range(lmax + 1)])),
        "act": ["tanh", "abs"][rng.integers(2)] if p_val == -1 else "silu",
        "res": int(2 * rng.integers(lmax + 2, 8)),
        "lmax_out": int(rng.integers(0, lmax + 2)),
        "normalization": str(rng.choice(["component", "norm"])),
    }


def case_so3(rng):
    return "SO3Activation", {
        "lmax_in": int(rng.integers(0, 3)),
        "lmax_out": int(rng.integers(0, 3)),
        "act": "tanh",
        "resolution": int(rng.integers(4, 6)),
    }


def makers():
    """Functions that draw a case, one for each case."""
    found = [lambda r, m=m: case_tensor_product(r, m) for m in MODES for _ in range(9)]
    found += [case_tensor_product] * 40 + [case_fully_connected] * 45
    found += [case_full] * 14 + [case_elementwise] * 14 + [case_square] * 18
    found += [case_linear] * 42 + [case_norm] * 8 + [case_gate] * 18 + [case_activation] * 8
    found += [case_norm_activation] * 10 + [case_net] * 10 + [case_batch_norm] * 12
    for basis in ("gaussian", "cosine", "smooth_finite", "fourier", "bessel"):
        for cutoff in (True, False):
            found.append(lambda r, b=basis, c=cutoff: case_basis(r, b, c))
    found.append(lambda _: ("soft_unit_step", {}))
    found += [case_s2] * 8 + [case_so3] * 4
    return found
