"""Random numbers of tests: the same at every run, others with MLPOT_TEST_SEED=1 or =fresh."""

from __future__ import annotations

import os
import secrets
import zlib

import numpy as np

VARIABLE = "MLPOT_TEST_SEED"


def fix() -> str:
    """The seed of this run, which processes that it starts find in the environment."""
    if os.environ.setdefault(VARIABLE, "0") == "fresh":
        os.environ[VARIABLE] = str(secrets.randbelow(2**31))
    return os.environ[VARIABLE]


def seed_of(test_file: str) -> int:
    """Of all tests of a file, however they are spread over processes."""
    return (zlib.crc32(test_file.encode()) + int(fix())) % 2**32


def generator() -> np.random.Generator:
    """A new generator for the test that runs now."""
    return np.random.default_rng(seed_of(os.environ["PYTEST_CURRENT_TEST"].split("::")[0]))
