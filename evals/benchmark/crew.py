"""The workers of one case: started side by side, each with an own folder for compiled things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .implementations import Implementation
from .process import WorkerFailedError, WorkerProcess


@dataclass(frozen=True)
class Machine:
    """Where and how workers run.

    Args:
        device: "cpu" or "gpu".
        threads: of each worker.
        pythons: interpreter by the name that implementations give; a missing one is not installed.
        folder: for temporary files.
    """

    device: str
    threads: int
    pythons: Mapping[str, str]
    folder: Path

    def environment(self, implementation: Implementation, temporary: Path) -> dict[str, str]:
        """Variables of a worker."""
        temporary.mkdir(parents=True, exist_ok=True)
        number = str(self.threads)
        return {
            "BENCHMARK_DEVICE": self.device,
            "BENCHMARK_THREADS": number,
            "MLPOT_NUM_THREADS": number,
            "OMP_NUM_THREADS": number,
            # Where MLX and CUDA keep what they have compiled.
            "TMPDIR": str(temporary),
            "MLX_PTX_CACHE_DIR": str(temporary / "ptx"),
            "CUDA_CACHE_PATH": str(temporary / "cuda"),
            **dict(implementation.environment),
        }

    def start(self, implementation: Implementation, temporary: Path) -> WorkerProcess:
        """A process of an implementation that has an interpreter."""
        return WorkerProcess(
            self.pythons[implementation.python],
            implementation.name,
            self.environment(implementation, temporary),
        )


@dataclass
class Crew:
    """Running workers by implementation, and why the others do not run."""

    machine: Machine
    implementations: Sequence[Implementation]
    running: dict[str, WorkerProcess] = field(default_factory=dict)
    facts: dict[str, dict] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start whoever is neither running nor absent."""
        started = {}
        for implementation in self.implementations:
            name = implementation.name
            if name in self.running or name in self.absent:
                continue
            if implementation.python not in self.machine.pythons:
                self.absent[name] = (
                    f"not installed: no Python was given for {implementation.python}"
                )
                continue
            folder = self.machine.folder / name
            started[name] = self.machine.start(implementation, folder)
        for name, process in started.items():
            try:
                hello = process.hello()
            except WorkerFailedError as error:
                process.end()
                self.absent[name] = f"failed: does not start, {error}"
                continue
            if "not_installed" in hello:
                process.end()
                self.absent[name] = f"not installed: {hello['not_installed']}"
                continue
            self.running[name], self.facts[name] = process, hello

    def drop(self, name: str) -> None:
        """End a worker that has failed; `start` brings another one."""
        self.running.pop(name).end()

    def __enter__(self) -> Crew:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.end()
