"""Batches of an epoch: everything once, in an order that a seed fixes and a restart finds again."""

import mlx.core as mx
import numpy as np
import pytest

from mlpot.datasets import Batches, Frame, HDF5Dataset, write_hdf5
from mlpot.datasets import batches as batches_module
from mlpot.graph import bucket_size

RNG = np.random.default_rng(5)


def frames(n=23):
    return [
        Frame(
            numbers=np.ones(2 + k % 5, int),
            positions=1.5 * RNG.permutation(60)[: 3 * (2 + k % 5)].reshape(-1, 3),
            energy=float(k),
        )
        for k in range(n)
    ]


def test_every_frame_comes_once_an_epoch():
    batches = Batches(frames(), 5, 3.0, seed=1)
    assert len(batches) == 5
    seen = [batch.indices for batch in batches]
    assert [len(i) for i in seen] == [5, 5, 5, 5, 3]
    assert sorted(i for part in seen for i in part) == list(range(23))
    for batch in batches:
        n = len(batch.indices)
        assert batch.labels.energy[:n].tolist() == list(batch.indices)
        assert batch.labels.energy_mask.tolist() == [True] * n + [False] * (6 - n)


def test_order_depends_on_seed_and_epoch_only():
    data = frames()
    first, second = Batches(data, 5, 3.0, seed=1), Batches(data, 5, 3.0, seed=1)
    list(first.epoch(0))
    assert np.array_equal(first.order(3), second.order(3))
    assert not np.array_equal(first.order(0), first.order(1))
    assert not np.array_equal(first.order(0), Batches(data, 5, 3.0, seed=2).order(0))


def test_a_restart_sees_what_it_would_have_seen():
    data = frames()
    whole = [b.indices for b in Batches(data, 4, 3.0, seed=7).epoch(2)]
    rest = [b.indices for b in Batches(data, 4, 3.0, seed=7).epoch(2, start=3)]
    assert rest == whole[3:]


def test_without_shuffling_frames_stay_in_order():
    seen = [b.indices for b in Batches(frames(5), 2, 3.0, shuffle=False).epoch(9)]
    assert seen == [(0, 1), (2, 3), (4,)]


def test_shapes_are_few():
    batches = Batches(frames(), 5, 200.0)
    graphs = [b.graph for epoch in range(10) for b in batches.epoch(epoch)]
    assert {g.n_graphs for g in graphs} == {6}
    assert all(g.n_atoms == bucket_size(g.n_atoms) for g in graphs)
    assert all(g.n_edges == bucket_size(g.n_edges) for g in graphs)
    assert len({(g.n_atoms, g.n_edges) for g in graphs}) <= 15
    unpadded = next(iter(Batches(frames(), 5, 3.0, pad=False)))
    assert unpadded.graph.n_graphs == 5


def test_the_cache_and_the_store_change_nothing(tmp_path):
    data = frames()
    write_hdf5(tmp_path / "a.h5", data)
    with HDF5Dataset(tmp_path / "a.h5") as stored:
        variants = [
            Batches(data, 6, 3.0, E0s={1: -1.0}, dtype=mx.float64),
            Batches(data, 6, 3.0, E0s={1: -1.0}, dtype=mx.float64, cache=False),
            Batches(stored, 6, 3.0, E0s={1: -1.0}, dtype=mx.float64),
        ]
        list(variants[0])  # fills the cache
        for parts in zip(*variants, strict=True):
            for other in parts[1:]:
                assert other.indices == parts[0].indices
                for of in ("graph", "labels"):
                    a, b = getattr(parts[0], of).arrays(), getattr(other, of).arrays()
                    for name in a:
                        assert np.array_equal(np.array(a[name]), np.array(b[name])), name


def test_wrong_arguments():
    with pytest.raises(ValueError, match="no frames"):
        Batches([], 4, 3.0)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Batches(frames(3), 0, 3.0)


def test_the_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(batches_module, "CACHE_BYTES", 2000)
    data = frames()
    small = Batches(data, 6, 200.0, seed=3)
    first = [b.graph.n_edges for b in small.epoch(0)]
    assert 0 < len(small._cache) < len(data)
    assert sum(g.n_bytes for g in small._cache.values()) <= 2000
    assert [b.graph.n_edges for b in small.epoch(0)] == first
