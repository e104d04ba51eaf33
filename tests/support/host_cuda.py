"""Runs a CUDA kernel on the CPU, thread after thread, with arrays that begin wherever one likes.

For kernels without barriers and shuffles: one warp's lanes do not meet. Vectors that are read or
written at an address that they do not suit are counted; a GPU would stop there.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msl_emulator.toolchain import tools

from mlpot.kernels.gpu.cuda_text import KernelText

_BEFORE = """
typedef unsigned long size_t;
#define __global__
#define __device__
#define __constant__ static const
struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;
struct uint2 { unsigned x, y; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
static float2 make_float2(float a, float b) { return {a, b}; }
static float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
static int misaligned = 0;
template <class T> T checked(const T* p) {
  if ((size_t)p % sizeof(T)) ++misaligned;
  return *p;
}
template <class T> T __ldg(const T* p) { return checked(p); }
template <class T> T __ldcs(const T* p) { return checked(p); }
template <class T> void __stcs(T* p, T value) { checked(p); *p = value; }
static float __shfl_xor_sync(unsigned, float, int) { __builtin_trap(); }
"""


class HostKernel:
    """A kernel made for the CPU.

    Args:
        text: of the kernel.
        folder: for the library.
    """

    def __init__(self, text: KernelText, folder: Path) -> None:
        self.text = text
        listed = re.search(rf"void {text.name}\((.*?)\) {{", text.text, re.DOTALL)
        assert listed
        self._types = [p.strip().rsplit(" ", 1)[0] for p in listed[1].split(",")]
        call = ", ".join(f"*({kind}*)arguments[{i}]" for i, kind in enumerate(self._types))
        runner = f"""
extern "C" int run(void** arguments, unsigned blocks, unsigned threads) {{
  misaligned = 0;
  gridDim = {{blocks, 1, 1}}; blockDim = {{threads, 1, 1}};
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned thread = 0; thread < threads; ++thread) {{
      blockIdx = {{block, 0, 0}}; threadIdx = {{thread, 0, 0}};
      {text.name}({call});
    }}
  return misaligned;
}}
"""
        source, library = folder / f"{text.name}.cpp", folder / f"{text.name}.so"
        source.write_text(_BEFORE + text.text + runner)
        flags = ("-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-fno-strict-aliasing")
        done = subprocess.run(
            [tools()[0], *flags, str(source), "-o", str(library)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[:2000]
        self._run = ctypes.CDLL(str(library)).run

    def __call__(
        self,
        inputs: Sequence[np.ndarray],
        starts: Sequence[int],
        output: tuple[int, ...],
        blocks: int,
        threads: int,
    ) -> tuple[np.ndarray, int]:
        """Run it.

        Args:
            inputs: arrays of 32-bit numbers.
            starts: how many elements past a multiple of 64 bytes each begins.
            output: shape of the only output, float32.
            blocks, threads: along x.

        Returns:
            The output, and how many vectors were read or written where they cannot be.
        """
        placed = [_placed(array, start) for array, start in zip(inputs, starts, strict=True)]
        found = _placed(np.full(output, np.nan, np.float32), 0)
        sizes = [inputs[number].shape[axis] for number, axis in self.text.sizes]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*placed, found)]
        values = [*pointers, *map(ctypes.c_int, sizes)]
        assert len(values) == len(self._types)
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        return found, self._run(arguments, blocks, threads)


def _placed(array: np.ndarray, start: int) -> np.ndarray:
    room = np.zeros(array.nbytes + 128 + 4 * start, np.uint8)
    at = -room.ctypes.data % 64 + 4 * start
    found = room[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found
