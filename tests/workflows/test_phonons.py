"""Phonons: exact second derivatives against displacements, files, errors."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import phonopy
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from embedded_atoms import EmbeddedAtoms
from phonopy.harmonic.force_constants import compact_fc_to_full_fc
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.models import Potential, PotentialConfig
from mlpot.models.config import V2106Config
from mlpot.workflows.force_constants import displaced_forces, linear_forces
from mlpot.workflows.phonopy_bridge import (
    asymmetry,
    displacement_vectors,
    make_phonopy,
    to_ase,
)

QUIET = Console(quiet=True)
Q_POINTS = [[0, 0, 0], [0.5, 0.5, 0], [0.1, 0.2, 0.3], [0.5, 0.5, 0.5]]


@pytest.fixture(scope="module")
def calc() -> MLPotCalculator:
    mx.random.seed(3)
    model = V2106Config(channels=4, layers=1, lmax=1, number_of_basis=4, radial_neurons=[8])
    config = PotentialConfig(numbers=[29], cutoff=3.2, model=model, avg_num_neighbors=12.0)
    return MLPotCalculator(Potential(config), dtype="float64")


def phonons(atoms, calc, supercell=(2, 2, 2), **options):
    settings = {"relax": False, "mesh": (4, 4, 4), "npoints": 11, "console": QUIET}
    return workflows.phonons(atoms, calc, supercell, **(settings | options))


@pytest.fixture(scope="module")
def exact(calc):
    return phonons(bulk("Cu", "fcc", a=3.6), calc, method="hessian")


def test_exact_agrees_with_displacements(calc, exact):
    other = phonons(bulk("Cu", "fcc", a=3.6), calc, method="displacements")
    one, two = exact.frequencies(Q_POINTS), other.frequencies(Q_POINTS)
    assert np.abs(one).max() > 0.5
    np.testing.assert_allclose(one, two, atol=0.01, rtol=0)


def test_symmetry_reduced_products_give_the_whole_rows():
    """NaCl's structure with two elements: two products against six rows of the Hessian."""
    mx.random.seed(4)
    model = V2106Config(channels=3, layers=1, lmax=1, number_of_basis=4, radial_neurons=[6])
    config = PotentialConfig(numbers=[8, 12], cutoff=3.0, model=model, avg_num_neighbors=6.0)
    oxide = MLPotCalculator(Potential(config), dtype="float64")
    result = phonons(bulk("MgO", "rocksalt", a=4.2), oxide, method="hessian")
    supercell = to_ase(result.phonopy.supercell)
    rows = [int(i) for i in result.phonopy.primitive.p2s_map]
    whole = oxide.get_hessian(supercell, rows=rows).reshape(2, 3, -1, 3).swapaxes(1, 2)
    assert len(result.phonopy.dataset["first_atoms"]) == 2
    found = result.phonopy.force_constants
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-9 * np.abs(whole).max())


def test_both_methods_in_the_conventional_cell_agree(calc, exact):
    # Phonopy finds the primitive cell itself: the force constants are those of its atom alone.
    cubic = phonons(bulk("Cu", "fcc", a=3.6, cubic=True), calc, (2, 2, 2))
    other = phonons(bulk("Cu", "fcc", a=3.6, cubic=True), calc, method="displacements")
    assert cubic.phonopy.force_constants.shape == (1, 32, 3, 3)
    np.testing.assert_allclose(
        cubic.frequencies(Q_POINTS), other.frequencies(Q_POINTS), atol=0.01, rtol=0
    )


def test_float32_calculator_is_computed_in_float64(calc, exact):
    single = MLPotCalculator(calc.members[0], dtype="float32")
    result = phonons(bulk("Cu", "fcc", a=3.6), single)
    np.testing.assert_allclose(
        result.frequencies(Q_POINTS), exact.frequencies(Q_POINTS), atol=1e-4, rtol=0
    )
    assert single.dtype == "float32"


def test_sum_rule_holds(exact):
    assert exact.sum_rule_before < 1e-8
    assert exact.sum_rule_after < 1e-8
    assert exact.asymmetry_before < 1e-10 and exact.asymmetry_after < 1e-10


def test_asymmetry_of_compact_force_constants():
    """Against the whole matrix, which phonopy makes of the rows of the primitive cell."""
    made = make_phonopy(bulk("MgO", "rocksalt", a=4.2, cubic=True), 2 * np.eye(3, dtype=int))
    rng = np.random.default_rng(0)
    compact = rng.normal(size=(2, 64, 3, 3))
    made.force_constants = compact
    full = compact_fc_to_full_fc(made.primitive, compact)
    assert asymmetry(made) == pytest.approx(np.abs(full - full.transpose(1, 0, 3, 2)).max())
    made.symmetrize_force_constants(level=5, show_drift=False)
    assert asymmetry(made) < 1e-3


