"""One kernel text for Metal and CUDA: a body written in neutral words, translated to either.

How to write a kernel::

    from mlpot.kernels.gpu import GeneratedKernel, literal

    scaled_sum = GeneratedKernel(
        "scaled_sum",
        inputs=["x", "ptr"],                       # names in the body, in order
        outputs=["out"],
        body=f\"\"\"
            SHARED float part[4];
            const int row = BLOCK_X;               // one block of 128 threads a segment
            float sum = 0.0f;
            for (INDEX i = ptr[row] + THREAD_X; i < ptr[row + 1]; i += THREADS_X)
                sum += LOAD(x, i);
            sum = SIMD_SUM(sum * {literal(0.5)});
            if (LANE == 0) part[WARP] = sum;
            BARRIER();
            if (THREAD_X == 0) out[row] = part[0] + part[1] + part[2] + part[3];
        \"\"\",
    )
    (out,) = scaled_sum(
        [x, ptr], shapes=[(n_rows,)], dtypes=[mx.float32], blocks=n_rows, threads=128
    )

MLX writes the signature: inputs are ``const T*``, outputs ``T*``, T as the arrays' types.

Words
-----
``THREAD_X`` ``BLOCK_X`` ``GLOBAL_X``
    thread in its block, block in the grid, thread in the grid (also _Y, _Z); int
``THREADS_X`` ``BLOCKS_X``
    threads of a block, blocks of the grid (also _Y, _Z); int
``LANE`` ``WARP``
    thread in its group of 32, group in the block (threads counted x first); int
``SHARED float a[64];``
    memory of a block, floats or ints, all together at most ``MAX_SHARED_BYTES``; each on a line of
    its own
``BARRIER()`` ``SIMD_BARRIER()``
    every thread of the block (of the group of 32) waits; orders SHARED memory only
``SIMD_SUM(v)`` ``SHUFFLE(v, lane)`` ``SHUFFLE_XOR(v, mask)`` ``SHUFFLE_DOWN(v, n)``
    among 32 threads, all of which must take part; the lane read from must exist
``LOAD(x, i)``
    element of an input, through the read-only cache where there is one
``VECTOR_WORDS``
    first in a header: gives the words of ``mlpot.kernels.gpu.vectors`` (READ4, WRITE4, ...)
``FUNCTION float f(float a) {...}`` ``CONSTANT float t[3] = {...};``
    a helper function, a table (both in the header)
``EXP`` ``LOG`` ``SQRT`` ``RSQRT`` ``SIN`` ``COS`` ``TANH`` ``FMA`` ``FABS`` ``FMIN`` ``FMAX``
``FLOOR``
    float32 functions, accurate ones
``NOT_A_NUMBER``
    float
``FLOAT16`` ``BFLOAT16``
    number types of storage; write ``float(x[i])`` and ``BFLOAT16(value)``: no arithmetic in them
``INDEX``
    int, or 64 bits wide when an array of the call has 2^31 elements or more: use it for offsets

Rules that hold for both
------------------------
- Every literal has its suffix: ``literal(1/3)`` gives ``3.333333433e-01f``. There is no ``double``.
- The grid is whole blocks, so the last block has threads too many: compare with the size before
  a load or store, and never return before a BARRIER or a SIMD word (the others would wait).
- Sizes: ``x_shape[0]`` is there for every input of at least one dimension. Other numbers that
  vary from call to call go in as one-element arrays, ``n[0]`` (never 0-dimensional: a reference in
  Metal, a pointer in CUDA); numbers that seldom vary are written into the text.
- Index arrays directly (``x[i]``). No pointers to them: in Metal an input of fewer than 8 elements
  lies in another address space than a larger one. Arrays are row-contiguous.
- Metal has more keywords: no variable is called ``thread``, ``device``, ``constant``, ``kernel``,
  ``half``, ``vec`` or as one of its functions (``fract``, ``step``, ``mix``, ...).
- No thread ids in the header: Metal hands them to the kernel only.
- No atomics: every result is summed in a fixed order, so two runs give the same bits.
- Device memory is not ordered by BARRIER: no thread reads what another has written there.
"""

from __future__ import annotations

import re
from typing import Literal

import mlx.core as mx

from .vectors import VECTOR_WORDS

Dialect = Literal["metal", "cuda"]

DIALECTS: tuple[Dialect, ...] = ("metal", "cuda")

#: Threads of a group that SIMD words act on.
SIMD_WIDTH = 32
#: Most threads of a block. A compiler may give a thread 255 registers, and a block has 65,536.
MAX_THREADS = 256
#: Most bytes of SHARED memory of a block (Metal's limit; CUDA's is larger).
MAX_SHARED_BYTES = 32768
#: Types of arrays, and the word for each in a body.
WORD_OF_TYPE = {mx.float32: "float", mx.float16: "FLOAT16", mx.bfloat16: "BFLOAT16"}

_LINEAR_THREAD = "(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))"

_FUNCTIONS = ("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh")
_METAL_PLAIN = ("fma", "fabs", "fmin", "fmax", "floor")


