"""A folder with everything that the pages of the documentation speak of, in small.

Their commands name files that readers have: data, structures, trained potentials. Here all crystals
are of copper, molecules are ethanol, and the potentials two small ones that learnt these
(``tests/fixtures/pages``).
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import sys
from pathlib import Path

import ase.db
import mlx.core as mx
import numpy as np
import yaml
from ase import Atoms
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write
from ase.units import Bohr, Hartree, kcal, mol
from documentation import ROOT
from mlx.utils import tree_map

import mlpot
from mlpot import datasets
from mlpot.io import locating, registry
from mlpot.io.registry import PUBLISHED
from mlpot.kernels.native import builder

FIXTURES = ROOT / "tests" / "fixtures"
COPPER, ETHANOL = (FIXTURES / "pages" / f"{name}.safetensors" for name in ("copper", "ethanol"))
#: What a page's potential is trained on where it is not copper.
MOLECULAR = ("docs/howto/molecules.md",)


def prepare(folder: Path, page: str) -> None:
    """Fill a folder for a page."""
    potential = ETHANOL if page in MOLECULAR else COPPER
    for name in ("best", "model", "runs/old/best", "runs/quickstart/copper/best"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(potential, folder / f"{name}.safetensors")
    mlpot.save(folder / "second.safetensors", _changed(potential))
    _data(folder)
    _structures(folder, page)
    for name in ("md", "calculators"):
        shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True)
    staged = smaller_md(yaml.safe_load((folder / "md" / "staged.yaml").read_text()))
    (folder / "md" / "staged.yaml").write_text(yaml.safe_dump(staged))
    # On clusters: $SCRATCH/mlpot, with the kernels that are compiled already.
    (folder / "mlpot").symlink_to(builder.cache_folder())
    for name in ("scripts", "evals", "tutorials"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "models").mkdir()
    for path in (ROOT / "models").glob("*.yaml"):
        keys = smaller_training(yaml.safe_load(path.read_text()))
        (folder / "models" / path.name).write_text(yaml.safe_dump(keys))
    # Processes that share two cores wait for each other actively: few steps.
    own = smaller_training({}) | {"max_num_epochs": 1, "n_train": 8}
    (folder / "mymodel.yaml").write_text(yaml.safe_dump(own))
    shutil.copy(FIXTURES / "nequix_small.nqx", folder / "nequix-mp-1.nqx")
    shutil.copy(FIXTURES / "nequix_small.nqx", folder / "model.nqx")
    shutil.copy(FIXTURES / "sevennet_even.pth", folder / "model.pth")


def put_published(folder: Path) -> None:
    """Published potentials, as after ``mlpot fetch``: names that stand for the copper potential.

    The original file of nequix-mp-1 is that of the small random model of the same program.
    """
    locating.cache_folder = lambda: folder / "cache"
    content = (FIXTURES / "nequix_small.nqx").read_bytes()
    own = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    for name in PUBLISHED:
        changes = own if name == "nequix-mp-1" else {}
        entry = registry.Published(**{**vars(PUBLISHED[name]), **changes})
        PUBLISHED[name] = entry
        path = locating.fetched_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        mlpot.save(path, mlpot.load(COPPER), entry.metadata())


def after_training(page: str) -> None:
    """What longer training than here would give, for the commands that follow."""
    if page == "docs/tour.md":
        shutil.copy(COPPER, "runs/copper/best.safetensors")


def smaller_training(keys: dict) -> dict:
    """A configuration of training that takes a second or two."""
    small = dict(keys)
    small.setdefault("train_file", "mine.h5")
    small["r_max"] = 4.0
    small["max_num_epochs"] = 2
    small["batch_size"] = min(keys.get("batch_size", 4), 4)
    if "start_from" not in keys:
        network = {"channels": 4, "layers": 1, "lmax": 1, "radial_neurons": [8]}
        small["model"] = {"name": "v2106"} | dict(keys.get("model", {})) | network
    if "stages" in keys:
        small["stages"] = [{**stage, "from_epoch": 2} for stage in keys["stages"]]
    if "n_models" in keys:
        small["n_models"] = 2
    return small


def smaller_md(keys: dict) -> dict:
    """A configuration of dynamics with a few steps."""
    small = dict(keys)
    small["stages"] = [
        {**stage, "steps": min(stage["steps"], 20)} for stage in small.get("stages", [])
    ]
    if "replicas" in keys:
        small["replicas"] = 2
    if "committee" in keys:
        # The least disagreement counts, so that frames are found in twenty steps.
        small["committee"] = {**keys["committee"], "threshold": 1e-6, "interval": 2}
    return small


def _changed(potential: Path) -> mlpot.models.Potential:
    """Another member of a committee: the same potential with other last digits."""
    other = mlpot.load(potential)
    mx.random.seed(1)
    moved = tree_map(
        lambda x: x * (1 + 0.02 * mx.random.normal(x.shape)), other.trainable_parameters()
    )
    other.update(moved)
    mx.eval(other.parameters())
    return other


def _structures(folder: Path, page: str) -> None:
    crystal = bulk("Cu", cubic=True) * (2, 2, 2)
    crystal.rattle(0.05, seed=1)
    for name in ("crystal.extxyz", "start.extxyz", "x.extxyz", "supercell.cif"):
        write(folder / name, crystal)
    for name in ("crystal.cif", "copper.extxyz", "relaxed.extxyz"):
        write(folder / name, bulk("Cu"))
    many = []
    for seed in range(3):
        atoms = bulk("Cu", cubic=True)
        atoms.rattle(0.05, seed=seed)
        many.append(atoms)
    write(folder / "many.extxyz", many)
    write(folder / "frames.xyz", many, format="extxyz")
    # A vacancy and the same one place further on.
    ends = [bulk("Cu", cubic=True) * (2, 2, 2) for _ in range(2)]
    for atoms, removed in zip(ends, (0, 1), strict=True):
        atoms.info.clear()
        del atoms[[0, 1]]
        left = (bulk("Cu", cubic=True) * (2, 2, 2)).positions[1 - removed]
        atoms.extend(Atoms("Cu", [left]))
    names = ("minimum", "other") + (("a", "b") if page.endswith("crystals.md") else ())
    for name in names:
        write(folder / f"{name}.extxyz", ends[name in ("other", "b")])
    frames = datasets.read(ROOT / "datasets" / "ethanol.h5")
    molecule = next(frame for frame in frames if frame.n_atoms == 9).to_atoms()
    molecule.calc = None
    write(folder / "ethanol.xyz", molecule)


def _data(folder: Path) -> None:
    (folder / "datasets").mkdir()
    for name, step in (("copper", 14), ("ethanol", 60)):
        frames = datasets.read(ROOT / "datasets" / f"{name}.h5")
        single = [frame for frame in frames if frame.config_type == "IsolatedAtom"]
        others = [frame for frame in frames if frame.n_atoms > 1]
        datasets.write(folder / "datasets" / f"{name}.h5", [*others[::step], *single])
    copper = [frame for frame in datasets.read(folder / "datasets/copper.h5") if frame.n_atoms < 9]
    for name in ("mine", "old"):
        datasets.write(folder / f"{name}.h5", copper)
    datasets.write(folder / "test.h5", copper[:6])
    for name in ("mine", "mydata", "run1"):
        datasets.write(folder / f"{name}.extxyz", copper)
    packed = gzip.compress((folder / "run1.extxyz").read_bytes())
    (folder / "run2.extxyz.gz").write_bytes(packed)
    (folder / "md").mkdir()
    datasets.write(folder / "md" / "first.extxyz", copper)
    atoms = [frame.to_atoms() for frame in copper]
    for name in "abc":
        write(folder / f"{name}.extxyz", [_in_atomic_units(one) for one in atoms])
    with ase.db.connect(folder / "static.db") as database:
        for one in atoms[:3]:
            one.calc = EMT()
            one.get_forces()
            database.write(one)
    molecules = [f for f in datasets.read(folder / "datasets/ethanol.h5") if f.n_atoms == 9][:8]
    unit = kcal / mol
    np.savez(
        folder / "rmd17_aspirin.npz",
        nuclear_charges=molecules[0].numbers,
        coords=np.array([frame.positions for frame in molecules]),
        energies=np.array([frame.energy for frame in molecules]) / unit,
        forces=np.array([frame.forces for frame in molecules]) / unit,
    )


def _in_atomic_units(atoms: Atoms) -> Atoms:
    """A frame in Hartree and Bohr, its labels under names of its own."""
    other = Atoms(atoms.numbers, atoms.positions / Bohr, cell=atoms.cell / Bohr, pbc=atoms.pbc)
    assert isinstance(atoms.calc, SinglePointCalculator)
    other.info["dft_energy"] = atoms.calc.results["energy"] / Hartree
    other.arrays["dft_forces"] = atoms.calc.results["forces"] / Hartree * Bohr
    return other
