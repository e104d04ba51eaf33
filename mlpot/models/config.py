"""What a potential is made of, as strict configuration that is stored with the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from mlpot.config import StrictModel
from mlpot.elements import SYMBOLS

from .nequip_config import NequIPConfig
from .radial_strategy import RadialKey


class V2106Config(StrictModel):
    """Sizes of the v2106 backbone."""

    name: Literal["v2106"] = Field(default="v2106", description="which backbone")
    channels: int = Field(default=32, ge=1, description="channels of each hidden irrep")
    layers: int = Field(default=2, ge=1, description="gated convolutions")
    lmax: int = Field(
        default=2, ge=0, le=11, description="highest degree of features and harmonics"
    )
    number_of_basis: int = Field(default=10, ge=2, description="radial basis functions")
    radial_neurons: list[int] = Field(
        default=[100], description="hidden widths of the radial networks"
    )
    # Alpha multiplies features by themselves, so sizes grow from layer to layer with a power of it:
    # in a dense crystal 1 gives energies of 1e8 eV at the start, 0.03 forces of the order of 1.
    alpha_start: float = Field(
        default=0.03,
        ge=0,
        description="spread of the weights of alpha at the start (0: no forces at first)",
    )
    normalization: Literal["exact", "e3nn", "e3nn_jax"] = Field(
        default="exact", description="convention of the activations' constants"
    )
    radial: RadialKey = "auto"


class GatePointsConfig(StrictModel):
    """Sizes of the gate_points backbone."""

    name: Literal["gate_points"] = Field(default="gate_points", description="which backbone")
    channels: int = Field(default=32, ge=1, description="channels of each hidden irrep")
    layers: int = Field(default=2, ge=1, description="gated convolutions")
    lmax: int = Field(
        default=2, ge=0, le=11, description="highest degree of features and harmonics"
    )
    number_of_basis: int = Field(default=10, ge=2, description="radial basis functions")
    radial_neurons: list[int] = Field(
        default=[100], description="hidden widths of the radial networks"
    )
    normalization: Literal["exact", "e3nn", "e3nn_jax"] = Field(
        default="exact", description="convention of the activations' constants"
    )
    radial: RadialKey = "auto"


def _named(model: Any) -> Any:
    """Plain sizes without a name are those of v2106."""
    if isinstance(model, Mapping) and "name" not in model:
        return {"name": "v2106", **model}
    return model


BackboneConfig = V2106Config | GatePointsConfig | NequIPConfig

#: A backbone in a configuration: ``name`` chooses which (v2106 where it is left out).
NamedBackbone = Annotated[BackboneConfig, Field(discriminator="name"), BeforeValidator(_named)]


class PotentialConfig(StrictModel):
    """All that defines a potential except its weights."""

    numbers: list[int] = Field(description="atomic numbers of the species")
    cutoff: float = Field(gt=0, description="Angstrom")
    model: NamedBackbone = Field(default=V2106Config(), description="the backbone")
    E0s: dict[int, float] = Field(
        default={}, description="energy of the isolated atom, eV, by number"
    )
    scale: float = Field(default=1.0, gt=0, description="eV; RMS force of the training set")
    avg_num_neighbors: float = Field(default=10.0, gt=0, description="neighbours within the cutoff")
    zbl: bool = Field(default=True, description="screened nuclear repulsion at short range")

    @field_validator("numbers")
    @classmethod
    def _sorted_numbers(cls, numbers: list[int]) -> list[int]:
        if not numbers:
            raise ValueError("numbers is empty: name at least one element")
        for z in numbers:
            if not 0 < z < len(SYMBOLS):
                raise ValueError(f"{z} is not an atomic number")
        return sorted(set(numbers))
