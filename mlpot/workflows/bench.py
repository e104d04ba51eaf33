"""How fast a potential is on this machine, for systems of several sizes."""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.data import chemical_symbols
from rich.console import Console
from rich.table import Table

import mlpot
from mlpot.calculators import MLPotCalculator

from .checks import check_count, check_positive
from .outputs import check_outputs, named_paths, write_numbers
from .precision import check_elements

#: Calls before the clock starts: recorded operations are replayed from the third on.
_WARM_UP = 4
_FEWEST_CALLS = 5
#: Atoms move by so much between two calls (Angstrom), as in dynamics: neighbour lists are kept.
_MOVE = 0.003


@dataclass(frozen=True)
class Speed:
    """Times of one size.

    Args:
        n_atoms: atoms.
        first_s: the first energy and forces of a new size, s: kernels are built or compiled then.
        forces_ms: energy and forces, median, ms.
        forces_range_ms: 10 and 90 % of the calls lie below.
        product_ms: a Hessian-vector product, median, ms; None where it was not asked for.
        peak_megabytes: peak of MLX's memory.
    """

    n_atoms: int
    first_s: float
    forces_ms: float
    forces_range_ms: tuple[float, float]
    product_ms: float | None
    peak_megabytes: float

    def ns_per_day(self, timestep: float = 1.0) -> float:
        """Dynamics of a day if nothing but forces took time; timestep in fs."""
        return 86.4 * timestep / self.forces_ms


@dataclass(frozen=True)
class Bench:
    """Times of several sizes, and what they were measured with.

    Args:
        rows: by size, ascending.
        about: versions, device, precision, structure.
    """

    rows: tuple[Speed, ...]
    about: dict[str, str]

    def write(
        self, folder: str | os.PathLike[str], name: str, plot: bool = True, overwrite: bool = False
    ) -> dict[str, Path]:
        """Write NAME-bench.json and a picture; their paths by kind.

        Raises:
            ValueError: files exist already and ``overwrite`` is False.
        """
        paths = output_paths(folder, name, plot)
        check_outputs(paths.values(), overwrite)
        Path(folder).mkdir(parents=True, exist_ok=True)
        data = {"about": self.about, "rows": [asdict(row) for row in self.rows]}
        write_numbers(paths, data, lambda path: _draw(self, path))
        return paths


def bench(
    calc: MLPotCalculator,
    atoms: Atoms | None = None,
    sizes: Sequence[int] = (64, 512, 4096),
    *,
    products: bool = True,
    seconds: float = 2.0,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    plot: bool = True,
    overwrite: bool = False,
    console: Console | None = None,
) -> Bench:
    """Time energy and forces, and Hessian-vector products, through the calculator.

    Between two calls all atoms move a little, as in dynamics. `mlpot md` takes less time a step,
    since it leaves positions on the device.

    Args:
        calc: the potential.
        atoms: a crystal, which is repeated to each size, or a molecule, which is taken as it is;
            by default a crystal of the first element that ASE knows one of.
        sizes: numbers of atoms at least; each is the smallest nearly cubic repetition above.
        products: whether Hessian-vector products are timed too.
        seconds: for each size and kind of call, beside the first calls.
        out: folder for the files; nothing is written by default.
        name: what file names begin with; the formula by default.
        plot: whether the picture is among the files.
        overwrite: whether existing files are replaced.
        console: where progress is shown; standard output by default.

    Returns:
        The times. A size that does not fit the memory ends the list.

    Raises:
        ValueError: bad numbers, unknown elements, no crystal of the elements, files that exist.
    """
    check_positive("s", seconds=seconds)
    for size in sizes or (0,):
        check_count("size", size)
    cell = crystal_of(calc.potential.numbers) if atoms is None else atoms.copy()
    cell.set_constraint()
    check_elements(cell, calc)
    name = name or cell.get_chemical_formula()
    if out is not None:
        check_outputs(output_paths(out, name, plot).values(), overwrite)
    console = Console() if console is None else console
    if not cell.pbc.any():
        console.print("A molecule is taken as it is, whatever the sizes.")
    systems = {len(s): s for s in (repeated(cell, size) for size in sizes)}
    rows = []
    for n_atoms in sorted(systems):
        try:
            with console.status(f"{n_atoms} atoms"):
                rows.append(_measure(systems[n_atoms], calc, products, seconds))
        except (MemoryError, RuntimeError) as error:  # MLX's is a RuntimeError
            if not rows:
                raise
            console.print(f"{n_atoms} atoms do not fit: {error}", highlight=False)
            break
    about = {
        "structure": cell.get_chemical_formula(),
        "model": str(calc.parameters.model),
        "dtype": calc.dtype,
        "device": str(mx.default_device()) if calc.dtype == "float32" else "Device(cpu, 0)",
        "versions": f"mlpot {mlpot.__version__}, mlx {importlib.metadata.version('mlx')}",
    }
    result = Bench(tuple(rows), about)
    console.print(_table(result))
    if out is not None:
        result.write(out, name, plot, overwrite)
    return result


