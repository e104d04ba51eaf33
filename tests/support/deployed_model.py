"""What the page about imports needs of PyTorch, which no test imports: a deployed model."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np


class _Tensor:
    def __init__(self, values: np.ndarray):
        self._values = values

    def numpy(self) -> np.ndarray:
        return self._values


CONFIG = "r_max: 4.0\nmodel_dtype: float32\n"
WEIGHTS = {"model.layer0.weight": np.arange(6.0), "model.layer1.weight": np.eye(2)}


def torch_with_a_deployed_model() -> SimpleNamespace:
    """A module with `torch.jit.load` as deployed models need it: weights and a configuration."""

    def load(path: str, map_location: str, _extra_files: dict[str, str]) -> SimpleNamespace:
        assert path.endswith(".pth")
        assert map_location == "cpu"
        assert "config" in _extra_files
        _extra_files["config"] = CONFIG
        tensors = {name: _Tensor(values) for name, values in WEIGHTS.items()}
        return SimpleNamespace(state_dict=lambda: tensors)

    return SimpleNamespace(jit=SimpleNamespace(load=load))
