"""The one exception of the emulator."""

from __future__ import annotations


class EmulationError(Exception):
    """A kernel failed at a stage: "tools", "launch", "compile", "link", "run" or "race"."""

    def __init__(self, stage: str, text: str) -> None:
        super().__init__(f"[{stage}] {text}")
        self.stage = stage
