"""Stresses that ``datasets/make_copper_pbe.py`` infers from energies and forces."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk

from mlpot.datasets import Frame

SCRIPT = Path(__file__).parents[2] / "datasets/make_copper_pbe.py"


@pytest.fixture(scope="module")
def script():
    spec = spec_from_file_location(SCRIPT.stem, SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def parameters():
    """Those of copper in mlearn, rounded."""
    pairs = [2.716, 0.617, 0.801, 0.2367, 0.00807, 0.0566, -0.0176, -0.088, -0.0007, 0.0251]
    return np.array([*pairs, 0.00175, -0.0049, -0.7376, 0.1731, 0.01355, -0.00505, -2.718])


def moved(seed, spread=0.1, strain=0.02):
    atoms = bulk("Cu", a=3.6, cubic=True).repeat((2, 2, 2))
    rng = np.random.default_rng(seed)
    atoms.set_cell(atoms.cell.array @ (np.eye(3) + rng.normal(0, strain, (3, 3))), scale_atoms=True)
    atoms.positions += rng.normal(0, spread, (len(atoms), 3))
    return atoms


def test_forces_and_stress_are_derivatives_of_the_energy(script, parameters):
    atoms = moved(0)
    cell, positions = atoms.cell.array, atoms.positions
    forces = (script.terms(cell, positions)[1] @ parameters).reshape(-1, 3)
    for atom, axis in ((0, 0), (7, 1), (31, 2)):
        step = np.zeros_like(positions)
        step[atom, axis] = 1e-4
        up, down = (script.terms(cell, positions + s * step)[0] @ parameters for s in (1, -1))
        assert forces[atom, axis] == pytest.approx((down - up) / 2e-4, rel=1e-6, abs=1e-7)
    # The virial of the whole cell by a change of volume alone.
    grown = [script.terms(s * cell, s * positions)[0] @ parameters for s in (1 + 1e-4, 1 - 1e-4)]
    trace = np.trace(script.stress(cell, positions, parameters))
    assert trace * atoms.get_volume() == pytest.approx((grown[0] - grown[1]) / 2e-4, rel=1e-5)


def frames_by(script, parameters, kind, seeds, **spread):
    for seed in seeds:
        atoms = moved(seed, **spread)
        energy, forces = script.terms(atoms.cell.array, atoms.positions)
        yield Frame.from_atoms(atoms).replace(
            energy=float(energy @ parameters),
            forces=(forces @ parameters).reshape(-1, 3),
            config_type=kind,
        )


def test_stress_unseen_is_that_of_a_potential_of_the_same_form(script, parameters):
    """Labels without any stress, by known parameters: the stress of other strains comes out."""
    frames = [
        *frames_by(script, parameters, "crystal", range(6), strain=0.0),
        *frames_by(script, parameters, "hot", range(6, 9), spread=0.2, strain=0.0),
        *frames_by(script, parameters, "strained", range(9, 15), spread=0.0),
        *frames_by(script, parameters, "surface", [15]),
    ]
    frames[-1].energy += 100.0  # surfaces are left out
    found = script.fit(frames)
    atoms = moved(99, spread=0.0)
    expected = script.stress(atoms.cell.array, atoms.positions, parameters)
    inferred = script.stress(atoms.cell.array, atoms.positions, found)
    # The damping of the fit is what is left.
    assert np.abs(inferred - expected).max() < 1e-2 * np.abs(expected).max()
    for lattice in (3.6, 3.65):
        assert script.elastic(lattice, found) == pytest.approx(
            script.elastic(lattice, parameters), abs=1.5
        )


def test_elastic_constants_are_second_derivatives(script, parameters):
    """At no pressure both are one; C12 by the energy of a stretch along two axes."""
    low, high = 3.4, 3.9
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if script.elastic(middle, parameters)[0] > 0 else (low, middle)
    pressure, c11, c12, _ = script.elastic(low, parameters)
    assert abs(pressure) < 1e-3
    cube, step = low * np.eye(3), 2e-3

    def energy(*strains):
        change = np.diag([1 + step * s for s in strains])
        return script.terms(cube @ change, low * script.FCC @ change)[0] @ parameters

    scale = step**2 * low**3 * script.units.GPA
    both = (energy(1, 1, 0) + energy(-1, -1, 0) - 2 * energy(0, 0, 0)) / scale
    assert both == pytest.approx(2 * c11 + 2 * c12, rel=1e-3)


def test_strained_cells_become_one_cube(script):
    atoms = bulk("Cu", a=3.6, cubic=True)
    atoms.set_cell(atoms.cell.array @ [[1, 0.03, 0], [0, 1, 0], [0, 0, 0.95]], scale_atoms=True)
    large = atoms.repeat((3, 3, 3))
    frame = Frame.from_atoms(large).replace(energy=-400.0, forces=np.zeros((108, 3)))
    assert script.classify(frame) == "strained"
    small = script.one_cube(frame)
    assert small.energy / small.n_atoms == pytest.approx(-400.0 / 108)
    assert np.allclose(small.cell, atoms.cell.array)
    one = np.ones(len(script.KNOTS) + len(script.POWERS) + 1)
    whole = script.terms(frame.cell, frame.positions)[0] @ one
    assert script.terms(small.cell, small.positions)[0] @ one == pytest.approx(whole / 27)
    large.positions[5] += 0.1
    frame = Frame.from_atoms(large).replace(energy=-400.0, forces=np.zeros((108, 3)))
    with pytest.raises(ValueError, match="no strained 3x3x3 cells of fcc"):
        script.one_cube(frame)
