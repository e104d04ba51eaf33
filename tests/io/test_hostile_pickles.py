"""Pickles from anywhere: nothing that they ask for is called."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
from hostile_files import PTH, Evil, no_storage, pickle_entry, repacked

from mlpot.io.torch_file import read_torch
from mlpot.io.torch_pickle import load_plain


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "call",
    [
        (os.system, "touch {}"),
        (eval, "open('{}', 'w')"),
        (exec, "open('{}', 'w')"),
        (open, "{}", "w"),
        (os.mkdir, "{}"),
        (getattr, "{}", "system"),
    ],
    ids=lambda call: call[0].__name__,
)
def test_calls_are_refused(tmp_path, protocol, call):
    target = tmp_path / "ran"
    function, *arguments = call
    filled = [a.format(target) for a in arguments]
    data = pickle.dumps({"weights": [Evil(function, *filled)]}, protocol=protocol)
    with pytest.raises(ValueError, match=r"no weights need|which no weights"):
        load_plain(data, no_storage)
    assert not target.exists()
    with pytest.raises(ValueError, match="was not read"):
        read_torch(repacked(PTH, tmp_path / "evil.pth", {pickle_entry(PTH): data}))
    assert not target.exists()


@pytest.mark.parametrize(
    "code",
    [
        # A constructor on the list, called with what it is not for.
        b"ctorch._utils\n_rebuild_tensor_v2\n(cnumpy\nndarray\nK\x00)K\x01K\x01tR.",
        b"ccollections\nOrderedDict\n(]]tR.",
        b"cnumpy\ndtype\n(X\x01\x00\x00\x00OtR.",
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00rottR.",
        # State of a name, which would change what it stands for.
        b"ccollections\nOrderedDict\n}X\x01\x00\x00\x00aK\x01sb.",
        # Opcodes that make objects or look them up.
        b"(icollections\nOrderedDict\n.",
        b"(ccollections\nOrderedDict\no.",
        b"\x82\x01.",
        b"ccollections\nOrderedDict\n)\x81.",
        # Tuples in tuples, as a key, as a name, as a size.
        b"}K\x01" + b"\x85" * 200_000 + b"K\x01s.",
        b"K\x01" + b"\x85" * 200_000 + b"X\x01\x00\x00\x00a\x93.",
        b"ctorch\ndevice\nK\x01" + b"\x85" * 200_000 + b"R.",
        # Damage.
        b"]a.",
        b"K\x01",
        b"(t",
        b".",
        b"",
        b"h\x05.",
        b"}]]s.",
        b"\xff\xff\xff",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
    ],
)
def test_odd_pickles_are_refused(code):
    with pytest.raises(ValueError, match=r"pickle|array|bytes|storage|dictionary|key"):
        load_plain(code, no_storage)


def test_plain_content_is_what_pickle_gives():
    content = {
        "a": [1, -(2**40), 2.5, True, None, "ü", b"x", (1, (2, 3, 4, 5)), ()],
        "b": {"c": [], 3: {}},
        "array": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        "number": np.float64(1.5),
    }
    for protocol in (2, 3, 4):
        found = load_plain(pickle.dumps(content, protocol=protocol), no_storage)
        for key in ("array", "fortran"):
            np.testing.assert_array_equal(found[key], content[key])
            assert found[key].dtype == content[key].dtype
        assert {**found, "array": 0, "fortran": 0} == {**content, "array": 0, "fortran": 0}


def test_objects_and_big_endian_arrays_are_refused():
    for array in (np.array([{}], dtype=object), np.arange(3, dtype=">f8")):
        with pytest.raises(ValueError, match=r"dtype|byte order"):
            load_plain(pickle.dumps(array, protocol=2), no_storage)


def test_a_list_that_holds_itself_is_read():
    own: list = []
    own.append(own)
    found = load_plain(pickle.dumps(own, protocol=2), no_storage)
    assert found[0] is found


def tensor_pickle(shape, stride, count, key="0"):
    """A pickle of one tensor as PyTorch writes it, with any sizes."""

    def integers(values):
        return b"(" + b"".join(b"J" + struct.pack("<i", v) for v in values) + b"t"

    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00"
    storage += key.encode() + b"X\x03\x00\x00\x00cpuJ" + struct.pack("<i", count) + b"tQ"
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + b"K\x00"
        + integers(shape)
        + integers(stride)
        + b"\x89NtR."
    )


@pytest.mark.parametrize(
    ("shape", "stride", "count", "problem"),
    [
        ((2**30, 2**30), (0, 0), 4, "reaches beyond its storage"),
        ((5,), (1,), 4, "reaches beyond its storage"),
        ((2, 2), (2, -1), 4, "shape"),
        ((-1,), (1,), 4, "shape"),
        ((4,), (1, 1), 4, "shape"),
        ((4,), (1,), 2**30, "more than its 16 bytes"),
    ],
)
def test_impossible_tensors_are_refused(tmp_path, shape, stride, count, problem):
    path = tmp_path / "model.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", tensor_pickle(shape, stride, count))
        archive.writestr("m/data/0", np.arange(4, dtype=np.float32).tobytes())
    with pytest.raises(ValueError, match=problem):
        read_torch(path)


def test_possible_tensors_are_read(tmp_path):
    path = tmp_path / "model.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", tensor_pickle((2, 2), (1, 2), 4))
        archive.writestr("m/data/0", np.arange(4, dtype=np.float32).tobytes())
    np.testing.assert_array_equal(read_torch(path), [[0, 2], [1, 3]])
