"""Phonons of a crystal with a universal potential.

    mlpot fetch sevennet-0                  once, 3 MB
    python tutorials/phonons_of_a_crystal.py          less than a minute
    python tutorials/phonons_of_a_crystal.py --small  seconds, on a coarser mesh

Ends in the picture phonons.png: bands and density of states, from exact second derivatives.

Without network. A published potential is used where it is on this machine already. Where it is
not, it is fetched only if you say so with --fetch (or MLPOT_FETCH=1 in the environment); otherwise
the tutorial says what is missing and goes on with copper and a small potential for it, which it
trains on the data that ship with mlpot.
"""

# %% What is imported, and what can be chosen
import argparse
import os
from pathlib import Path

from ase.build import bulk
from matplotlib.figure import Figure
from rich.console import Console

from mlpot import datasets, io, training, workflows
from mlpot.calculators import MLPotCalculator
from mlpot.io import fetching
from mlpot.training import TrainConfig
from mlpot.workflows.phonon_plot import segments

ROOT = Path(__file__).resolve().parents[1]

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--small", action="store_true", help="a smaller supercell and mesh: seconds")
parser.add_argument("--model", default="sevennet-0", help="name or file of a universal potential")
parser.add_argument("--fetch", action="store_true", help="fetch the potential if it is not here")
parser.add_argument("--out", type=Path, default=ROOT / "runs/tutorials/phonons")
arguments = parser.parse_args()
small, out = arguments.small, arguments.out
out.mkdir(parents=True, exist_ok=True)


# %% The potential
# SevenNet-0 knows 89 elements; it was trained on relaxations of crystals with PBE. Its name stands
# for the file that `mlpot fetch` has brought.
def train_copper() -> Path:
    """A potential for copper from the shipped data, in the place of a universal one."""
    frames = datasets.read([ROOT / "datasets/copper.h5"])
    kinds = ("IsolatedAtom", "strained", "strained_rattled", "rattled")
    datasets.write(out / "copper.h5", [f for f in frames if f.config_type in kinds])
    config = TrainConfig.model_validate(
        {
            "train_file": str(out / "copper.h5"),
            "out": str(out / "copper"),
            "seed": 1,
            "r_max": 4.6,
            "model": {"name": "v2106", "channels": 8, "layers": 2, "lmax": 2},
            "batch_size": 8,
            "max_num_epochs": 10 if small else 40,
            "ema_decay": 0.95,
            "lr": 0.01,
            "energy_weight": 1.0,
            "stress_weight": 100.0,
        }
    )
    return training.train(config, overwrite=True).folder.best


if arguments.fetch or os.environ.get("MLPOT_FETCH") == "1":
    fetching.fetch(arguments.model, say=print)
try:
    model, crystal = io.locate(arguments.model), bulk("NaCl", "rocksalt", a=5.64)
    print(f"potential: {arguments.model}")
except FileNotFoundError as missing:
    if arguments.model not in io.PUBLISHED:
        raise  # a wrong name, not a missing download
    print(f"{missing}\nSo this goes on with copper and a potential that is trained now.")
    model, crystal = train_copper(), bulk("Cu", "fcc", a=3.6)

# %% The phonons
# Second derivatives are wanted in float64. The cell is relaxed first: phonons are those of the
# potential's own minimum. The supercell should be at least twice as wide as forces reach; here it
# is small, so that it takes no time. For a converged result take (4, 4, 4) and more.
#
# Phonopy knows which displacements are needed by symmetry. For each, mlpot gives the change of all
# forces as an exact product of the Hessian with a vector, so no step length has to be chosen.
calculator = MLPotCalculator(model, dtype="float64")
result = workflows.phonons(
    crystal,
    calculator,
    supercell=(2, 2, 2) if small else (4, 4, 4),
    mesh=(6, 6, 6) if small else (20, 20, 20),
    npoints=21 if small else 101,
    console=Console(quiet=True),
)

# %% What to look at
# Three acoustic modes at Gamma are zero; what the sum rule was off by before it was imposed tells
# how good the derivatives are. Imaginary modes (negative numbers) away from Gamma would mean that
# the crystal wants to distort, or that the potential is wrong about it.
# Sodium chloride is polar: the splitting of its optical modes at Gamma needs Born charges (see
# the argument `born`), which no short-ranged potential has.
name = crystal.get_chemical_formula("reduce")
a = result.atoms.cell.lengths()[0] * 2**0.5
pieces = segments(result.phonopy)
highest = max(float(piece.frequencies.max()) for piece in pieces)
print(f"{name}: lattice constant {a:.3f} Å, sum rule off by {result.sum_rule_before:.1e} eV/Å²")
print(f"highest frequency {highest:.2f} THz, {len(result.imaginary)} imaginary modes")

# %% The same phonons as heat
thermal = result.thermal_properties(t_max=600, t_step=10)
heat = float(thermal.heat_capacity[30])
print(f"heat capacity at 300 K {heat:.1f} J/K/mol; classical {3 * 8.314 * thermal.n_atoms:.1f}")

# %% The picture
figure = Figure(figsize=(9, 4.2), layout="constrained")
bands, density = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
ticks: dict[float, str] = {}
for piece in pieces:
    bands.plot(piece.distances, piece.frequencies, color="tab:blue", linewidth=1.2)
    for at, label in ((piece.distances[0], piece.start), (piece.distances[-1], piece.end)):
        known = ticks.get(float(at), label)
        ticks[float(at)] = known if known == label else f"{known}|{label}"
for at in ticks:
    bands.axvline(at, color="0.8", linewidth=0.6)
bands.set_xticks(list(ticks), list(ticks.values()))
bands.set_xlim(min(ticks), max(ticks))
bands.set_ylabel("frequency (THz)")
bands.set_title(f"{name}, {Path(arguments.model).stem if name == 'NaCl' else 'trained here'}")
if not result.imaginary:
    bands.set_ylim(0, 1.05 * highest)
dos = result.phonopy.total_dos
assert dos is not None
density.fill_betweenx(dos.frequency_points, dos.dos, color="tab:blue", alpha=0.3)
density.set_xlabel("states/THz/cell")
density.set_xlim(left=0)
figure.savefig(out / "phonons.png", dpi=120)
print(out / "phonons.png")