def test_phonopy_opens_the_files(exact, tmp_path):
    paths = exact.write(tmp_path / "new", name="Cu")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "Cu-force_constants.hdf5",
        "Cu-phonons.png",
        "Cu-phonons.svg",
        "Cu-phonopy.yaml",
        "Cu-thermal.csv",
        "Cu-thermal.png",
    ]
    assert exact.files == paths
    loaded = phonopy.load(
        paths["yaml"],
        force_constants_filename=paths["force_constants"],
        symmetrize_fc=False,
    )
    loaded.run_qpoints(Q_POINTS)
    np.testing.assert_allclose(loaded.qpoints.frequencies, exact.frequencies(Q_POINTS), atol=1e-6)
    with pytest.raises(ValueError, match="exists already"):
        exact.write(tmp_path / "new", name="Cu")
    exact.write(tmp_path / "new", name="Cu", overwrite=True)


def test_emt_copper_relaxed_and_displaced(tmp_path):
    atoms = bulk("Cu", "fcc", a=3.65)
    result = phonons(atoms, EMT(), (3, 3, 3), relax=True, out=tmp_path, plot=False)
    assert result.method == "displacements"
    assert atoms.cell[0, 1] == pytest.approx(1.825)
    assert result.atoms.cell[0, 1] * 2 == pytest.approx(3.59, abs=0.02)
    assert result.imaginary == []
    assert np.abs(result.frequencies([0, 0, 0])).max() < 0.01
    assert 6.0 < result.frequencies([0.5, 0.5, 0]).max() < 9.0
    assert (tmp_path / "Cu-relaxed.extxyz").is_file()


def test_imaginary_modes_are_named():
    # EMT's bcc copper is unstable against the shear towards close packing.
    result = phonons(bulk("Cu", "bcc", a=2.87), EMT(), (4, 4, 4))
    assert result.imaginary
    worst = result.imaginary[0]
    assert result.frequencies(worst.q).min() == pytest.approx(worst.frequency, abs=1e-6)
    assert "i THz at q = (" in str(worst)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"supercell": (2, 2)}, "supercell has shape"),
        ({"supercell": (0, 2, 2)}, "below 1"),
        ({"supercell": (1.5, 2, 2)}, "not made of integers"),
        ({"supercell": [[1, 0, 0], [1, 0, 0], [0, 0, 1]]}, "no positive volume"),
        ({"mesh": (0, 1, 1)}, "mesh is"),
        ({"method": "guess"}, "method is 'guess'"),
        ({"method": "hessian"}, "EMT gives no second derivatives"),
        ({"distance": -1.0}, "distance is -1.0"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        phonons(bulk("Cu"), EMT(), **options)


def test_bad_structures(calc):
    with pytest.raises(ValueError, match="does not know Al"):
        phonons(bulk("Al"), calc)
    slab = bulk("Cu")
    slab.pbc = [True, True, False]
    with pytest.raises(ValueError, match="periodic in three directions"):
        phonons(slab, calc)


def test_acoustic_modes_vanish_at_gamma_before_any_sum_rule():
    """Exact products keep the sum rule by themselves; displacements in float32 do not."""
    potential, unit = EmbeddedAtoms(cutoff=5.0), bulk("Cu", a=3.55)
    largest = {}
    for way in ("exact", "displaced"):
        solver = make_phonopy(unit, 2 * np.eye(3, dtype=int))
        solver.generate_displacements(distance=0.01, is_plusminus=False)
        if way == "exact":
            calc = MLPotCalculator(potential, dtype="float64")
            vectors = displacement_vectors(solver)
            large = to_ase(solver.supercell)
            solver.forces = linear_forces(calc, large, vectors, None, lambda *_: None)
        else:
            calc = MLPotCalculator(potential, dtype="float32")
            cells = [to_ase(cell) for cell in solver.supercells_with_displacements]
            solver.forces = displaced_forces(calc, cells, lambda *_: None)
        solver.produce_force_constants(show_drift=False)
        largest[way] = np.abs(solver.run_qpoints([[0, 0, 0]]).frequencies).max()
    assert largest["exact"] < 1e-5
    assert largest["displaced"] > 100 * largest["exact"]
