"""Energy and forces of NequIP on torch: a network of like size, not the same function."""

from __future__ import annotations

import warnings
from importlib.metadata import version

import numpy as np

warnings.filterwarnings("ignore")

import nequip  # noqa: E402, F401
import torch  # noqa: E402
from nequip.model import NequIPGNNModel  # noqa: E402
from nequip.utils.global_state import set_global_state  # noqa: E402

from . import model_settings, torch_worker  # noqa: E402
from .cases import Case  # noqa: E402
from .jobs import Job  # noqa: E402
from .torch_worker import paths, peak, release  # noqa: E402, F401


def start(name: str) -> dict[str, str]:
    """Set threads; versions."""
    set_global_state()
    return {f"{name}'s torch": torch_worker.start(), name: version("nequip")}


def prepare(case: Case, phase: str, arrays: dict[str, np.ndarray], compiled: bool) -> Job:
    """The job of a case."""
    assert phase == "forces" and not compiled
    s, device, n = case.settings, torch_worker.device(), len(arrays["positions"])
    model = NequIPGNNModel(
        seed=0,
        model_dtype="float32",
        r_max=float(arrays["cutoff"]),
        type_names=["C"],
        num_layers=s["layers"] + 1,
        l_max=s["lmax"],
        parity=True,
        num_features=s["mul"],
        radial_mlp_depth=1,
        radial_mlp_width=100,
        num_bessels=10,
        avg_num_neighbors=model_settings.num_neighbors(case),
    ).to(device)
    # NequIP's first index of an edge is the centre.
    edges = np.stack([arrays["receivers"], arrays["senders"]])
    data = {
        "pos": torch.tensor(arrays["positions"], device=device),
        "edge_index": torch.tensor(edges, device=device).long(),
        "atom_types": torch.zeros(n, dtype=torch.long, device=device),
        "batch": torch.zeros(n, dtype=torch.long, device=device),
        "num_atoms": torch.tensor([n], device=device),
    }

    def energy_and_forces() -> dict[str, torch.Tensor]:
        found = model(dict(data))
        return {"energy": found["total_energy"], "forces": found["forces"]}

    return torch_worker.job(energy_and_forces)
