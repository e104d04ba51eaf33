"""Frames of a run: held in memory, or left in their files and read when they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlpot import datasets
from mlpot.datasets import Frame, FrameTable, HDF5Dataset, StoredFrames
from mlpot.datasets.reading import HDF5_SUFFIXES, expand, suffix_of

#: Frames of HDF5 files beyond which they stay in their files unless asked otherwise.
MOST_IN_MEMORY = 100_000
#: Frames of those that are looked at one by one where a sample tells as much.
SAMPLE = 10_000


def load_frames(
    files: Sequence[str], options: Mapping[str, str], in_memory: bool | None
) -> Sequence[Frame]:
    """Frames of files, isolated atoms among them.

    Args:
        files: names and patterns.
        options: keys and units, see `mlpot.datasets.read`.
        in_memory: whether all frames are read now; None: unless they are very many.

    Raises:
        FileNotFoundError: a file does not exist.
        ValueError: a file is damaged, or is to be left on the disk and is not HDF5 of mlpot.
    """
    if in_memory:
        return datasets.read(files, **options)
    paths = expand(files)
    other = [path for path in paths if suffix_of(path) not in HDF5_SUFFIXES or path.suffix == ".gz"]
    if in_memory is False and other:
        raise ValueError(
            f"{other[0]}: only HDF5 of mlpot can stay on the disk: convert it "
            f"(mlpot convert {other[0]} {other[0].stem}.h5), or leave in_memory out"
        )
    if other:
        return datasets.read(files, **options)
    stores = [HDF5Dataset(path) for path in paths]
    if in_memory is None and sum(map(len, stores)) <= MOST_IN_MEMORY:
        for store in stores:
            store.close()
        return datasets.read(files, **options)
    for path in paths:
        next(datasets.iterate([path], **options))  # refuses units that the file does not have
    return StoredFrames(stores)


def has_products(frames: Sequence[Frame]) -> bool:
    """Whether any frame has Hessian-vector products, or its file."""
    if isinstance(frames, StoredFrames):
        return any(store.has_products for store in frames.stores)
    return any(frame.hvps is not None for frame in frames)


def without_isolated(frames: Sequence[Frame]) -> tuple[Sequence[Frame], list[Frame]]:
    """Frames to train on, and isolated atoms."""
    alone = FrameTable.of(frames).isolated
    if isinstance(frames, StoredFrames):
        return frames.select(np.flatnonzero(~alone)), list(frames.select(np.flatnonzero(alone)))
    usable = [frame for frame, one in zip(frames, alone, strict=True) if not one]
    return usable, [frame for frame, one in zip(frames, alone, strict=True) if one]


def sampled(frames: Sequence[Frame], most: int | None = None) -> Sequence[Frame]:
    """The frames themselves, or some of them, evenly spaced, where very many lie on the disk."""
    most = SAMPLE if most is None else most
    if not isinstance(frames, StoredFrames) or len(frames) <= most:
        return frames
    return frames.select(np.linspace(0, len(frames) - 1, most).round().astype(np.int64))


def describe(frames: Sequence[Frame]) -> str:
    """The summary of frames; of very many on the disk that of a sample, and it says so."""
    some = sampled(frames)
    text = str(datasets.summary(some))
    if len(some) == len(frames):
        return text
    labels = ", ".join(f"{name} {n}" for name, n in FrameTable.of(frames).labels().items())
    return f"{len(frames)} frames, read when used (labels: {labels}); {len(some)} of them:\n{text}"


def sources(frames: Sequence[Frame]) -> list[str] | dict[str, list[int]]:
    """Where frames come from: ``file:index``, or the indices by file where they lie on the disk."""
    if isinstance(frames, StoredFrames):
        return frames.sources()
    return [frame.source for frame in frames]
