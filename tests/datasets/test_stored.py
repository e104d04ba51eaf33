"""Frames left in their files: the same frames, tables, splits, batches and graphs as in memory."""

from __future__ import annotations

import subprocess
import sys

import h5py
import numpy as np
import pytest
from morse_frames import isolated_atoms, morse_frames

from mlpot import datasets
from mlpot.datasets import Batches, FrameTable, HDF5Dataset, StoredFrames


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Frames in two files, the second with neighbour lists, and all frames in memory."""
    folder = tmp_path_factory.mktemp("stored")
    first = [*isolated_atoms(), *morse_frames(30, crystals=True)]
    for k in (4, 9):
        first[k] = first[k].replace(energy=None)
    first[6] = first[6].replace(forces=None)
    second = morse_frames(21, seed=5, crystals=True)
    datasets.write(folder / "a.h5", first)
    datasets.write(folder / "b.h5", second, neighbors=4.0)
    return [folder / "a.h5", folder / "b.h5"], [*first, *second]


def assert_same(a, b):
    assert a.config_type == b.config_type and a.energy == b.energy
    for name in ("numbers", "positions", "cell", "pbc", "forces", "stress"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None) and (x is None or np.array_equal(x, y)), name


def test_selections_give_the_frames_in_their_order(files):
    paths, frames = files
    stored = StoredFrames(paths)
    assert len(stored) == len(frames)
    for selection in ([31, 32, 33, 52, 0, 0, 7, 3], np.arange(53)[::-1], np.arange(53), [40]):
        chosen = stored.select(selection)
        assert len(chosen) == len(selection)
        for row, (one, index) in enumerate(zip(chosen, selection, strict=True)):
            assert_same(one, frames[index])
            assert_same(chosen[row], frames[index])
    again = stored.select([5, 32, 40]).select([2, 0])
    assert_same(again[0], frames[40])
    assert_same(again[-1], frames[5])
    assert again.sources() == {str(paths[0]): [5], str(paths[1]): [8]}
    with pytest.raises(ValueError, match="there are 53 frames"):
        StoredFrames(paths, np.array([53]))


def test_tables_and_statistics_are_those_of_the_frames(files):
    paths, frames = files
    order = np.random.default_rng(0).permutation(len(frames))
    stored = StoredFrames(paths).select(order)
    shuffled = [frames[i] for i in order]
    one, other = FrameTable.of(stored), FrameTable.of(shuffled)
    for name in ("n_atoms", "has_forces", "has_stress", "isolated"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert np.array_equal(one.energy, other.energy, equal_nan=True)
    assert one.labels() == other.labels() == {"energy": 51, "forces": 50, "stress": 25}
    assert one.elements == other.elements == [2, 10]
    for row, frame in enumerate(shuffled):
        assert one.formula(int(one.composition[row])) == frame.formula
        assert one.kinds[one.kind[row]] == frame.config_type
    assert datasets.force_rms(stored) == pytest.approx(datasets.force_rms(shuffled), rel=1e-12)
    assert datasets.least_squares_E0s(stored) == pytest.approx(
        datasets.least_squares_E0s(shuffled), rel=1e-12
    )
    assert datasets.split_indices(stored, 0.2, 3) == datasets.split_indices(shuffled, 0.2, 3)
    train, valid = datasets.split(stored, 0.2, 3)
    assert isinstance(train, StoredFrames) and len(train) + len(valid) == len(frames)


def edges(graph) -> set:
    index, shifts = graph.edges, np.array(graph.shifts).astype(int)
    pairs = zip(np.array(index.senders), np.array(index.receivers), shifts, strict=True)
    return {(int(i), int(j), *s.tolist()) for i, j, s in pairs}


@pytest.mark.parametrize("cutoff", [4.0, 3.1, 4.5])  # as stored, less, more
def test_batches_have_the_same_graphs_with_stored_lists(files, cutoff):
    paths, frames = files
    E0s = {2: -3.0, 10: -5.0}
    in_memory = Batches(frames, 4, cutoff, E0s=E0s, seed=1)
    on_disk = Batches(StoredFrames(paths), 4, cutoff, E0s=E0s, seed=1)
    with HDF5Dataset(paths[1]) as store:
        assert store.neighbor_cutoff == 4.0
        assert (store.host_graph(0, store[0], cutoff) is None) == (cutoff > 4.0)
    for a, b in zip(in_memory, on_disk, strict=True):
        assert a.indices == b.indices
        assert edges(a.graph) == edges(b.graph)
        for name in ("positions", "cells", "numbers", "node_graph"):
            assert np.array_equal(
                np.array(getattr(a.graph, name)), np.array(getattr(b.graph, name))
            )
        for name, array in a.labels.arrays().items():
            assert np.array_equal(np.array(array), np.array(getattr(b.labels, name))), name


def test_stored_lists_are_verified_and_checked(files, tmp_path):
    path = tmp_path / "c.h5"
    datasets.write(path, morse_frames(4), neighbors=3.0)
    with HDF5Dataset(path) as store:
        store.verify()
    with h5py.File(path, "r+") as file:
        file["neighbors/senders"][0] += 1
    with HDF5Dataset(path) as store, pytest.raises(ValueError, match=r"neighbors/senders"):
        store.verify()
    with pytest.raises(ValueError, match="cannot hold neighbour lists"):
        datasets.write(tmp_path / "c.xyz", morse_frames(2), neighbors=3.0)
    with pytest.raises(ValueError, match="cutoff above 0"):
        datasets.write(path, morse_frames(2), neighbors=0.0)


def test_the_digest_tells_files_and_selections_apart(files):
    paths, _ = files
    stored = StoredFrames(paths)
    assert stored.digest() == StoredFrames(paths).digest()
    assert stored.digest() != stored.select(np.arange(52)).digest()
    assert stored.digest() != StoredFrames(paths[::-1]).digest()


_EPOCH = """
import resource, sys, time
import numpy as np
from mlpot.datasets import Batches, StoredFrames
stored = StoredFrames([sys.argv[1]])
batches = Batches(stored, 32, 4.0, pad=False)
peaks = []
for number, batch in enumerate(batches):
    if number % (len(batches) // 8) == 0:
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(peaks[1], peaks[-1])
"""


def test_an_epoch_takes_no_more_memory_than_its_beginning(tmp_path):
    rng = np.random.default_rng(0)
    base = morse_frames(1)[0]
    shape = base.positions.shape
    # 8000 frames are some 2 MB of numbers; as frames in memory they would be some 20 MB.
    datasets.write(
        tmp_path / "many.h5",
        (base.replace(positions=base.positions + rng.normal(0, 0.1, shape)) for _ in range(8000)),
    )
    told = subprocess.run(
        [sys.executable, "-c", _EPOCH, tmp_path / "many.h5"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    early, late = map(float, told.stdout.split())
    assert late - early < 6, f"{early} MB, later {late} MB"
