"""e3nn's models on given edges (its networks make an n x n graph), and what phases ask of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from e3nn import o3
from e3nn.math import soft_one_hot_linspace
from e3nn.nn.models import gate_points_2102
from e3nn.nn.models.v2106 import gate_points_networks
from e3nn.nn.models.v2106.gate_points_message_passing import MessagePassing

from . import model_settings
from .cases import MD_STEPS, Case
from .model_settings import TIME_STEP
from .random_numbers import weights

Phase = Callable[[], dict[str, torch.Tensor]]


class Model:
    """A model as one number per atom from positions.

    Args:
        module: holds the weights.
        nodes: (n_atoms, 1) outputs from positions.
        case, arrays: what the numbers belong to.
    """

    def __init__(self, module: torch.nn.Module, case: Case, arrays: dict[str, torch.Tensor]):
        self.module = module.to(arrays["positions"].device)
        self.arrays = arrays
        self.named = {k: p for k, p in module.named_parameters() if p.numel()}
        drawn = weights(case.seed, {k: p.numel() for k, p in self.named.items()})
        with torch.no_grad():
            for name, parameter in self.named.items():
                parameter.copy_(torch.tensor(drawn[name]).reshape(parameter.shape))

    def vectors(self, positions: torch.Tensor) -> torch.Tensor:
        """Edge vectors, from receiver to sender."""
        return positions[self.arrays["senders"]] - positions[self.arrays["receivers"]]

    def nodes(self, positions: torch.Tensor) -> torch.Tensor:
        """Outputs of the atoms."""
        raise NotImplementedError

    def energy_and_forces(self, positions, create_graph: bool = False):
        """Sum of the outputs, and minus its gradient."""
        r = positions.detach().requires_grad_()
        energy = self.nodes(r).sum()
        (gradient,) = torch.autograd.grad(energy, r, create_graph=create_graph)
        return energy, -gradient

    def phase(self, name: str) -> Phase:
        """The function of a phase."""
        trained = name in ("train", "force-train")
        for parameter in self.module.parameters():
            parameter.requires_grad_(trained)
        return {
            "forward": self._forward,
            "forces": self._forces,
            "cold": self._forces,
            "hvp": self._hvp,
            "train": self._train,
            "force-train": self._force_train,
            "md": self._molecular_dynamics,
        }[name]

    def _forward(self) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            return {"out": self.nodes(self.arrays["positions"])}

    def _forces(self) -> dict[str, torch.Tensor]:
        energy, forces = self.energy_and_forces(self.arrays["positions"])
        return {"energy": energy, "forces": forces}

    def _hvp(self) -> dict[str, torch.Tensor]:
        r = self.arrays["positions"].detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.nodes(r).sum(), r, create_graph=True)
        return {"hvp": torch.autograd.grad(gradient, r, self.arrays["direction"])[0]}

    def _train(self) -> dict[str, torch.Tensor]:
        found = self.nodes(self.arrays["positions"])
        return self._gradient(torch.mean((found - self.arrays["targets"]) ** 2))

    def _force_train(self) -> dict[str, torch.Tensor]:
        energy, forces = self.energy_and_forces(self.arrays["positions"], create_graph=True)
        wanted = self.arrays["forces"]
        return self._gradient((energy / len(wanted)) ** 2 + torch.mean((forces - wanted) ** 2))

    def _gradient(self, loss: torch.Tensor) -> dict[str, torch.Tensor]:
        found = torch.autograd.grad(loss, list(self.named.values()), allow_unused=True)
        return {"loss": loss} | {
            name: torch.zeros_like(p) if g is None else g
            for (name, p), g in zip(self.named.items(), found, strict=True)
        }

    def _molecular_dynamics(self) -> dict[str, torch.Tensor]:
        # From rest, so that the velocities show nothing but the forces.
        r, v = self.arrays["positions"], torch.zeros_like(self.arrays["positions"])
        forces = self.energy_and_forces(r)[1]
        for _ in range(MD_STEPS):
            v = v + 0.5 * TIME_STEP * forces
            r = r + TIME_STEP * v
            forces = self.energy_and_forces(r)[1]
            v = v + 0.5 * TIME_STEP * forces
        return {"velocities": v}


def smooth_finite(vectors: torch.Tensor, cutoff: float) -> torch.Tensor:
    """Radial basis of v2106."""
    basis = soft_one_hot_linspace(
        vectors.norm(dim=1), 0.0, cutoff, 10, basis="smooth_finite", cutoff=True
    )
    return basis * 10**0.5


class V2106(Model):
    """SimpleNetwork and NetworkForAGraphWithAttributes without their search for neighbours."""

    def __init__(self, case: Case, arrays: dict[str, torch.Tensor], factory) -> None:
        network = factory(**model_settings.arguments(case, arrays))
        super().__init__(network, case, arrays)
        self.network, self.cutoff = network, float(arrays["cutoff"])
        self.degrees = list(range(case.settings["lmax"] + 1))
        self.ones = torch.ones_like(arrays["positions"][:, :1])

    def nodes(self, positions: torch.Tensor) -> torch.Tensor:
        a, v = self.arrays, self.vectors(positions)
        y = o3.spherical_harmonics(self.degrees, v, True, normalization="component")
        if "edge_attr" in a:
            y = torch.cat([a["edge_attr"], y], dim=1)
        return self.network.mp(
            self.ones, a.get("node_attr", self.ones), a["senders"], a["receivers"], y,
            smooth_finite(v, self.cutoff),
        )  # fmt: skip


class GatePoints(Model):
    """Network of gate_points 2102 without its search for neighbours."""

    def __init__(self, case: Case, arrays: dict[str, torch.Tensor]) -> None:
        settings = model_settings.arguments(case, arrays)
        network = gate_points_2102.Network(**settings)
        super().__init__(network, case, arrays)
        self.network, self.cutoff = network, float(arrays["cutoff"])
        self.irreps = o3.Irreps(settings["irreps_edge_attr"])
        self.ones = torch.ones_like(arrays["positions"][:, :1])
        self.species = torch.ones(len(arrays["senders"]), 2, device=self.ones.device)

    def nodes(self, positions: torch.Tensor) -> torch.Tensor:
        v = self.vectors(positions)
        length = v.norm(dim=1)
        y = o3.spherical_harmonics(self.irreps, v, True, normalization="component")
        attributes = gate_points_2102.smooth_cutoff(length / self.cutoff)[:, None] * y
        basis = soft_one_hot_linspace(length, 0.0, self.cutoff, 10, basis="gaussian", cutoff=False)
        features = torch.cat([basis * 10**0.5, self.species], dim=1)
        x = self.ones
        for layer in self.network.layers:
            x = layer(
                x, self.ones, self.arrays["senders"], self.arrays["receivers"], attributes,
                features,
            )  # fmt: skip
        return x


class Embedded(torch.nn.Module):
    """What mlpot's v2106 potential computes: an embedding of the species before message passing."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        s = case.settings
        channels = f"{s['mul']}x0e"
        self.embedding = o3.Linear("1x0e", channels)
        self.mp = MessagePassing(
            [channels, *[model_settings.hidden(s)] * s["layers"], "1x0e"],
            "1x0e",
            model_settings.harmonics(s["lmax"]),
            [10, 100],
            model_settings.num_neighbors(case),
        )


