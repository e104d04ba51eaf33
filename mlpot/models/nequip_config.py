"""Sizes and variants of the NequIP family."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from mlpot import o3
from mlpot.config import StrictModel

from .radial_strategy import RadialKey


class NequIPConfig(StrictModel):
    """Sizes and variants of the nequip backbone.

    The defaults are those to train with. NequIP 0.5: ``parity: both``. Nequix: linear self
    connection, no embedding, layer norm. SevenNet: ``parity: even``, linear self connection, XPLOR
    envelope, trained basis.
    """

    name: Literal["nequip"] = Field(default="nequip", description="which backbone")
    channels: int = Field(default=32, ge=1, description="channels of each hidden irrep")
    layers: int = Field(default=3, ge=1, description="interactions")
    lmax: int = Field(
        default=2, ge=0, le=11, description="highest degree of features and harmonics"
    )
    irreps: str | None = Field(
        default=None, description="hidden irreps, in place of channels for each degree up to lmax"
    )
    parity: Literal["natural", "both", "even"] = Field(
        default="natural",
        description="of hidden irreps: (-1)^l, both, or even for all, which breaks mirror symmetry",
    )
    number_of_basis: int = Field(default=8, ge=1, description="radial basis functions")
    # NequIP's functions have root mean squares of 0.1 to 0.2 over the neighbours in a molecule, its
    # radial networks are normalised for inputs of 1.
    basis_scale: float = Field(
        default=1.0,
        gt=0,
        description="factor of the basis where it enters the radial networks; networks learn "
        "faster where that brings the functions to the size of 1",
    )
    train_basis: bool = Field(default=False, description="train the basis' frequencies")
    envelope: Literal["polynomial", "xplor"] = Field(
        default="polynomial", description="what makes the basis vanish at the cutoff"
    )
    envelope_p: int = Field(default=6, ge=2, description="order of the polynomial envelope")
    xplor_on: float | None = Field(
        default=None, ge=0, description="Angstrom; where the XPLOR envelope begins"
    )
    radial_neurons: list[int] = Field(
        default=[64, 64], description="hidden widths of the radial networks"
    )
    self_connection: Literal["species", "linear"] = Field(
        default="species", description="weights of the self connection: per species or shared"
    )
    embedding: bool = Field(
        default=True, description="start from a linear map of the species, not from one-hots"
    )
    layer_norm: bool = Field(default=False, description="RMS layer norm before each gate")
    normalization: Literal["exact", "e3nn", "e3nn_jax"] = Field(
        default="exact", description="convention of the activations' constants"
    )
    radial: RadialKey = "auto"

    @field_validator("irreps")
    @classmethod
    def _known_irreps(cls, irreps: str | None) -> str | None:
        if irreps is not None and o3.Irreps(irreps).count("0e") == 0:
            raise ValueError(f"{irreps!r} has no 0e channels, from which energies are read")
        return irreps

    @model_validator(mode="after")
    def _envelope_begins(self) -> NequIPConfig:
        if (self.envelope == "xplor") != (self.xplor_on is not None):
            raise ValueError("xplor_on belongs to envelope: xplor; give both or neither")
        return self

    def check_cutoff(self, cutoff: float) -> None:
        """Refuse an envelope that begins beyond the cutoff (Angstrom) with a ValueError."""
        if self.xplor_on is not None and self.xplor_on >= cutoff:
            raise ValueError(
                f"xplor_on is {self.xplor_on}; it must be less than the cutoff, {cutoff} Angstrom"
            )

    def irreps_hidden(self) -> o3.Irreps:
        """Irreps of the hidden features."""
        if self.irreps is not None:
            return o3.Irreps(self.irreps)
        parities = {
            "natural": lambda l: [(-1) ** l],
            "even": lambda l: [1],
            "both": lambda l: [1, -1],
        }
        return o3.Irreps(
            [
                (self.channels, (l, p))
                for l in range(self.lmax + 1)
                for p in parities[self.parity](l)
            ]
        )

    def irreps_harmonics(self) -> o3.Irreps:
        """Irreps of the edge harmonics, one of each degree."""
        sign = 1 if self.parity == "even" else -1
        return o3.Irreps([(1, (l, sign**l)) for l in range(self.lmax + 1)])
