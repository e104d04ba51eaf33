"""A committee that watches a run: where its members disagree, the potential guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
from jaxtyping import Float64

from mlpot.models import Potential

from .ase_bridge import AseFrames, read_marks
from .committee_config import CommitteeSection
from .engine import make_pairs
from .file_names import DISAGREEMENT, UNCERTAIN
from .forces import potential_forces
from .frame import Frame
from .kept_part import cut_bytes
from .state import State
from .system import System
from .write_errors import naming

if TYPE_CHECKING:
    from mlpot.graph import HostPairs

    from .restart import Progress

#: Frames worth a label, and what was seen at each look.
_HEAD = "step,time_fs,replica,largest_eV_per_A,atom,mean_eV_per_A\n"


class Committee:
    """Evaluates the members now and then, and keeps or stops what they disagree about.

    The run itself follows one potential; looking does not change it.

    Args:
        section: when to look and what to do.
        members: potentials in the precision of the run, at least two.
        neighbors: where pairs are searched, see `make_pairs`.
    """

    def __init__(
        self, section: CommitteeSection, members: Sequence[Potential], neighbors: str
    ) -> None:
        if len(members) < 2:
            raise ValueError(
                f"committee: models {section.models!r} are {len(members)} potential: a committee "
                "has at least two"
            )
        self.section, self.members, self._neighbors = section, members, neighbors
        self.largest, self.harvested = 0.0, 0
        self._last: dict[int, int] = {}  # step of the last frame kept, by replica
        self._search: dict[float, HostPairs] = {}
        self._system: System | None = None
        self._files: tuple[Path, AseFrames] | None = None

    def open(self, folder: Path, progress: Progress | None) -> None:
        """Make the files, or go on with those of an earlier part of the run."""
        table, frames = folder / DISAGREEMENT, folder / UNCERTAIN
        if progress is None:
            table.write_text(_HEAD, encoding="utf-8")
            self._files = table, AseFrames(frames)
            return
        cut_bytes(table, progress.disagreement_bytes)
        self._files = table, AseFrames(frames, 0, progress.uncertain_bytes)
        for step, replica in read_marks(frames):
            self._last[replica] = step
            self.harvested += 1
        rows = table.read_text(encoding="utf-8").splitlines()[1:]
        self.largest = max((float(row.split(",")[3]) for row in rows), default=0.0)

    def marked(self, progress: Progress) -> Progress:
        """Progress with the lengths of the files, for restarts."""
        assert self._files is not None
        table, frames = self._files
        return replace(
            progress,
            disagreement_bytes=table.stat().st_size,
            uncertain_bytes=frames.path.stat().st_size,
        )

    def looks_at(self, step: int) -> bool:
        """Whether the members are asked about a step."""
        return step % self.section.interval == 0

    def spread(self, system: System, state: State) -> Float64[np.ndarray, " n_atoms"]:
        """Standard deviation over the members of the force on each atom, eV/Angstrom.

        The root of the summed variances of the three components, divided by the number of members.
        """
        if system is not self._system:
            self._system, self._search = system, {}
        forces = []
        for member in self.members:
            pairs = self._pairs(system, state, member.cutoff)
            found = potential_forces(member, system, pairs, 0.0, stress=False)
            forces.append(found(state.positions, state.cells).forces)
        stacked = mx.stack(forces)
        # On the device to the end: one number an atom comes back.
        spread = mx.sqrt(mx.sum(mx.var(stacked, axis=0), axis=1))
        mx.eval(spread)
        return np.array(spread).astype(np.float64)

    def _pairs(self, system: System, state: State, cutoff: float):
        if cutoff not in self._search:
            self._search[cutoff] = make_pairs(system, cutoff, 0.0, self._neighbors)
        search = self._search[cutoff]
        for _ in range(6):
            pairs, needed = search.build(state.positions, state.cells)
            if needed is None or search.fits(np.array(needed)):
                return pairs
        raise ValueError("the list of pairs outgrows all room made for it")

    def look(
        self, step: int, moment: float, system: System, state: State, reference: np.ndarray
    ) -> str | None:
        """Ask the members about a state, keep what they disagree about.

        Args:
            step: number of the step.
            moment: fs.
            system: what moves.
            state: evaluated.
            reference: (n_graphs,) sums of the E0, eV.

        Returns:
            Why the run has to stop; None if it goes on.
        """
        assert self._files is not None
        section = self.section
        spread = self.spread(system, state)
        frame: Frame | None = None
        problem: str | None = None
        lines = []
        for replica in range(system.n_graphs):
            own = spread[system.starts[replica] : system.starts[replica + 1]]
            worst, atom = float(own.max()), int(own.argmax())
            self.largest = max(self.largest, worst)
            lines.append(f"{step},{moment!r},{replica},{worst!r},{atom},{float(own.mean())!r}\n")
            broken = section.upper is not None and worst > section.upper
            if worst > section.threshold and not broken and self._wants(replica, step):
                frame = frame or Frame.of(step, moment, system, state, reference)
                self._keep(frame, replica, worst, atom)
            if (broken or (section.action == "stop" and worst > section.threshold)) and not problem:
                limit = section.upper if broken else section.threshold
                problem = (
                    f"the committee disagrees by {worst:.3f} eV/Angstrom about the force on atom "
                    f"{atom}" + (f" of replica {replica}" if system.n_graphs > 1 else "")
                ) + f", more than {limit:g}"
        with naming(self._files[0]), open(self._files[0], "a", encoding="utf-8") as file:
            file.writelines(lines)
        return problem

    def _wants(self, replica: int, step: int) -> bool:
        last = self._last.get(replica)
        rested = last is None or step - last >= self.section.spacing
        return rested and self.harvested < self.section.max_frames

    def _keep(self, frame: Frame, replica: int, worst: float, atom: int) -> None:
        assert self._files is not None
        with naming(self._files[1].path):
            self._files[1].write_unlabelled(
                frame.part(replica), replica=replica, disagreement=worst, disputed_atom=atom
            )
        self._last[replica] = frame.step
        self.harvested += 1

    def summary(self) -> dict[str, float | int]:
        """For the summary of the run."""
        return {
            "largest_disagreement_eV_per_A": self.largest,
            "uncertain_frames": self.harvested,
        }
