"""The HDF5 store: exact round trips, random access, provenance, and damage that is noticed."""

import h5py
import numpy as np
import pytest

from mlpot.datasets import Frame, HDF5Dataset, HDF5Writer, read, write_hdf5


def frames(n=7, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for k in range(n):
        size = int(rng.integers(1, 6))
        made.append(
            Frame(
                numbers=rng.integers(1, 100, size),
                positions=rng.normal(size=(size, 3)),
                cell=rng.normal(size=(3, 3)) + 4 * np.eye(3),
                pbc=rng.random(3) < 0.5,
                energy=None if k % 4 == 1 else rng.normal(),
                forces=None if k % 4 == 2 else rng.normal(size=(size, 3)),
                stress=None if k % 2 else rng.normal(size=6),
                config_type=["Default", "hot", "größer"][k % 3],
                weight=rng.random(),
                energy_weight=rng.random(),
                forces_weight=rng.random(),
                stress_weight=rng.random(),
            )
        )
    return made


def same(a: Frame, b: Frame):
    for name in vars(a):
        if name not in ("source", "notes"):
            x, y = getattr(a, name), getattr(b, name)
            assert (x is None) == (y is None), name
            assert x is None or np.array_equal(x, y), name


def test_round_trip_is_exact(tmp_path):
    path = tmp_path / "a.h5"
    originals = frames()
    assert write_hdf5(path, originals, {"method": "random", "seed": 0}) == 7
    with HDF5Dataset(path) as stored:
        assert len(stored) == 7
        assert stored.provenance == {"method": "random", "seed": 0}
        assert stored.atom_counts.tolist() == [f.n_atoms for f in originals]
        stored.verify()
        for index, (original, back) in enumerate(zip(originals, stored, strict=True)):
            same(original, back)
            assert back.source == f"{path}:{index}"
    for original, back in zip(originals, read(path), strict=True):
        same(original, back)


def test_random_access(tmp_path):
    originals = frames(20)
    write_hdf5(tmp_path / "a.h5", iter(originals))
    with HDF5Dataset(tmp_path / "a.h5") as stored:
        for index in (13, 0, 19, -1, -20, np.int64(4)):
            same(stored[index], originals[index])
        for part in (
            slice(3, 8),
            slice(None, None, 5),
            slice(18, 30),
            slice(9, 3),
            slice(5, 1, -2),
        ):
            picked = stored[part]
            assert len(picked) == len(originals[part])
            for a, b in zip(picked, originals[part], strict=True):
                same(a, b)
        for index in (20, -21):
            with pytest.raises(IndexError, match=f"frame {index} of 20"):
                stored[index]


def test_frames_survive_the_file_being_closed_and_many_flushes(tmp_path):
    # More atoms than one flush holds, so that arrays grow in several pieces.
    big = [
        Frame(np.full(5000, 29), np.arange(15000.0).reshape(-1, 3) + k, energy=float(k))
        for k in range(40)
    ]
    write_hdf5(tmp_path / "a.h5", big)
    with HDF5Dataset(tmp_path / "a.h5") as stored:
        stored.verify()
        last, all_of_them = stored[39], list(stored)
    assert last.energy == 39
    assert last.positions[0].tolist() == [39, 40, 41]
    assert [f.energy for f in all_of_them] == list(range(40))


def test_the_same_frames_give_the_same_bytes(tmp_path):
    for name in ("a.h5", "b.h5"):
        write_hdf5(tmp_path / name, frames(), {"b": 1, "a": 2})
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.h5"
    write_hdf5(path, frames())
    before = path.read_bytes()

    def broken():
        yield from frames(3)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_hdf5(path, broken())
    with pytest.raises(ValueError, match="no frames to write"):
        write_hdf5(path, [])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5"]


def test_nothing_appears_before_the_end(tmp_path):
    with HDF5Writer(tmp_path / "a.h5") as writer:
        writer.append(frames()[0])
        assert not (tmp_path / "a.h5").exists()
    assert (tmp_path / "a.h5").exists()


def test_provenance_must_be_plain_data(tmp_path):
    with pytest.raises(TypeError, match="JSON"):
        HDF5Writer(tmp_path / "a.h5", {"array": np.zeros(3)})
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_hdf5(tmp_path / "nowhere" / "a.h5", frames())


def test_flipped_bits_are_noticed(tmp_path):
    path = tmp_path / "a.h5"
    write_hdf5(path, frames(200))
    with h5py.File(path) as file:
        chunk = file["atoms/positions"].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    data[chunk.byte_offset + chunk.size // 2] ^= 0x10
    path.write_bytes(data)
    with HDF5Dataset(path) as stored:
        with pytest.raises(ValueError, match=r"a\.h5: the file is damaged: atoms/positions"):
            stored[0]
        with pytest.raises(ValueError, match="damaged"):
            stored.verify()


def test_edited_numbers_are_noticed_by_verify(tmp_path):
    path = tmp_path / "a.h5"
    write_hdf5(path, frames())
    with h5py.File(path, "r+") as file:
        file["frames/energy"][0] = 7.0
    with (
        HDF5Dataset(path) as stored,
        pytest.raises(ValueError, match="digest of frames/energy"),
    ):
        stored.verify()


def test_files_that_are_not_ours_or_cut_off(tmp_path):
    path = tmp_path / "a.h5"
    with pytest.raises(FileNotFoundError, match="no file"):
        HDF5Dataset(path)
    path.write_text("hello")
    with pytest.raises(ValueError, match="not a readable HDF5 file"):
        HDF5Dataset(path)
    with h5py.File(path, "w") as file:
        file["x"] = 1
    with pytest.raises(ValueError, match="not a data set of mlpot"):
        HDF5Dataset(path)
    write_hdf5(path, frames())
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="not a readable HDF5 file"):
        HDF5Dataset(path)


def test_newer_versions_and_missing_parts_are_named(tmp_path):
    path = tmp_path / "a.h5"
    write_hdf5(path, frames())
    with h5py.File(path, "r+") as file:
        file.attrs["version"] = 2
    with pytest.raises(ValueError, match=r"format version 2.*upgrade mlpot"):
        HDF5Dataset(path)
    with h5py.File(path, "r+") as file:
        file.attrs["version"] = 1
        file["frames/energy"].resize(3, axis=0)
    with pytest.raises(ValueError, match="frames/energy does not have 7 rows"):
        HDF5Dataset(path)
    with h5py.File(path, "r+") as file:
        del file["frames/energy"]
    with pytest.raises(ValueError, match=r"damaged.*energy"):
        HDF5Dataset(path)


def test_units_are_not_applied_twice(tmp_path):
    write_hdf5(tmp_path / "a.h5", frames())
    with pytest.raises(ValueError, match="in eV and Angstrom already"):
        read(tmp_path / "a.h5", energy_unit="kcal/mol")
    assert len(read(tmp_path / "a.h5", energy_unit="eV")) == 7


def test_trajectories_are_told_from_data_sets(tmp_path):
    with h5py.File(tmp_path / "trajectory.h5", "w") as file:
        file.create_group("h5md")
    with pytest.raises(ValueError, match=r"is a trajectory of molecular dynamics"):
        read(tmp_path / "trajectory.h5")
