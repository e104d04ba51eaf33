"""Text of kernels for matrices of nine numbers, in the words of `mlpot.kernels.gpu.dialect`."""

from __future__ import annotations

#: Helpers, for the header of a kernel that uses `inverse`.
HELPERS = """
FUNCTION float cofactor(float a, float b, float c, float d) { return a * d - b * c; }
"""


def inverse(out: str, rows: str) -> str:
    """Declare the inverse of an array of nine numbers, by cofactors."""
    lines = [f"float {out}[9];"]
    for r in range(3):
        for c in range(3):
            # Element (r, c) of the inverse is the cofactor of (c, r).
            i, j = (c + 1) % 3, (c + 2) % 3
            k, m = (r + 1) % 3, (r + 2) % 3
            parts = [f"{rows}[{3 * a + b}]" for a, b in ((i, k), (i, m), (j, k), (j, m))]
            lines.append(f"{out}[{3 * r + c}] = cofactor({', '.join(parts)});")
    lines.append(
        f"const float {out}_det = {rows}[0] * {out}[0] + {rows}[1] * {out}[3] "
        f"+ {rows}[2] * {out}[6];"
    )
    lines.append(f"for (int k = 0; k < 9; ++k) {out}[k] /= {out}_det;")
    return "\n".join(lines) + "\n"


def product(out: str, a: str, b: str) -> str:
    """Declare the product of two arrays of nine numbers."""
    return f"""
float {out}[9];
for (int r = 0; r < 3; ++r) for (int c = 0; c < 3; ++c) {{
    float sum = 0.0f;
    for (int k = 0; k < 3; ++k) sum += {a}[3 * r + k] * {b}[3 * k + c];
    {out}[3 * r + c] = sum;
}}
"""
