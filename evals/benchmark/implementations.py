"""What is compared: names, the adapters that run them, and which cases they take."""

from __future__ import annotations

from dataclasses import dataclass

from .cases import Case

OPERATIONS = (
    "spherical_harmonics",
    "weighted_tensor_product_uvu",
    "scatter_sum",
    "full_tensor_product",
    "fully_connected_tensor_product",
    "matrix_product",
    "linear",
)


@dataclass(frozen=True)
class Implementation:
    """One column of the comparison.

    Args:
        name: as in the report.
        adapter: module that builds its jobs.
        python: "mlpot", "torch", or the name of a peer's own Python.
        cases: those that it takes; None: all.
        phases: those that it takes; None: all.
        compiled: whether `mx.compile` is applied.
        environment: variables of its process.
        same_function: False for models that compute something else, of like size.
        tolerances: by case, where the function is known to differ a little.
        devices: where it runs.
    """

    name: str
    adapter: str
    python: str
    cases: tuple[str, ...] | None = None
    phases: tuple[str, ...] | None = None
    compiled: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    same_function: bool = True
    tolerances: tuple[tuple[str, float], ...] = ()
    devices: tuple[str, ...] = ("cpu", "gpu")

    def takes(self, case: Case, phase: str, device: str) -> bool:
        """Whether it computes this."""
        return (
            device in self.devices
            and (self.cases is None or case.name in self.cases)
            and (self.phases is None or phase in self.phases)
        )


_REFERENCE = (("MLPOT_KERNELS", "reference"),)
_KERNELS = (("MLPOT_KERNELS", "auto"),)
_MODELS = ("gate_points_2102", "v2106_simple_network", "v2106_attributed_network")

_ALL = (
    Implementation("e3nn", "for_e3nn", "torch"),
    Implementation("mlpot-reference", "for_mlpot", "mlpot", environment=_REFERENCE),
    # Compiling a whole model in plain operations takes minutes, on CPUs and GPUs.
    Implementation(
        "mlpot-reference-compiled", "for_mlpot", "mlpot", cases=OPERATIONS, compiled=True,
        environment=_REFERENCE,
    ),
    Implementation("mlpot-kernels", "for_mlpot", "mlpot", environment=_KERNELS),
    # Radial networks at each edge in place of their tables.
    Implementation(
        "mlpot-kernels-exact", "for_mlpot", "mlpot", cases=("potential",),
        environment=(*_KERNELS, ("BENCHMARK_RADIAL", "exact")), devices=("cpu",),
    ),
    # The record of operations that calculators and dynamics replay; nothing is fused.
    Implementation(
        "mlpot-kernels-compiled", "for_mlpot", "mlpot", compiled=True, environment=_KERNELS,
        phases=("forward", "train", "forces", "force-train", "hvp"),
    ),
    Implementation(
        "cuequivariance", "for_cuequivariance", "torch", cases=("convolution",), devices=("gpu",),
    ),
    Implementation(
        "e3nn-mlx", "for_e3nn_mlx", "e3nn-mlx", cases=OPERATIONS + _MODELS[1:2],
        phases=("forward", "train", "forces"),
        # Its activations have exact constants, e3nn's come from random samples: up to 1 % apart.
        tolerances=(("v2106_simple_network", 5e-2),),
    ),
    Implementation(
        "nequip", "for_nequip", "nequip", cases=("potential",), phases=("forces",),
        same_function=False,
    ),
    Implementation(
        "mace", "for_mace", "mace", cases=("potential",), phases=("forces",), same_function=False,
    ),
    Implementation(
        "mace-cuequivariance", "for_mace", "mace", cases=("potential",), phases=("forces",),
        same_function=False, devices=("gpu",),
    ),
)  # fmt: skip

IMPLEMENTATIONS = {i.name: i for i in _ALL}
