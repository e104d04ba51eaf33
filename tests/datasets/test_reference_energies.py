"""E0s: from isolated atoms, by least squares, and where compositions do not fix them."""

import numpy as np
import pytest

from mlpot.datasets import (
    Frame,
    isolated_atom_energies,
    least_squares_E0s,
    undetermined_elements,
)

E0 = {1: -13.5, 6: -1029.0, 8: -2041.0}


def molecule(numbers, extra=0.0, **fields):
    positions = 2.0 * np.arange(3 * len(numbers)).reshape(-1, 3)
    energy = sum(E0[z] for z in numbers) + extra
    return Frame(numbers=numbers, positions=positions, energy=energy, **fields)


WATER, METHANE, CO2 = [8, 1, 1], [6, 1, 1, 1, 1], [6, 8, 8]


def test_isolated_atoms_give_E0():
    frames = [molecule([z]) for z in (8, 1)] + [molecule(WATER)]
    assert isolated_atom_energies(frames) == {1: -13.5, 8: -2041.0}
    assert isolated_atom_energies([molecule(WATER)]) == {}


def test_an_isolated_atom_without_energy_gives_nothing():
    assert isolated_atom_energies([Frame(numbers=[1], positions=np.zeros((1, 3)))]) == {}


def test_isolated_atoms_must_agree():
    frames = [molecule([1], source="a:0"), molecule([1], extra=0.5, source="b:3")]
    with pytest.raises(ValueError, match=r"isolated atom of H: -13\.5.*a:0.*-13\.0.*b:3"):
        isolated_atom_energies(frames)
    assert isolated_atom_energies([molecule([1]), molecule([1], extra=1e-5)]) == {1: -13.5}


def test_least_squares_recovers_exact_energies():
    found = least_squares_E0s([molecule(m) for m in (WATER, METHANE, CO2, WATER)])
    assert list(found) == [1, 6, 8]
    assert found == pytest.approx(E0, abs=1e-8)


def test_least_squares_weighs_frames_by_energy_per_atom():
    # One element: the mean of the energies per atom, however large the frames are.
    frames = [molecule([1] * 2, extra=2.0), molecule([1] * 8, extra=0.0)]
    assert least_squares_E0s(frames)[1] == pytest.approx(-13.5 + 0.5)


def test_one_composition_leaves_all_elements_open():
    frames = [molecule(WATER, extra=x) for x in (-1.0, 1.0)]
    found = least_squares_E0s(frames)
    assert 2 * found[1] + found[8] == pytest.approx(2 * E0[1] + E0[8])
    assert found[1] == pytest.approx(found[8])
    assert undetermined_elements(frames) == [1, 8]


def test_only_elements_that_are_open_are_named():
    # C and O occur as CO only; hydrogen is fixed by H2.
    frames = [molecule([6, 8]), molecule([6, 8, 1, 1]), molecule([1, 1])]
    assert undetermined_elements(frames) == [6, 8]
    found = least_squares_E0s(frames)
    assert found[1] == pytest.approx(E0[1])
    assert found[6] + found[8] == pytest.approx(E0[6] + E0[8])
    assert undetermined_elements([molecule(m) for m in (WATER, METHANE, CO2)]) == []


def test_given_E0s_are_kept_and_settle_the_rest():
    frames = [molecule(WATER), molecule(WATER)]
    found = least_squares_E0s(frames, known={8: -2041.0})
    assert found == pytest.approx({1: E0[1], 8: E0[8]})
    assert undetermined_elements(frames, known=[8]) == []
    assert least_squares_E0s(frames, known={1: 1.0, 8: 2.0}) == {1: 1.0, 8: 2.0}


def test_isolated_atoms_do_not_count_in_the_fit():
    frames = [molecule(WATER), molecule([1], extra=100.0), molecule([8])]
    assert undetermined_elements(frames) == [1, 8]
    assert least_squares_E0s(frames)[1] < -100


def test_errors_name_elements():
    with pytest.raises(ValueError, match="no frame has an energy"):
        least_squares_E0s([Frame(numbers=[1, 1], positions=np.eye(3)[:2])])
    with pytest.raises(ValueError, match="holds O; give their E0s"):
        least_squares_E0s([molecule(METHANE)], numbers=[1, 6, 8])
    with pytest.raises(ValueError, match=r"hold O, but E0s were asked for H only"):
        least_squares_E0s([molecule(WATER)], numbers=[1])
    assert least_squares_E0s([molecule(METHANE)], [1, 6, 8], known={8: 5.0})[8] == 5.0