def crystal_of(numbers: Sequence[int]) -> Atoms:
    """ASE's crystal of the first of these elements that it knows one of.

    Raises:
        ValueError: it knows none.
    """
    for number in numbers:
        try:
            return bulk(chemical_symbols[number])
        except (ValueError, RuntimeError):  # no lattice, or none that it can build
            continue
    symbols = ", ".join(chemical_symbols[n] for n in numbers)
    raise ValueError(f"ASE knows no crystal of {symbols}: give a structure (--struct)")


def repeated(atoms: Atoms, size: int) -> Atoms:
    """The nearly cubic supercell of at least this many atoms; a molecule as it is."""
    if not atoms.pbc.any():
        return atoms.copy()
    lengths = np.where(atoms.pbc, atoms.cell.lengths(), np.inf)
    counts = np.ones(3, dtype=int)
    while len(atoms) * counts.prod() < size:
        counts[np.argmin(lengths * counts)] += 1
    return atoms.repeat(counts)


def _measure(atoms: Atoms, calc: MLPotCalculator, products: bool, seconds: float) -> Speed:
    rng = np.random.default_rng(0)
    start = atoms.positions.copy()
    vectors = rng.normal(size=(8, len(atoms), 3))
    turns = itertools.count()

    def forces() -> None:
        atoms.positions = start + rng.uniform(-_MOVE, _MOVE, start.shape)
        calc.calculate(atoms, ["energy", "forces"])

    def product() -> None:
        atoms.positions = start + rng.uniform(-_MOVE, _MOVE, start.shape)
        calc.get_hvp(atoms, vectors[next(turns) % len(vectors)])

    mx.reset_peak_memory()
    began = time.perf_counter()
    forces()
    first = time.perf_counter() - began
    low, middle, high = np.quantile(_times(forces, seconds), [0.1, 0.5, 0.9]) * 1e3
    found = float(np.median(_times(product, seconds)) * 1e3) if products else None
    peak = mx.get_peak_memory() / 1e6
    return Speed(len(atoms), first, float(middle), (float(low), float(high)), found, peak)


def _times(call: Callable[[], None], seconds: float) -> list[float]:
    for _ in range(_WARM_UP):
        call()
    found: list[float] = []
    while len(found) < _FEWEST_CALLS or sum(found) < seconds:
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return found


def output_paths(folder: str | os.PathLike[str], name: str, plot: bool) -> dict[str, Path]:
    """Names of all files of a result."""
    return named_paths(folder, name, {"json": "bench.json"}, "bench" if plot else None)


def _table(result: Bench) -> Table:
    about = result.about
    table = Table(title=f"{about['structure']}, {about['dtype']}, {about['device']}")
    for head in ("atoms", "energy + forces, ms", "µs/atom", "ns/day", "product, ms", "peak MB"):
        table.add_column(head, justify="right")
    for row in result.rows:
        low, high = row.forces_range_ms
        table.add_row(
            str(row.n_atoms),
            f"{row.forces_ms:.2f} ({low:.2f}-{high:.2f})",
            f"{1e3 * row.forces_ms / row.n_atoms:.2f}",
            f"{row.ns_per_day():.2f}",
            "" if row.product_ms is None else f"{row.product_ms:.2f}",
            f"{row.peak_megabytes:.0f}",
        )
    table.caption = "median (10 to 90 %); ns/day: steps of 1 fs of which forces take all the time"
    return table


def _draw(result: Bench, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    atoms = [row.n_atoms for row in result.rows]
    kinds: list[tuple[str, list[float], str]] = [
        ("energy and forces", [row.forces_ms for row in result.rows], "#1f5fa8")
    ]
    products = [row.product_ms for row in result.rows if row.product_ms is not None]
    if products:
        kinds.append(("Hessian-vector product", products, "#b03030"))
    for label, times, color in kinds:
        axes.plot(atoms, times, "o-", color=color, label=label, markersize=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("atoms")
    axes.set_ylabel("time of a call (ms)")
    axes.legend(frameon=False)
    about = result.about
    axes.set_title(f"{about['structure']}, {about['dtype']}, {about['device']}", fontsize=11)
    figure.savefig(path, dpi=150)
