"""How far lists fall short, by kernels on an emulated GPU, against plain MLX in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import emulated_gpu

from mlpot import graph
from mlpot.kernels import gpu as gpu_kernels

pytestmark = [pytest.mark.emulated, pytest.mark.usefixtures("unmeasured_kernels")]

CUTOFF, SKIN = 3.0, 0.6


def excesses(step: float, strain: float, dtype=mx.float32, bad: float | None = None):
    """With and without cells, of a list and positions and cells that have changed since."""
    rng = np.random.default_rng(int(1e3 * step + 1e6 * strain))
    pbc = np.array([[True, True, True], [True, False, False], [False, False, False]])
    cells = np.array([np.diag([6.0, 7, 8]) + rng.uniform(-1, 1, (3, 3)) for _ in pbc])
    cells = np.where(pbc[:, :, None], cells, 0.0)
    owner = np.repeat([0, 1, 2], [5, 1, 7])
    positions = rng.uniform(0, 6, (13, 3))
    search = graph.HostPairs(np.ones(13), owner, pbc, CUTOFF, SKIN, dtype)

    def real(values) -> mx.array:
        return mx.array(np.asarray(values, np.float64).astype(np.float32), dtype=dtype)

    pairs, _ = search.build(real(positions), real(cells))
    grown = np.eye(3) + strain * rng.uniform(-1, 1, (3, 3, 3))
    moved = np.einsum("ni,nij->nj", positions, grown[owner])
    moved = moved + step * rng.uniform(-1, 1, (13, 3))
    if bad is not None:
        moved[4, 1] = bad
    strained = pairs.excess(real(moved), real(cells @ grown), real(pbc), CUTOFF, SKIN)
    return float(strained), float(pairs.excess_of_positions(real(moved), SKIN))


@pytest.mark.parametrize("strain", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("step", [0.0, 0.1, 0.5])
def test_excess_of_atoms_and_cells(step, strain):
    with emulated_gpu() as gpu:
        found = excesses(step, strain)
    assert gpu.kernels == ["list_excess_strained", "list_excess"]
    np.testing.assert_allclose(found, excesses(step, strain, mx.float64), atol=1e-5)


def test_measured_on_nvidia_only(monkeypatch):
    monkeypatch.delenv("MLPOT_UNMEASURED_KERNELS")
    monkeypatch.setattr("mlpot.kernels.gpu.refusals.running_dialect", lambda: "cuda")
    assert gpu_kernels.unmeasured() is None
    monkeypatch.setattr("mlpot.kernels.gpu.refusals.running_dialect", lambda: "metal")
    assert "Mac" in str(gpu_kernels.unmeasured())


def test_plain_mlx_until_a_mac_has_run_it(monkeypatch):
    monkeypatch.delenv("MLPOT_UNMEASURED_KERNELS")
    with emulated_gpu() as gpu:
        found = excesses(0.1, 0.01)
    assert not gpu.kernels
    np.testing.assert_allclose(found, excesses(0.1, 0.01, mx.float64), atol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_atoms_that_are_nowhere_never_pass(bad):
    with emulated_gpu():
        found = excesses(0.1, 0.0, bad=bad)
    assert min(found) > 1e3
