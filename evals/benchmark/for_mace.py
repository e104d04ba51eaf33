"""Energy and forces of MACE on torch, with and without cuEquivariance: a network of like size."""

from __future__ import annotations

import os
import warnings
from importlib.metadata import version

import numpy as np

warnings.filterwarnings("ignore")

import mace  # noqa: E402, F401
import torch  # noqa: E402
from e3nn import o3  # noqa: E402
from mace import modules  # noqa: E402
from mace.cli.convert_e3nn_cueq import run as with_cuequivariance  # noqa: E402

from . import model_settings, torch_worker  # noqa: E402
from .cases import Case  # noqa: E402
from .jobs import Job  # noqa: E402
from .torch_worker import paths, peak, release  # noqa: E402, F401


def start(name: str) -> dict[str, str]:
    """Set threads; versions."""
    found = {f"{name}'s torch": torch_worker.start(), name: version("mace-torch")}
    if name.endswith("cuequivariance"):
        import cuequivariance_ops_torch  # noqa: F401
        import cuequivariance_torch  # noqa: F401

        os.environ["BENCHMARK_CUEQUIVARIANCE"] = "1"
        found |= {f"{name}'s cuequivariance": version("cuequivariance-torch")}
    return found


def prepare(case: Case, phase: str, arrays: dict[str, np.ndarray], compiled: bool) -> Job:
    """The job of a case."""
    assert phase == "forces" and not compiled
    s, device, n = case.settings, torch_worker.device(), len(arrays["positions"])
    torch.manual_seed(0)
    block = modules.interaction_classes["RealAgnosticResidualInteractionBlock"]
    model = modules.ScaleShiftMACE(
        r_max=float(arrays["cutoff"]),
        num_bessel=10,
        num_polynomial_cutoff=6,
        max_ell=s["lmax"],
        interaction_cls=block,
        interaction_cls_first=block,
        num_interactions=s["layers"],
        num_elements=1,
        hidden_irreps=o3.Irreps([(s["mul"], (l, (-1) ** l)) for l in range(s["lmax"] + 1)]),
        MLP_irreps=o3.Irreps("16x0e"),
        atomic_energies=np.zeros(1),
        avg_num_neighbors=model_settings.num_neighbors(case),
        atomic_numbers=[6],
        correlation=3,
        gate=torch.nn.functional.silu,
        radial_MLP=[64, 64, 64],
        atomic_inter_scale=1.0,
        atomic_inter_shift=0.0,
    )
    if "BENCHMARK_CUEQUIVARIANCE" in os.environ:
        model = with_cuequivariance(model, device=str(device), return_model=True)
    model = model.to(device)
    edges = np.stack([arrays["senders"], arrays["receivers"]])
    data = {
        "positions": torch.tensor(arrays["positions"], device=device, requires_grad=True),
        "node_attrs": torch.ones(n, 1, device=device),
        "edge_index": torch.tensor(edges, device=device).long(),
        "shifts": torch.zeros(edges.shape[1], 3, device=device),
        "unit_shifts": torch.zeros(edges.shape[1], 3, device=device),
        "cell": torch.zeros(3, 3, device=device),
        "batch": torch.zeros(n, dtype=torch.long, device=device),
        "ptr": torch.tensor([0, n], device=device),
        "head": torch.zeros(1, dtype=torch.long, device=device),
    }

    def energy_and_forces() -> dict[str, torch.Tensor]:
        found = model(data, compute_force=True)
        return {"energy": found["energy"], "forces": found["forces"]}

    return torch_worker.job(energy_and_forces)
