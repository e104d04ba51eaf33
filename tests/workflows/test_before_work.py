"""What cannot be is refused before any energy is computed."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, fcc100
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator

QUIET = Console(quiet=True)


class Silent(MLPotCalculator):
    """Computes nothing."""

    def calculate(self, *_args, **_kwargs):
        raise AssertionError("refused only after work was done")


@pytest.fixture(scope="module")
def silent() -> Silent:
    return Silent(EmbeddedAtoms(numbers=(13, 29), cutoff=4.0), dtype="float64")


@pytest.mark.parametrize("chunk", [0, -3])
@pytest.mark.parametrize("workflow", [workflows.phonons, workflows.anharmonic])
def test_products_at_a_time(silent, workflow, chunk):
    with pytest.raises(ValueError, match=f"chunk is {chunk}"):
        workflow(bulk("Cu", a=3.6), silent, (3, 3, 3), chunk=chunk, console=QUIET)


@pytest.mark.parametrize(
    "text",
    ["nonsense here", "14.4\n2.5 0 0 0 2.5 0 0 0 2.5\n1.1 0 0 0 1.1 0 0 0 1.1\n", "", None],
    ids=["words", "one atom of two", "empty", "no file"],
)
def test_born_charges(silent, tmp_path, text):
    path = tmp_path / "BORN"
    if text is not None:
        path.write_text(text)
    expected = FileNotFoundError if text is None else ValueError
    with pytest.raises(expected, match="Born charges"):
        workflows.phonons(
            bulk("AlCu", "cesiumchloride", a=2.9), silent, (2, 2, 2), born=path, console=QUIET
        )


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_numbers_that_must_be_above_zero(silent, bad):
    crystal, molecule = bulk("Cu", a=3.6), Atoms("Cu2", [[0, 0, 0], [0, 0, 2.2]])
    calls = [
        lambda: workflows.relax(crystal, silent, fmax=bad, console=QUIET),
        lambda: workflows.relax_batch([crystal], silent, fmax=bad),
        lambda: workflows.phonons(crystal, silent, fmax=bad, console=QUIET),
        lambda: workflows.elastic(crystal, silent, fmax=bad, console=QUIET),
        lambda: workflows.eos(crystal, silent, fmax=bad, console=QUIET),
        lambda: workflows.neb(crystal, crystal, silent, fmax=bad, console=QUIET),
        lambda: workflows.saddle(molecule, silent, fmax=bad, console=QUIET),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="fmax is"):
            call()
    for name in ("temperature", "pressure"):
        with pytest.raises(ValueError, match=f"{name} is"):
            workflows.vibrations(molecule, silent, console=QUIET, **{name: bad})
    with pytest.raises(ValueError, match="max_step is"):
        workflows.saddle(molecule, silent, max_step=bad, console=QUIET)


def test_spins_and_seeds(silent):
    molecule = Atoms("Cu2", [[0, 0, 0], [0, 0, 2.2]])
    for spin in (math.nan, math.inf):
        with pytest.raises(ValueError, match="spin is"):
            workflows.vibrations(molecule, silent, spin=spin, console=QUIET)
    with pytest.raises(ValueError, match="seed is -1"):
        workflows.saddle(molecule, silent, seed=-1, console=QUIET)


def test_files_of_vibrations(silent, tmp_path):
    (tmp_path / "Cu2-vibrations.json").write_text("{}")
    molecule = Atoms("Cu2", [[0, 0, 0], [0, 0, 2.2]])
    with pytest.raises(ValueError, match="exists already"):
        workflows.vibrations(molecule, silent, out=tmp_path, console=QUIET)


def test_a_path_from_a_structure_to_itself(silent):
    crystal = bulk("Cu", a=3.6, cubic=True)
    across = crystal.copy()
    across.positions += crystal.cell[0]  # the same atoms, seen in the next cell
    shifted = crystal.copy()
    shifted.positions += [0.1, 0.2, 0.3]
    molecule = Atoms("CuAl2", [[0, 0, 0], [0, 0, 2.2], [1.9, 0.4, 0]])
    turned = molecule.copy()
    turned.rotate(70, (1, 2, 3))
    for first, last in ((crystal, crystal), (crystal, across), (crystal, shifted)):
        with pytest.raises(ValueError, match="structure are the same"):
            workflows.neb(first, last, silent, console=QUIET)
    with pytest.raises(ValueError, match="structure are the same"):
        workflows.neb(molecule, turned, silent, relax_ends=False, console=QUIET)


def test_a_shift_against_fixed_atoms_is_a_path(silent):
    slab = fcc100("Cu", (1, 1, 2), a=3.6, vacuum=5.0)
    slab.set_constraint(FixAtoms([0]))
    moved = slab.copy()
    moved.positions[1, 0] += 0.5
    options = {"images": 1, "relax_ends": False, "steps": 1, "console": QUIET}
    assert workflows.neb(slab, moved, EMT(), **options).distances[-1] == pytest.approx(0.5, abs=0.1)
    moved.positions[0, 1] += 0.2
    with pytest.raises(ValueError, match=r"atom 0 is fixed, but lies 0\.200 Å away"):
        workflows.neb(slab, moved, silent, **options)


def test_two_ends_in_one_valley():
    """They differ as given and relax to the same minimum: no band is begun."""
    first = bulk("Cu", a=3.6, cubic=True).repeat(2)
    last = first.copy()
    last.rattle(0.05, seed=3)
    with pytest.raises(ValueError, match="relax to the same minimum"):
        workflows.neb(first, last, EMT(), images=1, fmax=0.01, console=QUIET)


def test_a_minimum_at_the_edge_of_the_volumes_is_told(tmp_path):
    minimum = workflows.eos(bulk("Cu", a=3.6), EMT(), console=QUIET).volume
    for factor, side in ((1.05, "smallest"), (1.0, ""), (0.955, "largest")):
        atoms = bulk("Cu", a=(4 * factor * minimum) ** (1 / 3))
        said = Console(record=True, width=400, file=io.StringIO())
        result = workflows.eos(atoms, EMT(), console=said)
        text = said.export_text()
        assert result.near_edge == bool(side)
        assert ("--span" in text) == bool(side)
        if side:
            assert f"near the {side} of the volumes" in text
    one_beyond = np.sort(result.volumes)[-2] < result.volume < result.volumes.max()
    assert one_beyond
