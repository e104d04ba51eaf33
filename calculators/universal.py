"""Five crystals with one universal potential, and a picture.

    mlpot fetch nequix-mp-1
    python calculators/universal.py eos        energy against volume, bulk moduli
    python calculators/universal.py relax      atoms and cells from rattled, strained ones
    python calculators/universal.py md         half a picosecond at constant energy
    python calculators/universal.py phonons    bands from exact second derivatives

Pictures are written to the folder --out. --model takes any model that knows the elements of the
--crystals (all five, unless some are named).
"""

import argparse
from pathlib import Path

import numpy as np
from ase import units
from ase.build import bulk
from ase.filters import FrechetCellFilter
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS
from matplotlib.figure import Figure
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.md import maxwell_boltzmann

CRYSTALS = {
    "Si": bulk("Si", "diamond", a=5.43, cubic=True),
    "C": bulk("C", "diamond", a=3.57, cubic=True),
    "Cu": bulk("Cu", "fcc", a=3.61, cubic=True),
    "NaCl": bulk("NaCl", "rocksalt", a=5.64, cubic=True),
    "MgO": bulk("MgO", "rocksalt", a=4.21, cubic=True),
}
QUIET = Console(quiet=True)


def eos(calc, crystals, panels) -> None:
    for (name, atoms), axes in zip(crystals.items(), panels, strict=True):
        found = workflows.eos(atoms, calc, console=QUIET)
        print(found)
        volumes = np.linspace(found.volumes.min(), found.volumes.max(), 101)
        axes.plot(volumes / len(atoms), (found.curve(volumes) - found.energy) / len(atoms))
        axes.plot(found.volumes / len(atoms), (found.energies - found.energy) / len(atoms), "ok")
        axes.set_title(f"{name}: {found.bulk_modulus:.0f} GPa")
        axes.set_xlabel("Å³/atom")
    panels[0].set_ylabel("energy (eV/atom)")


def relaxed(atoms) -> np.ndarray:
    """Energies per atom on the way; the atoms are moved."""
    energies = []
    optimizer = BFGS(FrechetCellFilter(atoms), logfile=None)  # pyright: ignore[reportArgumentType]
    optimizer.attach(lambda: energies.append(atoms.get_potential_energy() / len(atoms)))
    optimizer.run(fmax=1e-3, steps=300)
    return np.array(energies)


def relax(calc, crystals, panels) -> None:
    strain = np.array([[1.03, 0.01, 0.0], [0.0, 0.98, 0.01], [0.01, 0.0, 1.02]])
    for (name, perfect), axes in zip(crystals.items(), panels, strict=True):
        atoms = perfect.copy()
        atoms.rattle(0.08, seed=1)
        atoms.set_cell(atoms.cell.array @ strain, scale_atoms=True)
        atoms.calc = calc
        energies = relaxed(atoms)
        a, b, c = atoms.cell.lengths()
        print(f"{name}: {len(energies)} steps, cell {a:.4f} {b:.4f} {c:.4f} Å")
        axes.semilogy(np.maximum(energies - energies.min(), 1e-9)[:-1], ".-")
        axes.set_title(f"{name}: {(a * b * c) ** (1 / 3):.3f} Å")
        axes.set_xlabel("step")
    panels[0].set_ylabel("energy above the end (eV/atom)")


def dynamics(atoms, steps: int = 250) -> np.ndarray:
    """Rows of time (ps), temperature (K) and total energy (eV)."""
    rows = []
    run = VelocityVerlet(atoms, 2.0 * units.fs)
    run.attach(
        lambda: rows.append(
            (run.get_time() / (1000 * units.fs), atoms.get_temperature(), atoms.get_total_energy())
        ),
        interval=5,
    )
    run.run(steps)
    return np.array(rows)


def md(calc, crystals, panels) -> None:
    for (name, crystal), axes in zip(crystals.items(), panels, strict=True):
        atoms = crystal * (2, 2, 2)
        atoms.calc = calc
        masses, generator = atoms.get_masses(), np.random.default_rng(0)
        atoms.set_momenta(
            maxwell_boltzmann(masses, atoms.get_positions(), 600.0, generator, rotation=False)
        )
        time, temperature, total = dynamics(atoms).T
        spread = 1000 * np.std(total) / len(atoms)
        print(f"{name}: {len(atoms)} atoms, total energy within {spread:.3f} meV/atom")
        axes.plot(time, temperature)
        axes.set_title(f"{name}: ±{spread:.2f} meV/atom")
        axes.set_xlabel("ps")
    panels[0].set_ylabel("temperature (K)")


def phonons(calc, crystals, panels) -> None:
    for (name, atoms), axes in zip(crystals.items(), panels, strict=True):
        found = workflows.phonons(atoms, calc, (2, 2, 2), mesh=(4, 4, 4), console=QUIET)
        path = np.concatenate(
            [np.linspace([0.5, 0.5, 0], [0, 0, 0], 51), np.linspace([0, 0, 0], [0.5] * 3, 51)]
        )
        bands = found.frequencies(path)
        print(f"{name}: up to {bands.max():.2f} THz, lowest {bands.min():.2f}")
        axes.plot(np.arange(len(path)), bands, color="C0", linewidth=1)
        axes.set_xticks([0, 50, 101], ["X", "Γ", "L"])
        axes.set_title(name)
    panels[0].set_ylabel("frequency (THz)")


EXAMPLES = {"eos": eos, "relax": relax, "md": md, "phonons": phonons}

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("example", choices=EXAMPLES)
parser.add_argument("--model", default="nequix-mp-1", help="name or file")
parser.add_argument("--out", type=Path, default=Path("universal"))
parser.add_argument("--crystals", nargs="+", choices=CRYSTALS, default=list(CRYSTALS))
arguments = parser.parse_args()

precision = "float32" if arguments.example == "md" else "float64"
figure = Figure(figsize=(13, 3), layout="constrained")
EXAMPLES[arguments.example](
    MLPotCalculator(arguments.model, dtype=precision),
    {name: CRYSTALS[name] for name in arguments.crystals},
    figure.subplots(1, len(arguments.crystals), squeeze=False)[0],
)
figure.suptitle(arguments.model)
arguments.out.mkdir(parents=True, exist_ok=True)
picture = arguments.out / f"{arguments.example}.png"
figure.savefig(picture, dpi=110)
print(picture)
