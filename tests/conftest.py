"""Set-up of all tests: annotations of shapes and types are checked while they run."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import tempfile

# Set before MLX starts. Workers that run side by side share neither cores nor MLX's compile cache,
# which has no lock.
os.environ.setdefault("MPLBACKEND", "Agg")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("MLPOT_NUM_THREADS", "1")
    tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="mlpot-tests-")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)

import hypothesis
import numpy as np
import pytest
from jaxtyping import install_import_hook
from seeds import VARIABLE, fix, seed_of  # pyright: ignore[reportMissingImports]

# Every function of the package then checks its jaxtyping annotations, such as
# Float[mx.array, "n_atoms 3"], at each call.
install_import_hook("mlpot", "annotation_check.check")

# The same examples at every run, however slow the machine is.
hypothesis.settings.register_profile(
    "mlpot", derandomize=True, deadline=None, database=None, max_examples=50
)
hypothesis.settings.load_profile("mlpot")


def pytest_report_header():
    return f"{VARIABLE}={fix()}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Before fixtures: what a test draws, weights of models too, does not depend on other tests."""
    import mlx.core as mx  # not before the variables above

    seed = seed_of(item.nodeid.split("::")[0])
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002, what ASE draws from
    mx.random.seed(seed)


@pytest.fixture
def unmeasured_kernels(monkeypatch):
    """Kernels that no Mac has run yet are taken; what is not emulated runs on the CPU."""
    import mlx.core as mx  # not before the variables above

    monkeypatch.setenv("MLPOT_UNMEASURED_KERNELS", "1")
    with mx.stream(mx.cpu):
        yield
