"""The section ``committee`` of a configuration of molecular dynamics."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mlpot.config import StrictModel


class CommitteeSection(StrictModel):
    """Potentials that watch a run and say where they disagree."""

    models: str | Annotated[list[str], Field(min_length=1)] = Field(
        description="members: the folder of a run with n_models, a pattern, or a list of files; "
        "the model that moves the atoms may be one of them"
    )
    threshold: float = Field(
        gt=0,
        description="frames are uncertain above it: largest standard deviation of a force over the "
        "members, eV/Angstrom",
    )
    interval: int = Field(default=10, ge=1, description="steps between two looks")
    action: Literal["harvest", "stop"] = Field(
        default="harvest",
        description="harvest: write uncertain frames to uncertain.extxyz and go on; stop: write "
        "the first and stop",
    )
    upper: float | None = Field(
        default=None,
        gt=0,
        description="stop above it, eV/Angstrom: such structures are broken, and not kept",
    )
    spacing: int = Field(
        default=50, ge=1, description="steps between two frames that are kept of a replica"
    )
    max_frames: int = Field(default=200, ge=1, description="frames kept in all")

    @model_validator(mode="after")
    def _ordered(self):
        if self.upper is not None and self.upper <= self.threshold:
            raise ValueError(
                f"upper {self.upper:g} is not above threshold {self.threshold:g} eV/Angstrom"
            )
        return self
