"""Reads and writes of several neighbouring elements at once, in either dialect.

For kernels whose header begins with the word ``VECTOR_WORDS``:
``READ4(a, b, c, d, array, i)`` sets four floats to ``array[i : i + 4]``, whatever type is stored;
``STREAM4`` does so for data that nobody reads again; ``WRITE4(T, array, i, a, b, c, d)`` stores as
type T. Likewise with 1 and 2. On NVIDIA GPUs i must be a multiple of the number of elements, and
the array has to begin at an address that suits the vector. Arrays that MLX allocates do, but an
input may be a part of another array (``x[1:].reshape(...)``), and Python cannot see where it
begins: inputs that are read so are named to `GeneratedKernel`, which then adds the same body with
single reads for such a call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Numbers of elements that there are words for.
WIDTHS = (1, 2, 4)


def read(names: Sequence[str], array: str, index: str, stream: bool = False) -> str:
    """Declare floats and set them to neighbouring elements."""
    word = "STREAM" if stream else "READ"
    return f"float {', '.join(names)}; {word}{len(names)}({', '.join(names)}, {array}, {index});"


def write(names: Sequence[str], array: str, index: str, word: str) -> str:
    """Store floats in neighbouring elements of type ``word``."""
    return f"WRITE{len(names)}({word}, {array}, {index}, {', '.join(names)});"


def for_any_start(body: str, arrays: Sequence[str]) -> str:
    """The CUDA body of a kernel whose inputs may begin anywhere: with vectors, and without.

    The check is made once, before all else, so that the loops of the usual case stay as they are.

    Args:
        body: reads vectors of ``arrays``.
        arrays: names of inputs.
    """
    single = re.sub(r"\b(?:READ|STREAM)([24])\(", r"SINGLE\1(", body)
    if single == body or not arrays:
        return body
    condition = " && ".join(f"ALIGNED({array})" for array in arrays)
    return f"if ({condition}) {{\n{body}\n}} else {{\n{single}\n}}\n"


def _cuda() -> str:
    lines = ["#ifndef MLPOT_VECTORS", "#define MLPOT_VECTORS"]
    for name, load in (("read", "__ldg"), ("stream", "__ldcs")):
        lines += [
            f"""\
__device__ inline float mlpot_{name}1(const float* p) {{ return {load}(p); }}
__device__ inline float2 mlpot_{name}2(const float* p) {{
  return {load}(reinterpret_cast<const float2*>(p));
}}
__device__ inline float4 mlpot_{name}4(const float* p) {{
  return {load}(reinterpret_cast<const float4*>(p));
}}"""
        ]
        lines.append("#ifndef MLPOT_FLOAT32_ONLY")
        for half, pair, convert in (
            ("__half", "__half2", "__half22float2"),
            ("__nv_bfloat16", "__nv_bfloat162", "__bfloat1622float2"),
        ):
            lines += [
                f"""\
__device__ inline float mlpot_{name}1(const {half}* p) {{ return float({load}(p)); }}
__device__ inline float2 mlpot_{name}2(const {half}* p) {{
  return {convert}({load}(reinterpret_cast<const {pair}*>(p)));
}}
__device__ inline float4 mlpot_{name}4(const {half}* p) {{
  union {{ uint2 bits; {pair} pairs[2]; }} u;
  u.bits = {load}(reinterpret_cast<const uint2*>(p));
  const float2 a = {convert}(u.pairs[0]), b = {convert}(u.pairs[1]);
  return make_float4(a.x, a.y, b.x, b.y);
}}"""
            ]
        lines.append("#endif")
    lines += [
        """\
__device__ inline void mlpot_write2(float* p, float a, float b) {
  __stcs(reinterpret_cast<float2*>(p), make_float2(a, b));
}
__device__ inline void mlpot_write4(float* p, float a, float b, float c, float d) {
  __stcs(reinterpret_cast<float4*>(p), make_float4(a, b, c, d));
}
template <class T> __device__ inline void mlpot_write2(T* p, float a, float b) {
  p[0] = T(a); p[1] = T(b);
}
template <class T>
__device__ inline void mlpot_write4(T* p, float a, float b, float c, float d) {
  union { uint2 bits; T values[4]; } u;
  u.values[0] = T(a); u.values[1] = T(b); u.values[2] = T(c); u.values[3] = T(d);
  *reinterpret_cast<uint2*>(p) = u.bits;
}
#endif"""
    ]
    for word, name in (("READ", "read"), ("STREAM", "stream")):
        lines += [
            f"#define {word}1(a, array, i) a = mlpot_{name}1(&(array)[i])",
            f"#define {word}2(a, b, array, i) "
            f"{{ const float2 t_ = mlpot_{name}2(&(array)[i]); a = t_.x; b = t_.y; }}",
            f"#define {word}4(a, b, c, d, array, i) {{ const float4 t_ = mlpot_{name}4("
            "&(array)[i]); a = t_.x; b = t_.y; c = t_.z; d = t_.w; }",
        ]
    lines += [
        "#define ALIGNED(array) ((reinterpret_cast<size_t>(array) & 15u) == 0u)",
        "#define SINGLE2(a, b, array, i) { READ1(a, array, i); READ1(b, array, (i) + 1); }",
        "#define SINGLE4(a, b, c, d, array, i) "
        "{ SINGLE2(a, b, array, i) SINGLE2(c, d, array, (i) + 2) }",
        "#define WRITE1(T, array, i, a) (array)[i] = T(a)",
        "#define WRITE2(T, array, i, a, b) mlpot_write2(&(array)[i], a, b)",
        "#define WRITE4(T, array, i, a, b, c, d) mlpot_write4(&(array)[i], a, b, c, d)",
    ]
    return "\n".join(lines)


def _metal() -> str:
    lines = []
    for n in WIDTHS:
        names = "abcd"[:n]
        arguments = ", ".join(names)
        reads = " ".join(f"{c} = float((array)[(i) + {k}]);" for k, c in enumerate(names))
        writes = " ".join(f"(array)[(i) + {k}] = T({c});" for k, c in enumerate(names))
        for word in ("READ", "STREAM"):
            lines.append(f"#define {word}{n}({arguments}, array, i) {{ {reads} }}")
        lines.append(f"#define WRITE{n}(T, array, i, {arguments}) {{ {writes} }}")
    return "\n".join(lines)


#: The words in each dialect; a header that names VECTOR_WORDS has them.
VECTOR_WORDS = {"cuda": _cuda() + "\n", "metal": _metal() + "\n"}
