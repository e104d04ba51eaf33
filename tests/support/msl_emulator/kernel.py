"""A kernel as one gives it to ``mx.fast.metal_kernel``, checked and run by the emulator."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np

from . import toolchain
from .arrays import from_file, same, to_numpy
from .errors import EmulationError
from .signature import describing_buffers, sign
from .translation import lint, to_cxx

#: Without access, on either side of each buffer: an offset that is 32 bits too far lands there.
GUARD_BYTES = 32 << 30
MAX_THREADS = 1024
#: Bytes that threadgroup memory and outputs hold before anything is written.
FILL, OTHER_FILL = 0xFF, 0x5A
_ORDERS = {"forward": 0, "reverse": 1, "shuffled": 2}


@dataclass(frozen=True)
class Launch:
    """What a kernel is called with; as the arguments of a kernel of ``mx.fast.metal_kernel``."""

    inputs: Sequence[mx.array]
    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[mx.Dtype]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    template: Sequence[tuple[str, mx.Dtype | bool | int]] = ()
    init_value: float | None = None


@dataclass(frozen=True)
class MetalKernel:
    """As the arguments of ``mx.fast.metal_kernel``."""

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    source: str
    header: str = ""
    atomic_outputs: bool = False

    def check(self, launch: Launch) -> list[str]:
        """What Metal's compiler would say against the text, as far as it is known here."""
        text = to_cxx(sign(self, launch), self.name, with_address_spaces=True)
        return toolchain.check_syntax(text) + lint(self.header + self.source)

    def run(
        self,
        launch: Launch,
        mode: str = "asan",
        order: str = "forward",
        fill: int = FILL,
        timeout_s: float = 120.0,
    ) -> tuple[list[mx.array], list[str]]:
        """Run the kernel.

        Args:
            launch: arrays and grid.
            mode: "asan" (ranges, undefined behaviour) or "race".
            order: of threads and groups, "forward", "reverse" or "shuffled".
            fill: byte that threadgroup memory and outputs hold at first.
            timeout_s: seconds after which it counts as an endless loop.

        Returns:
            Outputs, and notes on barriers, simdgroup operations and memory that are wrong.

        Raises:
            EmulationError: it does not compile, leaves its arrays, races, or never ends.
        """
        if math.prod(map(min, launch.grid, launch.threadgroup)) > MAX_THREADS:
            raise EmulationError("launch", f"more than {MAX_THREADS} threads in a threadgroup")
        text = to_cxx(sign(self, launch), self.name, with_address_spaces=False)
        program = toolchain.build(text, mode)
        with tempfile.TemporaryDirectory() as folder:
            outputs = self._write_spec(Path(folder), launch, order, fill)
            try:
                done = subprocess.run(
                    [str(program), f"{folder}/spec"],
                    capture_output=True,
                    text=True,
                    timeout=timeout_s,
                    env=toolchain.environment(),
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise EmulationError("run", f"does not end within {timeout_s} s") from None
            if done.returncode:
                raise EmulationError("run", toolchain.digest_of(done.stderr, done.returncode))
            _raise_races(program, done.stdout)
            notes = [line[5:] for line in done.stdout.splitlines() if line.startswith("NOTE ")]
            arrays = zip(outputs, launch.shapes, launch.dtypes, strict=True)
            return [from_file(path, shape, dtype) for path, shape, dtype in arrays], notes

    def _write_spec(self, folder: Path, launch: Launch, order: str, fill: int) -> list[str]:
        """Write buffers and the list of them; returns the files of the outputs."""
        lines: list[str] = []

        def put(data: np.ndarray, is_output: bool = False) -> str:
            path = str(folder / str(len(lines)))
            np.ascontiguousarray(data).tofile(path)
            lines.append(f"{path} {data.nbytes} {int(is_output)}")
            return path

        for name, array in zip(self.inputs, launch.inputs, strict=True):
            data = to_numpy(array)
            put(data)
            described = {
                "shape": np.array(array.shape, np.int32),
                "strides": np.array([s // data.itemsize for s in data.strides], np.int64),
                "ndim": np.array(array.ndim, np.int32),
            }
            for suffix in describing_buffers(self.source, name, array):
                put(described[suffix])
        outputs = []
        for shape, dtype in zip(launch.shapes, launch.dtypes, strict=True):
            if launch.init_value is None:
                data = np.full(math.prod(shape) * dtype.size, fill, np.uint8)
            else:
                data = to_numpy(mx.full(shape, launch.init_value, dtype))
            outputs.append(put(data, is_output=True))
        numbers = (*launch.grid, *launch.threadgroup, _ORDERS[order], 7, GUARD_BYTES, fill)
        head = " ".join(map(str, (*numbers, len(lines))))
        (folder / "spec").write_text("\n".join([head, *lines]) + "\n")
        return outputs

    def verify(
        self,
        launch: Launch,
        reference: Sequence[np.ndarray] = (),
        tolerance: float = 1e-5,
        timeout_s: float = 120.0,
    ) -> tuple[list[mx.array] | None, list[str]]:
        """Every check in turn.

        Args:
            launch: arrays and grid.
            reference: the outputs as they should be, in float64.
            tolerance: allowed difference, relative and absolute.
            timeout_s: of each run.

        Returns:
            Outputs (None if it did not run) and all findings: an empty list if there is nothing
            against the kernel.
        """
        found, notes = self.check(launch), []
        outputs = None
        runs = {
            "in reverse order": {"order": "reverse"},
            "in shuffled order": {"order": "shuffled"},
        }
        if launch.init_value is None:
            runs["with other bytes in unwritten memory"] = {"fill": OTHER_FILL}
        try:
            outputs, notes = self.run(launch, timeout_s=timeout_s)
            for what, options in runs.items():
                others, more = self.run(launch, timeout_s=timeout_s, **options)
                notes += more
                found += [
                    f"output {i} differs {what}"
                    for i, (a, b) in enumerate(zip(outputs, others, strict=True))
                    if not self._agree(a, b, tolerance)
                ]
            self.run(launch, mode="race", timeout_s=timeout_s)
        except EmulationError as error:
            found.append(str(error))
        for i, (output, wanted) in enumerate(zip(outputs or [], reference, strict=False)):
            numbers = np.array(output.astype(mx.float32), np.float64)
            if not np.allclose(numbers, wanted, tolerance, tolerance):
                worst = np.max(np.abs(numbers - wanted))
                found.append(f"output {i} differs from the reference by {worst:.3g}")
        return outputs, found + sorted(set(notes))

    def _agree(self, a: mx.array, b: mx.array, tolerance: float) -> bool:
        if self.atomic_outputs and mx.issubdtype(a.dtype, mx.floating):
            return bool(mx.allclose(a, b, tolerance, tolerance, equal_nan=True))
        return same(a, b)


def _raise_races(program: Path, said: str) -> None:
    races = [line.split() for line in said.splitlines() if line.startswith("RACE ")]
    if not races:
        return
    lines = toolchain.kernel_lines(program, [race[i] for race in races for i in (3, 4)])
    found = {
        f"{race[1]} on {race[2]} memory, kernel lines {a} and {b}"
        for race, a, b in zip(races, lines[::2], lines[1::2], strict=False)
    }
    raise EmulationError("race", "; ".join(sorted(found)[:4]) or said)
