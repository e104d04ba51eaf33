"""Runs and checks Metal kernels on Linux, without a Mac.

A kernel's text is put together exactly as MLX does it, compiled with clang against a small stand-in
for ``<metal_stdlib>``, and run with one fibre for each GPU thread and simdgroups of 32 lanes.

Found are: what Metal's compiler would refuse (address spaces, ``double``, ``std``, ambiguous
calls), reads and writes out of range, elements never written, barriers that not every thread
reaches, missing barriers, data races, simdgroup operations in divergent code, too much threadgroup
memory, signed overflow and values that were never set.

Not seen: what only Apple's compiler does (its fast-math, its C++14 rules in full), and speed.

Needs clang 16 or newer with its sanitizers; on Debian:
``apt-get install clang-16 libclang-rt-16-dev llvm-16``.
"""

from .errors import EmulationError
from .kernel import Launch, MetalKernel
from .toolchain import INSTALL_COMMAND

__all__ = ["INSTALL_COMMAND", "EmulationError", "Launch", "MetalKernel"]