def _thread_ids() -> dict[Dialect, dict[str, str]]:
    metal = {
        "LANE": "int(thread_index_in_simdgroup)",
        "WARP": "int(simdgroup_index_in_threadgroup)",
    }
    cuda = {
        "LANE": f"int({_LINEAR_THREAD} % 32u)",
        "WARP": f"int({_LINEAR_THREAD} / 32u)",
    }
    for axis in "xyz":
        for word, metal_name, cuda_name in (
            ("THREAD", "thread_position_in_threadgroup", "threadIdx"),
            ("BLOCK", "threadgroup_position_in_grid", "blockIdx"),
            ("THREADS", "threads_per_threadgroup", "blockDim"),
            ("BLOCKS", "threadgroups_per_grid", "gridDim"),
        ):
            metal[f"{word}_{axis.upper()}"] = f"int({metal_name}.{axis})"
            cuda[f"{word}_{axis.upper()}"] = f"int({cuda_name}.{axis})"
        metal[f"GLOBAL_{axis.upper()}"] = f"int(thread_position_in_grid.{axis})"
        cuda[f"GLOBAL_{axis.upper()}"] = (
            f"int(blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis})"
        )
    return {"metal": metal, "cuda": cuda}


_THREAD_IDS = _thread_ids()

_WORDS: dict[Dialect, dict[str, str]] = {
    "metal": {
        "SHARED": "threadgroup",
        "CONSTANT": "constant",
        "FUNCTION": "inline",
        "NOT_A_NUMBER": "NAN",
        "FLOAT16": "half",
        "BFLOAT16": "bfloat16_t",
        "SIMD_SUM": "simd_sum",
        "SHUFFLE": "simd_shuffle",
        "SHUFFLE_XOR": "simd_shuffle_xor",
        "SHUFFLE_DOWN": "simd_shuffle_down",
        **{name.upper(): f"metal::precise::{name}" for name in _FUNCTIONS},
        **{name.upper(): f"metal::{name}" for name in _METAL_PLAIN},
        "VECTOR_WORDS": VECTOR_WORDS["metal"],
    },
    "cuda": {
        "SHARED": "__shared__",
        "CONSTANT": "__constant__",
        "FUNCTION": "__device__ inline",
        "NOT_A_NUMBER": "__int_as_float(0x7fc00000)",
        "FLOAT16": "__half",
        "BFLOAT16": "__nv_bfloat16",
        "SIMD_SUM": "mlpot_simd_sum",
        "SHUFFLE": "mlpot_shuffle",
        "SHUFFLE_XOR": "mlpot_shuffle_xor",
        "SHUFFLE_DOWN": "mlpot_shuffle_down",
        **{name.upper(): f"{name}f" for name in (*_FUNCTIONS, *_METAL_PLAIN)},
        "VECTOR_WORDS": VECTOR_WORDS["cuda"],
    },
}

# Before every kernel. The mask of the shuffles means that all 32 threads take part.
_PRELUDE: dict[Dialect, str] = {
    "metal": """\
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define SIMD_BARRIER() simdgroup_barrier(mem_flags::mem_threadgroup)
#define LOAD(array, i) ((array)[i])
""",
    "cuda": """\
#define BARRIER() __syncthreads()
#define SIMD_BARRIER() __syncwarp()
#define LOAD(array, i) __ldg(&(array)[i])
#define mlpot_shuffle(v, lane) __shfl_sync(0xffffffffu, v, lane)
#define mlpot_shuffle_xor(v, mask) __shfl_xor_sync(0xffffffffu, v, mask)
#define mlpot_shuffle_down(v, n) __shfl_down_sync(0xffffffffu, v, n)
#ifndef MLPOT_SIMD_SUM
#define MLPOT_SIMD_SUM
__device__ inline float mlpot_simd_sum(float v) {
  for (int mask = 16; mask; mask >>= 1) v += __shfl_xor_sync(0xffffffffu, v, mask);
  return v;
}
#endif
""",
}


def translate_body(body: str, dialect: Dialect, wide: bool = False) -> str:
    """The body of a kernel in one dialect.

    Args:
        body: text in the words of this module.
        dialect: "metal" or "cuda".
        wide: INDEX has 64 bits.
    """
    return _replace(body, {**_WORDS[dialect], **_THREAD_IDS[dialect], **_index(wide)})


def translate_header(header: str, dialect: Dialect, wide: bool = False) -> str:
    """What stands before a kernel in one dialect: the prelude and the kernel's own helpers.

    Raises:
        ValueError: the header names a thread id, which only a body has.
    """
    for word in _THREAD_IDS[dialect]:
        if re.search(rf"\b{word}\b", header):
            raise ValueError(f"the header of a kernel names {word}; pass it to the function")
    return _PRELUDE[dialect] + _replace(header, {**_WORDS[dialect], **_index(wide)})


def _index(wide: bool) -> dict[str, str]:
    return {"INDEX": "int64_t" if wide else "int"}


def _replace(text: str, words: dict[str, str]) -> str:
    return re.sub(r"\b[A-Z][A-Z0-9_]*\b", lambda match: words.get(match[0], match[0]), text)


def shared_bytes(body: str) -> int:
    """Bytes of SHARED memory that a block of a kernel has, all its elements being of four bytes."""
    return sum(4 * int(size) for size in re.findall(r"\bSHARED \w+ \w+\[(\d+)\];", body))


def literal(value: float) -> str:
    """A float32 literal that both dialects read, in brackets if negative."""
    text = f"{float(value):.9e}f"
    return f"({text})" if text.startswith("-") else text
