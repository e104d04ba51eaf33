"""Force RMS, neighbours, and stratified splits."""

from collections import Counter

import numpy as np
import pytest
from ase.build import bulk
from hypothesis import given
from hypothesis import strategies as st

from mlpot.datasets import (
    Frame,
    average_neighbors,
    closest_pair,
    force_rms,
    split,
    split_indices,
)


def frame(numbers=(1, 1), forces=None, config_type="Default", **fields):
    positions = 2.0 * np.arange(3 * len(numbers)).reshape(-1, 3)
    return Frame(
        numbers=numbers, positions=positions, forces=forces, config_type=config_type, **fields
    )


def test_force_rms_counts_components():
    frames = [
        frame(forces=[[3.0, 0, 0], [-3.0, 0, 0]]),
        frame(),
        frame((1, 1, 8), forces=[[0, 4.0, 0], [0, -4.0, 0], [0, 0, 0]]),
        frame((1,), forces=[[0.0, 0, 0]]),
    ]
    assert force_rms(frames) == pytest.approx(np.sqrt((9 * 2 + 16 * 2) / 15))


def test_force_rms_needs_forces():
    with pytest.raises(ValueError, match="no frame has forces"):
        force_rms([frame()])
    with pytest.raises(ValueError, match="all forces are zero"):
        force_rms([frame(forces=np.zeros((2, 3)))])


def test_average_neighbors_of_fcc():
    copper = Frame.from_atoms(bulk("Cu", a=3.6, cubic=True))
    # Shells of fcc: 12 at a/sqrt(2), 6 at a, 24 at a sqrt(3/2).
    assert average_neighbors([copper], 2.6) == 12
    assert average_neighbors([copper], 3.7) == 18
    assert average_neighbors([copper], 4.5) == 42
    # Atoms count, not frames; isolated atoms do not.
    pair = Frame(numbers=[29, 29], positions=[[0, 0, 0], [2.0, 0, 0]])
    alone = Frame(numbers=[29], positions=[[0, 0, 0]])
    assert average_neighbors([copper, pair, alone], 2.6) == pytest.approx((4 * 12 + 2) / 6)
    assert average_neighbors([alone], 2.6) == 0
    with pytest.raises(ValueError, match="no frames"):
        average_neighbors([], 3.0)


def test_average_neighbors_of_many_frames_looks_at_some():
    copper = Frame.from_atoms(bulk("Cu", a=3.6, cubic=True))
    assert average_neighbors([copper] * 1000, 2.6, max_frames=3) == 12


def mixed():
    kinds = [((1, 1), "a", 40), ((1, 1), "b", 10), ((8, 1, 1), "a", 30), ((6, 8), "a", 3)]
    frames = [frame(z, config_type=t) for z, t, n in kinds for _ in range(n)]
    return [*frames, frame((1,)), frame((8,))]


def test_every_kind_has_its_share():
    frames = mixed()
    train, valid = split_indices(frames, 0.1, seed=3)
    assert sorted(train + valid) == list(range(len(frames)))
    assert not set(train) & set(valid)
    counts = Counter((frames[i].formula, frames[i].config_type) for i in valid)
    assert counts == {("H2", "a"): 4, ("H2", "b"): 1, ("H2O", "a"): 3}
    assert {len(frames) - 2, len(frames) - 1} <= set(train)


def test_the_seed_decides():
    frames = mixed()
    assert split_indices(frames, 0.2, 1) == split_indices(frames, 0.2, 1)
    assert split_indices(frames, 0.2, 1) != split_indices(frames, 0.2, 2)
    train, valid = split(frames, 0.2, 1)
    indices = split_indices(frames, 0.2, 1)
    assert [id(f) for f in valid] == [id(frames[i]) for i in indices[1]]
    assert len(train) == len(indices[0])


def test_members_of_a_kind_are_drawn_evenly():
    frames = [frame() for _ in range(10)]
    hits = Counter(i for seed in range(400) for i in split_indices(frames, 0.3, seed)[1])
    # 120 expected each, standard deviation 9.
    assert min(hits.values()) > 80
    assert max(hits.values()) < 160


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
    st.floats(0.01, 0.99),
    st.integers(0, 1000),
)
def test_sizes_are_right_for_any_mixture(sizes, fraction, seed):
    frames = [frame((1,) * (k + 2)) for k, n in enumerate(sizes) for _ in range(n)]
    total = len(frames)
    if total < 2:
        with pytest.raises(ValueError, match="cannot be split"):
            split_indices(frames, fraction, seed)
        return
    train, valid = split_indices(frames, fraction, seed)
    assert len(valid) == min(max(round(fraction * total), 1), total - 1)
    assert sorted(train + valid) == list(range(total))
    for k, n in enumerate(sizes):
        share = sum(frames[i].n_atoms == k + 2 for i in valid)
        assert abs(share - fraction * n) < 1 + 1e-9


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 5.0])
def test_fractions_out_of_range(fraction):
    with pytest.raises(ValueError, match="between 0 and 1"):
        split_indices(mixed(), fraction, 0)


def test_closest_pair():
    copper = Frame.from_atoms(bulk("Cu", a=3.6, cubic=True))
    thin = frame((1, 1), cell=np.diag([9.0, 0.7, 9.0]), pbc=[True] * 3)
    assert closest_pair([copper]) == pytest.approx(3.6 / np.sqrt(2))
    assert closest_pair([copper, thin]) == pytest.approx(0.7)  # an image of the atom itself
    assert closest_pair([frame((1,))]) is None
