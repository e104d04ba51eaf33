"""Reference numbers of e3nn 0.6 for irreps, rotations, harmonics and grids (needs torch).

Writes tests/fixtures/o3.npz: for each case the output, and where both packages define the
operation off its manifold also the gradient of <output, v> and its Hessian times a direction.
Inputs are drawn by numpy from the seed of the case, so only results are stored.

    python scripts/make_fixtures.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from e3nn import o3

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
from drawn_inputs import draw_all, draw_directions  # noqa: E402

LMAX = 11
N = 3


def function(op, *args, inputs, derivatives=False, **kwargs):
    return {"kind": "function", "op": op, "args": list(args), "kwargs": kwargs,
            "inputs": inputs, "derivatives": derivatives}  # fmt: skip


def module(op, *args, inputs, derivatives=True, method="__call__", **kwargs):
    return {"kind": "module", "op": op, "args": list(args), "kwargs": kwargs, "method": method,
            "inputs": inputs, "derivatives": derivatives}  # fmt: skip


def rotation_cases():
    angle, axis, q, R = ("angle", [N]), ("unit", [N, 3]), ("unit", [N, 4]), ("rotation", [N, 3, 3])
    angles = [angle, ("polar", [N]), angle]
    for op in ("matrix_x", "matrix_y", "matrix_z"):
        yield function(op, inputs=[angle], derivatives=True)
    for op in ("angles_to_matrix", "angles_to_quaternion"):
        yield function(op, inputs=angles, derivatives=True)
    yield function("angles_to_axis_angle", inputs=angles)
    yield function("inverse_angles", inputs=angles)
    yield function("compose_angles", inputs=angles + angles, derivatives=True)
    yield function("angles_to_xyz", inputs=angles[:2], derivatives=True)
    yield function("xyz_to_angles", inputs=[("normal", [2, N, 3])], derivatives=True)
    for op in ("matrix_to_angles", "matrix_to_quaternion", "matrix_to_axis_angle"):
        yield function(op, inputs=[R])
    for op in ("quaternion_to_angles", "quaternion_to_matrix", "quaternion_to_axis_angle"):
        yield function(op, inputs=[q])
    for op in ("axis_angle_to_quaternion", "axis_angle_to_matrix", "axis_angle_to_angles"):
        yield function(op, inputs=[axis, angle])
    yield function("inverse_quaternion", inputs=[q])
    yield function("compose_quaternion", inputs=[q, q])
    for _ in range(3):
        yield function("compose_axis_angle", inputs=[axis, angle, axis, angle])
    for l in range(LMAX + 1):
        yield function("wigner_D", l, inputs=angles, derivatives=l < 6)
    irreps = "2x1o+0e+0x3e+2e+0o+1e"
    yield module("Irreps", irreps, inputs=angles, method="D_from_angles")
    yield module("Irreps", irreps, inputs=[q], method="D_from_quaternion", derivatives=False)
    yield module("Irreps", irreps, inputs=[R], method="D_from_matrix", derivatives=False)
    yield module("Irreps", irreps, inputs=[axis, angle], method="D_from_axis_angle",
                 derivatives=False)  # fmt: skip
    yield module("Irrep", "3o", inputs=angles, method="D_from_angles")
    yield module("Irrep", "1o", inputs=[R], method="D_from_matrix", derivatives=False)


def harmonics_cases():
    x = ("normal", [2, N, 3])
    for normalization in ("integral", "component", "norm"):
        for normalize in (False, True):
            for l in (0, 1, 3, [0, 1, 2, 3], [2, 0, 2], "0e+1o+2e+3o+4e", "2x1e+2e", "3o"):
                yield function("spherical_harmonics", l, inputs=[x], derivatives=True,
                               normalize=normalize, normalization=normalization)  # fmt: skip
    for l in range(4, LMAX + 1):
        yield function("spherical_harmonics", l, inputs=[x], derivatives=True, normalize=True,
                       normalization="component")  # fmt: skip
    for shape in ([3], [0, 3], [1, 2, 2, 3]):
        yield function("spherical_harmonics", [0, 1, 2], inputs=[("normal", shape)],
                       normalize=True, normalization="component")  # fmt: skip
    yield module("SphericalHarmonics", "1e+2e", True, "norm", irreps_in="1e", inputs=[x])
    angles = [("angle", [N]), ("angle", [N])]
    for normalization in ("integral", "component", "norm"):
        for l in (0, 2, [1, 3, 0], list(range(LMAX + 1))):
            yield function("spherical_harmonics_alpha_beta", l, inputs=angles, derivatives=True,
                           normalization=normalization)  # fmt: skip
    for l in (0, 1, 4, LMAX):
        yield function("spherical_harmonics_alpha", l, inputs=angles[:1], derivatives=True)
    for ls in ([0], [1, 4], list(range(LMAX + 1))):
        yield module("Legendre", ls, inputs=[("normal", [N]), ("normal", [N])])


def grid_cases():
    for lmax, res, normalization, lmax_in in (
        (2, [6, 5], "component", 2), (2, [8, 9], "norm", None), (3, [10, 8], "integral", 4),
        (2, [6, 3], "component", 3), (0, [2, 1], "norm", None), (5, [12, 13], "component", None),
    ):  # fmt: skip
        yield module("ToS2Grid", lmax, res, normalization=normalization,
                     inputs=[("normal", [2, (lmax + 1) ** 2])], derivatives=False)  # fmt: skip
        yield module("FromS2Grid", res, lmax, normalization=normalization, lmax_in=lmax_in,
                     inputs=[("normal", [2, *res])], derivatives=False)  # fmt: skip
    for lmax, resolution, aspect_ratio, n in ((1, 2, 1, 10), (2, 3, 2, 35)):
        yield module("SO3Grid", lmax, resolution, aspect_ratio=aspect_ratio, method="to_grid",
                     inputs=[("normal", [1, n])], derivatives=False)  # fmt: skip
        shape = [2, 2 * aspect_ratio * resolution, 2 * resolution, 2 * aspect_ratio * resolution]
        yield module("SO3Grid", lmax, resolution, aspect_ratio=aspect_ratio, method="from_grid",
                     inputs=[("normal", shape)], derivatives=False)  # fmt: skip
    for op, size, number in (("rfft", 7, 2), ("rfft", 6, 3), ("irfft", 5, 5), ("irfft", 5, 9)):
        case = function(op, inputs=[("normal", [N, size])])
        case["kwargs"] = {"l" if op == "rfft" else "res": number}
        yield case


def reduced_cases():
    for formula, kwargs in (
        ("ij=-ji", {"i": "1o"}), ("ij", {"i": "1o", "j": "2e"}),
        ("ijk=-jik=-ikj", {"i": "1o+0e"}), ("ijkl=jikl=ikjl=ijlk", {"i": "1e"}),
        ("ijk=jik=ikj", {"i": "1o", "filter_ir_mid": ["0e", "1o", "2e"]}),
        ("ijkl=-jikl=klij", {"i": "1o"}), ("ij=ji", {"i": "2x0e+1o"}),
        ("ij=-ji", {"i": "2x1o+0x2e+0e+1o"}), ("ijk=jik=ikj", {"i": "0e+1o+2e"}),
        ("ijk=jik", {"i": "1o+0o", "k": "1e+2o", "filter_ir_out": ["1o", "2e"]}),
    ):  # fmt: skip
        tp = o3.ReducedTensorProducts(formula, **kwargs)
        inputs = [("normal", [2, ir.dim]) for ir in tp.irreps_in]
        case = module("ReducedTensorProducts", formula, inputs=inputs, **kwargs)
        case["irreps_out"] = str(tp.irreps_out)
        yield case


def run(case):
    if case["kind"] == "function":
        target, args = getattr(o3, case["op"]), case["args"]
        if case["op"] in ("rfft", "irfft"):
            return lambda *xs: target(*xs, *case["kwargs"].values())
        return lambda *xs: target(*args, *xs, **case["kwargs"])
    args = [tuple(a) if isinstance(a, list) and "Grid" in case["op"] else a for a in case["args"]]
    built = getattr(o3, case["op"])(*args, **case["kwargs"])
    return getattr(built, case["method"])


def flat(result):
    parts = result if isinstance(result, tuple) else (result,)
    return torch.cat([part.reshape(-1) for part in parts])


def results(case):
    """Output, and if wanted gradient and Hessian-vector product, as one row of numbers."""
    operation = run(case)
    xs = [torch.tensor(x, requires_grad=True) for x in draw_all(case)]
    out = flat(operation(*xs))
    rows = [out.detach()]
    if case["derivatives"]:
        shapes = [*(x.shape for x in xs), out.shape]
        *ts, v = (torch.tensor(d) for d in draw_directions(case, shapes))
        grads = gradients((out * v).sum(), xs)
        along = sum((g * t).sum() for g, t in zip(grads, ts, strict=True))
        rows += [g.detach().reshape(-1) for g in (*grads, *gradients(along, xs))]
    return torch.cat(rows).numpy()


def gradients(number, xs):
    """Derivatives of a number, zero where it does not depend on an input."""
    grads = [None] * len(xs)
    if number.requires_grad:
        grads = torch.autograd.grad(number, xs, create_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(grads, xs, strict=True)]


def wigner_rows():
    """Every coupling through LMAX, contracted with random vectors on the first two axes."""
    triples = [
        (a, b, c)
        for a in range(LMAX + 1) for b in range(LMAX + 1) for c in range(LMAX + 1)
        if abs(a - b) <= c <= a + b
    ]  # fmt: skip
    rows = []
    for number, (a, b, c) in enumerate(triples):
        rng = np.random.default_rng(number)
        u, v = rng.normal(size=2 * a + 1), rng.normal(size=2 * b + 1)
        rows.append(np.einsum("i,j,ijk->k", u, v, o3.wigner_3j(a, b, c).numpy()))
    return triples, rows


def irreps_facts():
    """Text results of what needs no numbers."""
    rng = np.random.default_rng(0)
    facts = []
    for _ in range(40):
        blocks = [
            f"{rng.integers(0, 4)}x{rng.integers(0, 4)}{rng.choice(['e', 'o'])}"
            for _ in range(rng.integers(0, 7))
        ]
        text = "+".join(blocks)
        irreps = o3.Irreps(text)
        order = irreps.sort()
        drop = [f"{rng.integers(0, 4)}{rng.choice(['e', 'o'])}" for _ in range(2)]
        begin, end = sorted(int(i) for i in rng.integers(0, 12, size=2))
        facts.append({
            "irreps": text, "str": str(irreps), "dim": irreps.dim, "num_irreps": irreps.num_irreps,
            "ls": irreps.ls, "simplify": str(irreps.simplify()), "regroup": str(irreps.regroup()),
            "nonzero": str(irreps.remove_zero_multiplicities()),
            "sort": str(order.irreps), "p": list(order.p), "inv": list(order.inv),
            "slices": [[s.start, s.stop] for s in irreps.slices()],
            "filter": drop, "kept": str(irreps.filter(keep=drop)),
            "dropped": str(irreps.filter(drop=drop)), "lmax2": str(irreps.filter(lmax=2)),
            "count": irreps.count(drop[0]), "contains": drop[0] in irreps,
            "slice": [begin, end], "sliced": str(irreps.slice_by_mul[begin:end]),
            "twice": str(2 * irreps), "sum": str(irreps + o3.Irreps("1o+2x0e")),
        })  # fmt: skip
    first = o3.Irrep.iterator(5)
    products = [
        [str(a), str(b), [str(c) for c in a * b]]
        for a in o3.Irrep.iterator(3) for b in o3.Irrep.iterator(3)
    ]  # fmt: skip
    return {"irreps": facts, "iterator": [str(ir) for ir in first], "products": products,
            "harmonics": [[l, p, str(o3.Irreps.spherical_harmonics(l, p))]
                          for l in range(4) for p in (-1, 1)]}  # fmt: skip


def main():
    torch.set_default_dtype(torch.float64)
    cases = [
        *rotation_cases(), *harmonics_cases(), *grid_cases(), *reduced_cases(),
    ]  # fmt: skip
    for number, case in enumerate(cases):
        case["seed"] = number
    rows = [results(case) for case in cases]
    triples, wigner = wigner_rows()
    out = ROOT / "tests" / "fixtures" / "o3.npz"
    out.parent.mkdir(exist_ok=True)
    np.savez_compressed(
        out,
        cases=json.dumps(cases), facts=json.dumps(irreps_facts()),
        data=np.concatenate(rows), ends=np.cumsum([row.size for row in rows]),
        triples=np.array(triples), wigner=np.concatenate(wigner),
    )  # fmt: skip
    print(f"{len(cases)} cases, {len(triples)} couplings, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
