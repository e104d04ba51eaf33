"""Text of the kernels of switched Bessel functions: a thread for each distance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx

from ..bessel_spec import BesselSpec
from .dialect import literal
from .elementary import LARGEST_ORDER
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

THREADS = 64
#: Terms of the series of sin(u)/u and its derivatives for u < 1: float32 needs no more.
_TERMS = 7


def _horner(coefficients: Sequence[float], x: str) -> str:
    text = literal(coefficients[-1])
    for c in coefficients[-2::-1]:
        text = f"({text} * {x} + {literal(c)})"
    return text


def _envelope(spec: BesselSpec, order: int) -> str:
    """Statements that give e0 .. e<order>, the derivatives of the envelope by r."""
    cube = ["y * y * y", "-3.0f * y * y", "6.0f * y", "-6.0f"]
    lines = [f"const float x = r * {literal(1 / spec.cutoff)}, y = 1.0f - x;"]
    for k in range(order + 1):
        lines.append(f"const float c{k} = {cube[k]}, s{k} = {_horner(spec.series(k), 'x')};")
        terms = " + ".join(f"{literal(math.comb(k, j))} * c{j} * s{k - j}" for j in range(k + 1))
        lines.append(f"const float e{k} = {literal(spec.cutoff**-k)} * ({terms});")
    return "\n".join(lines)


def _sinc(order: int) -> str:
    """Statements that give q0 .. q<order>, the derivatives of sin(u)/u."""
    large = [
        "sine / u",
        "(cosine - q0) / u",
        "(-sine - 2.0f * q1) / u",
        "(-cosine - 3.0f * q2) / u",
    ]
    names = ", ".join(f"q{k} = 0.0f" for k in range(order + 1))
    small = []
    for k in range(order + 1):
        first = (k + 1) // 2
        terms = [
            (-1.0) ** j / ((2 * j + 1) * math.factorial(2 * j - k))
            for j in range(first, first + _TERMS)
        ]
        small.append(f"q{k} = {_horner(terms, 'square')}{' * u' if k % 2 else ''};")
    return (
        f"float {names};\n"
        "if (u < 1.0f) {\nconst float square = u * u;\n" + "\n".join(small) + "\n} else {\n"
        "const float sine = SIN(u), cosine = COS(u);\n"
        + "\n".join(f"q{k} = {large[k]};" for k in range(order + 1))
        + "\n}"
    )


def _kernel(spec: BesselSpec, kind: str, order: int) -> GeneratedKernel:
    key = ("gpu", kind, order)
    if key not in spec.caches:
        names = [f"a{i}" for i in range(order if kind == "out" else order - 1)]
        scale = "".join(f" * {name}[i]" for name in names)
        # b^(k) = A w sum_j C(k, j) w^j q_j e_(k-j)
        powers = ["1.0f"] + [" * ".join(["w"] * j) for j in range(1, order + 1)]
        value = " + ".join(
            f"{literal(math.comb(order, j))} * {powers[j]} * q{j} * e{order - j}"
            for j in range(order + 1)
        )
        column = f"INDEX(i) * {spec.n} + m"
        write = {
            "out": f"out[{column}] = near ? value * scale : 0.0f;",
            "adjoint": f"sum += g[{column}] * value;",
        }[kind]
        end = "out[i] = near ? sum * scale : 0.0f;" if kind == "adjoint" else ""
        body = f"""
            const int i = BLOCK_X * {THREADS} + THREAD_X;
            if (i < r_in_shape[0]) {{
                const float r = r_in[i];
                // What is no number is not far: it must be seen.
                const bool near = !(r >= {literal(spec.cutoff)});
                const float scale = 1.0f{scale};
                {_envelope(spec, order)}
                float sum = 0.0f;
                for (int m = 0; m < {spec.n}; ++m) {{
                    const float w = {literal(spec.first_frequency)} * float(m + 1), u = w * r;
                    {_sinc(order)}
                    const float value = {literal(2 / spec.cutoff)} * w * ({value});
                    {write}
                }}
                {end}
            }}
        """
        if kind == "out":
            body = body.replace("float sum = 0.0f;\n", "\n", 1)
        inputs = ["r_in", *(["g"] if kind == "adjoint" else []), *names]
        spec.caches[key] = GeneratedKernel(f"bessel_{kind}_{order}", inputs, ["out"], body)
    return spec.caches[key]


def bessel_refusal(order: int, *arrays: mx.array) -> str | None:
    """Why the kernels cannot take these arguments; None if they can."""
    if order > LARGEST_ORDER:
        return f"derivatives of order {order} (the kernels end at {LARGEST_ORDER})"
    refused = refusal(*arrays, types=(mx.float32,))
    return refused or grid_refusal(-(-arrays[0].shape[0] // THREADS), THREADS)


def bessel_basis(spec: BesselSpec, kind: str, order: int, arrays: Sequence[mx.array]) -> mx.array:
    """A map of the functions, see `mlpot.kernels.bessel_basis`.

    Args:
        spec: the functions.
        kind: "out" or "adjoint".
        order: of the derivative, at most 3.
        arrays: distances (n_edges,), for an adjoint g (n_edges, n), and the directions (n_edges,).
    """
    n = arrays[0].shape[0]
    shape = (n, spec.n) if kind == "out" else (n,)
    (out,) = _kernel(spec, kind, order)(
        list(arrays), [shape], [mx.float32], blocks=-(-n // THREADS), threads=THREADS
    )
    return out
