"""Freed memory is kept by the process, so that the next large array costs no page faults."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, mlpot, mlx.core as mx
mx.set_default_device(mx.cpu)
a = mx.ones((12_000_000,)) + 1
mx.eval(a, a + a, a + a)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    mx.eval(a + a)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES_OF_ONE_ARRAY = 12_000_000 * 4 // os.sysconf("SC_PAGESIZE")


def page_faults(**env: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return int(done.stdout)


@pytest.mark.parametrize("kept", [True, False])
def test_large_arrays_reuse_memory_unless_switched_off(kept):
    faults = page_faults(MLPOT_MALLOC="1" if kept else "0")
    glibc = platform.libc_ver()[0] == "glibc"
    if kept:
        assert faults < PAGES_OF_ONE_ARRAY
    else:
        assert faults > 2 * PAGES_OF_ONE_ARRAY or not glibc
