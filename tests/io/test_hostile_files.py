"""Files from anywhere: whatever is in them, no code runs and memory stays in bounds."""

from __future__ import annotations

import io as bytes_io
import json
import resource
import zipfile

import numpy as np
import pytest
from hostile_files import NQX, PTH, repacked

from mlpot import io
from mlpot.io.sevennet import from_sevennet
from mlpot.io.torch_file import read_torch


def test_compressed_archives_are_refused(tmp_path):
    path = tmp_path / "bomb.pth"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data.pkl", b"\x80\x02]." + b"\0" * 10**7)
    with pytest.raises(ValueError, match="compressed or larger"):
        read_torch(path)


def test_torchscript_is_told_apart(tmp_path):
    path = tmp_path / "deployed.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02].")
        archive.writestr("m/code/model.py", b"import os")
    with pytest.raises(ValueError, match="TorchScript"):
        io.import_potential(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("path", [NQX, PTH], ids=lambda p: p.suffix)
def test_truncated_files_are_refused(tmp_path, path, share):
    data = path.read_bytes()
    short = tmp_path / path.name
    short.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ValueError, match=path.name):
        io.import_potential(short)


@pytest.mark.parametrize("suffix", [".nqx", ".pth", ".npz"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{}\n", b"[" * 100_000 + b"\n", b"\x93NUMPY", b"PK\x03\x04 no zip", b"\xff" * 99],
    ids=["empty", "line", "json", "nested", "magic", "zip", "noise"],
)
def test_other_content_is_refused(tmp_path, suffix, content):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\."):
        io.import_potential(path)


def test_other_endings_and_missing_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"give a file of Nequix \(.nqx\)"):
        io.import_potential(tmp_path / "model.bin")
    for name in ("a.nqx", "a.pth", "a.npz"):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            io.import_potential(tmp_path / name)


def nqx_parts():
    header, rest = NQX.read_bytes().split(b"\n", 1)
    return json.loads(header), rest


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"n_layers": 10**9}, "n_layers"),
        ({"cutoff": -1.0}, "cutoff"),
        ({"cutoff": float("nan")}, "cutoff"),
        ({"radial_mlp_size": 10**12}, "radial_mlp_size"),
        ({"hidden_irreps": "4x1o"}, "0e"),
        ({"hidden_irreps": "99999999999x0e"}, "too large"),
        ({"atomic_numbers": [11, 11, 14]}, "twice"),
        ({"index_weights": True}, "index_weights"),
        ({"radial_polynomial_p": 5.5}, "radial_polynomial_p"),
        ({"n_layers": 2}, "."),
        ({"n_layers": 4}, "."),
        ({"lmax": 3}, "."),
    ],
    ids=str,
)
def test_wrong_headers_are_refused(tmp_path, change, problem):
    header, rest = nqx_parts()
    path = tmp_path / "model.nqx"
    path.write_bytes(json.dumps(header | change).encode() + b"\n" + rest)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=problem):
        io.import_potential(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


def npy(array, shape=None):
    stream = bytes_io.BytesIO()
    np.save(stream, array)
    content = stream.getvalue()
    if shape is None:
        return content
    old, new = str(array.shape).encode(), str(shape).encode()
    # The header is padded with blanks, some of which make room.
    return content.replace(old + b", }" + b" " * (len(new) - len(old)), new + b", }")


@pytest.mark.parametrize(
    "array",
    [
        npy(np.zeros(3, dtype=np.float32), (3_000_000_000,)),
        npy(np.zeros(3)),
        npy(np.array([{}], dtype=object)),
        npy(np.full(3, np.nan, dtype=np.float32)),
        npy(np.zeros(4, dtype=np.float32)),
    ],
    ids=["huge", "float64", "object", "nan", "another size"],
)
def test_wrong_arrays_are_refused(tmp_path, array):
    header, rest = nqx_parts()
    first = npy(np.zeros(3, dtype=np.float32))
    path = tmp_path / "model.nqx"
    path.write_bytes(json.dumps(header).encode() + b"\n" + array + rest[len(first) :])
    with pytest.raises(ValueError, match=r"damaged|finite|energies for 3"):
        io.import_potential(path)


def test_weights_that_are_not_finite_are_refused(tmp_path):
    with zipfile.ZipFile(PTH) as archive:
        sizes = {n: archive.getinfo(n).file_size for n in archive.namelist() if "/data/" in n}
        largest = max(sizes, key=lambda n: sizes[n])
    bad = np.full(sizes[largest] // 4, np.nan, dtype=np.float32).tobytes()
    with pytest.raises(ValueError, match="not finite"):
        io.import_potential(repacked(PTH, tmp_path / "model.pth", {largest: bad}))


def test_missing_content_is_refused(tmp_path):
    with zipfile.ZipFile(PTH) as archive:
        name = next(n for n in archive.namelist() if "/data/" in n)
    with pytest.raises(ValueError, match="is missing"):
        io.import_potential(repacked(PTH, tmp_path / "model.pth", {name: None}))


def test_huge_arrays_in_npz_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy(np.zeros(3, dtype=np.float32), (3_000_000_000,)))
    with pytest.raises(ValueError, match="claims the shape"):
        io.import_potential(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy(np.array([{}], dtype=object)))
    with pytest.raises(ValueError, match="only plain numbers"):
        io.import_potential(path)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("num_convolution_layer", 10**6, "can read"),
        ("weight_nn_hidden_neurons", [10**9, 10**9], "too large"),
        ("irreps_manual", ["9999999x0e"] * 4, "too large"),
        ("use_modality", True, "use_modality"),
        ("_normalize_sph", False, "_normalize_sph"),
        ("act_radial", "ssp", "act_radial"),
        ("version", "new", "which version"),
        ("lmax_edge", 3, "lmax"),
        ("irreps_manual", ["4x0e", "4x0e+3x1e", "4x0e", "4x0e"], "from layer to layer"),
        ("cutoff_function", {"cutoff_function_name": "cosine"}, "radial functions"),
        ("_type_map", None, "can read"),
        ("cutoff", "far", "far"),
    ],
)
def test_variants_of_sevennet_are_told_apart(key, value, problem):
    content = read_torch(PTH)
    with pytest.raises(ValueError, match=problem):
        from_sevennet(content["config"] | {key: value}, content["model_state_dict"], "model")