class Potential(Model):
    """Energies above those of isolated atoms, which are computed once, before any clock runs."""

    def __init__(self, case: Case, arrays: dict[str, torch.Tensor]) -> None:
        network = Embedded(case)
        super().__init__(network, case, arrays)
        self.network, self.cutoff = network, float(arrays["cutoff"])
        self.degrees = list(range(case.settings["lmax"] + 1))
        self.ones = torch.ones_like(arrays["positions"][:, :1])

    def phase(self, name: str) -> Phase:
        found = super().phase(name)
        if not name.endswith("train"):
            with torch.no_grad():
                self.alone = self._isolated()
        return found

    def _isolated(self) -> torch.Tensor:
        # An edge whose radial basis is zero: e3nn refuses empty edge lists.
        one, zero = self.ones[:1], torch.zeros(1, dtype=torch.long, device=self.ones.device)
        y, basis = one.new_zeros(1, sum(2 * l + 1 for l in self.degrees)), one.new_zeros(1, 10)
        return self.network.mp(self.network.embedding(one), one, zero, zero, y, basis)

    def nodes(self, positions: torch.Tensor) -> torch.Tensor:
        v = self.vectors(positions)
        y = o3.spherical_harmonics(self.degrees, v, True, normalization="component")
        out = self.network.mp(
            self.network.embedding(self.ones), self.ones, self.arrays["senders"],
            self.arrays["receivers"], y, smooth_finite(v, self.cutoff),
        )  # fmt: skip
        trained = next(self.network.parameters()).requires_grad
        return out - (self._isolated() if trained else self.alone)


def build(case: Case, arrays: dict[str, torch.Tensor]) -> Model:
    """The model of a case with its weights."""
    if case.name == "gate_points_2102":
        return GatePoints(case, arrays)
    if case.name in ("potential", "cold_start"):
        return Potential(case, arrays)
    name = {
        "v2106_simple_network": "SimpleNetwork",
        "v2106_attributed_network": "NetworkForAGraphWithAttributes",
    }[case.name]
    return V2106(case, arrays, getattr(gate_points_networks, name))
