"""A run: case after case, each with workers of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from . import cold, control, timing
from .cases import Case
from .crew import Crew, Machine
from .implementations import Implementation
from .inputs import draw
from .progress import Progress
from .timing import Plan, Row


@dataclass
class Session:
    """Rows and versions, as far as they are known.

    Args:
        machine: where workers run.
        implementations: who is asked.
        plan: how long is measured.
    """

    machine: Machine
    implementations: Sequence[Implementation]
    plan: Plan
    rows: list[Row] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def run(self, tasks: Sequence[tuple[Case, list[str]]], after: Callable[[], None]) -> None:
        """Time all tasks; ``after`` is called when a case is done."""
        progress = Progress(sum(len(phases) for _, phases in tasks))
        for case, phases in tasks:
            self._case(case, phases, progress)
            after()
        progress.close()

    def _case(self, case: Case, phases: Sequence[str], progress: Progress) -> None:
        inputs = self.machine.folder / "inputs.npz"
        np.savez(inputs, **draw(case))
        device, plan = self.machine.device, self.plan
        asked = [i for i in self.implementations if any(i.takes(case, p, device) for p in phases)]
        if case.name in control.CASES:
            # What is to come out equal deserves more repeats.
            plan = dataclasses.replace(
                plan, least=3 * plan.least, call_seconds=2 * plan.call_seconds
            )
        # Who is not installed is not started again.
        with Crew(self.machine, asked, absent=dict(self.absent)) as crew:
            for phase in phases:
                progress.begin(f"{case.name} {case.label}, {phase}")
                if phase == "cold":
                    self.rows += cold.measure(crew, case, phase, inputs, plan.limit)
                else:
                    self.rows += timing.measure(crew, case, phase, inputs, plan)
                progress.finish()
        for name, why in crew.absent.items():
            if why.startswith("not installed"):
                self.absent[name] = why
        for facts in crew.facts.values():
            self.versions |= facts["versions"]
