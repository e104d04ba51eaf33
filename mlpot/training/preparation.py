"""From a configuration to data, statistics and an untrained potential."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from mlpot import datasets
from mlpot.datasets import Frame, FrameTable, StoredFrames
from mlpot.elements import format_elements, symbol
from mlpot.models import Potential, PotentialConfig

from .config import TrainConfig, as_list
from .loading import has_products, load_frames, sampled, sources, without_isolated
from .names import set_names
from .starting import started_potential


@dataclass
class TrainingData:
    """Frames of a run.

    Args:
        train: frames to train on.
        valid: frames to validate on.
        isolated: isolated atoms among the training data.
        tests: test sets by name.
        split: where training and validation frames come from, for the run's folder.
        old: frames that a model knew before, to rehearse.
        shifts: added to the energies of old frames, for each atom by its element, eV.
        notes: what is to be said about the model.
    """

    train: Sequence[Frame]
    valid: Sequence[Frame]
    isolated: list[Frame]
    tests: dict[str, Sequence[Frame]]
    split: dict[str, list[str] | dict[str, list[int]]]
    old: Sequence[Frame] = ()
    shifts: dict[int, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def sets(self) -> dict[str, Sequence[Frame]]:
        """Frames by set: train, valid and the test sets."""
        return {"train": self.train, "valid": self.valid, **self.tests}

    def digest(self) -> str:
        """Changes if any number in training or validation frames does."""
        digest = hashlib.sha256()
        for frames in (self.train, self.valid, *([self.old] if self.old else [])):
            if isinstance(frames, StoredFrames):
                digest.update(frames.digest().encode())
            else:
                _add_numbers(digest, frames)
        return digest.hexdigest()


def _add_numbers(digest, frames: Sequence[Frame]) -> None:
    for frame in frames:
        for array in (frame.numbers, frame.positions, frame.cell, frame.pbc):
            digest.update(np.ascontiguousarray(array).tobytes())
        for label in (frame.energy, frame.forces, frame.stress):
            digest.update(b"-" if label is None else np.float64(label).tobytes())
        if frame.hvps is not None:
            digest.update(np.ascontiguousarray([frame.hvp_vectors, frame.hvps]).tobytes())
            digest.update(np.float64(frame.hvps_weight).tobytes())
        weights = (frame.weight, frame.energy_weight, frame.forces_weight, frame.stress_weight)
        digest.update(np.float64(weights).tobytes())  # pyright: ignore[reportArgumentType]


def read_data(config: TrainConfig) -> TrainingData:
    """Read and check all frames that a configuration names.

    Raises:
        FileNotFoundError: a file does not exist.
        ValueError: a file is damaged; a weight is not 0 and there are no such labels; a
            validation or test frame has an element that no training frame has; too few frames.
    """
    options = {
        name: value
        for section in (config.keys, config.units)
        for name, value in section.model_dump().items()
        if value is not None
    }

    def read(files) -> Sequence[Frame]:
        return load_frames(as_list(files), options, config.in_memory)

    usable, isolated = without_isolated(read(config.train_file))
    if not usable:
        raise ValueError(f"{_names(config.train_file)}: no frames but isolated atoms to train on")
    if config.valid_file is None:
        train, valid = datasets.split(usable, config.valid_fraction, config.seed)
    else:
        train, (valid, _) = usable, without_isolated(read(config.valid_file))
        if not valid:
            raise ValueError(f"{_names(config.valid_file)}: no frames but isolated atoms")
    if config.n_train is not None:
        train = _some(train, config.n_train, config.seed)
    tests = {}
    for name, file in zip(set_names(config.test_files()), config.test_files(), strict=True):
        tests[name] = read(file)
    kinds = FrameTable.of(train).kinds
    if unknown := sorted(config.config_type_weights.keys() - set(kinds)):
        raise ValueError(
            f"config_type_weights: no training frame is of the type {', '.join(unknown)}; there "
            f"are {', '.join(sorted(kinds))}"
        )
    _check_labels(config, train)
    _check_elements(train, {"validation": valid, **tests})
    split = {part: sources(frames) for part, frames in (("train", train), ("valid", valid))}
    old: Sequence[Frame] = ()
    if config.rehearsal is not None:
        old, _ = without_isolated(read(config.rehearsal.file))
        if not old:
            raise ValueError(f"{_names(config.rehearsal.file)}: no frames but isolated atoms")
    return TrainingData(train, valid, isolated, tests, split, old)


def _some(frames: Sequence[Frame], n: int, seed: int) -> Sequence[Frame]:
    if n > len(frames):
        raise ValueError(f"n_train is {n}, but there are {len(frames)} frames to train on")
    rows = np.sort(np.random.default_rng(seed).permutation(len(frames))[:n])
    if isinstance(frames, StoredFrames):
        return frames.select(rows)
    return [frames[int(row)] for row in rows]


def make_potential(config: TrainConfig, data: TrainingData) -> Potential:
    """The potential at the start: statistics of the data, weights from the seed; or another model.

    Raises:
        ValueError: reference energies are missing.
    """
    numbers = _elements(data.train)
    # Trained on energies alone, the scale is only the unit of the network.
    has_forces = bool(FrameTable.of(data.train).has_forces.any())
    mx.random.seed(config.seed)
    if config.model_seed is not None:
        mx.random.seed(config.model_seed)
    if config.start_from is not None:
        asked = None if _fits_E0s(config, data) else reference_energies(config, data, numbers)
        known = _elements(data.old) if data.old else []
        start = started_potential(config, list(sampled(data.train)), asked, known)
        potential, data.notes, data.shifts = start
    else:
        potential = Potential(
            PotentialConfig(
                numbers=numbers,
                cutoff=config.r_max,
                model=config.model,
                E0s=reference_energies(config, data, numbers),
                scale=datasets.force_rms(data.train) if has_forces else 1.0,
                avg_num_neighbors=_neighbors(config, data),
                zbl=config.zbl,
            )
        )
    if config.dtype == "float64":
        potential.set_dtype(mx.float64)
    mx.eval(potential.parameters())
    return potential


def reference_energies(
    config: TrainConfig, data: TrainingData, numbers: list[int]
) -> dict[int, float]:
    """Energies of isolated atoms, eV, as the configuration wants them.

    Raises:
        ValueError: elements without one.
    """
    if _fits_E0s(config, data):
        return datasets.least_squares_E0s(data.train, numbers)
    if isinstance(config.E0s, dict):
        found, origin = dict(config.E0s), "E0s"
    else:
        found, origin = datasets.isolated_atom_energies(data.isolated), "frames of isolated atoms"
    missing = [z for z in numbers if z not in found]
    if missing:
        named = ", ".join(f"{symbol(z)}: ..." for z in missing)
        raise ValueError(
            f"{origin} give no energy of {format_elements(missing)}: set E0s to all elements "
            f"({named}) or to least_squares"
        )
    return {z: found[z] for z in numbers}


def _fits_E0s(config: TrainConfig, data: TrainingData) -> bool:
    """Whether energies of isolated atoms are fitted to the training frames."""
    if config.E0s != "auto":
        return config.E0s == "least_squares"
    return not datasets.isolated_atom_energies(data.isolated)


def doubt_about_E0s(config: TrainConfig, data: TrainingData) -> str:
    """A warning where fitted E0s are arbitrary, else nothing."""
    unclear = datasets.undetermined_elements(data.train) if _fits_E0s(config, data) else []
    if not unclear:
        return ""
    return (
        f"Warning: the compositions do not fix the E0 of {format_elements(unclear)} one by one; "
        "energies hold for these compositions only. Add frames of isolated atoms, or set E0s."
    )


def statistics(potential: Potential, data: TrainingData) -> dict:
    """What the model took from the data, for the run's folder."""
    config = potential.config
    return {
        "E0s [eV]": {symbol(z): config.E0s[z] for z in _elements(data.train) if z in config.E0s},
        "scale, RMS force [eV/Angstrom]": config.scale,
        "average number of neighbors": config.avg_num_neighbors,
        "cutoff [Angstrom]": config.cutoff,
        "frames": {"train": len(data.train), "valid": len(data.valid)}
        | {name: len(frames) for name, frames in data.tests.items()},
        "parameters": count_parameters(potential),
    }


def rounded(value: object) -> str:
    """Numbers with six digits after the point at most, for reading."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {rounded(one)}" for key, one in value.items())
    return str(round(value, 6)) if isinstance(value, float) else str(value)


def count_parameters(potential: Potential) -> int:
    """Number of trained numbers."""
    leaves: Any = tree_flatten(potential.trainable_parameters())
    return sum(array.size for _, array in leaves)


def uses_stress(config: TrainConfig, data: TrainingData) -> bool:
    """Whether stresses have to be computed."""
    return config.counts("stress") and bool(FrameTable.of(data.train).has_stress.any())


def uses_hvps(config: TrainConfig, data: TrainingData) -> bool:
    """Whether Hessian-vector products have to be computed."""
    return config.counts("hvps") and has_products(data.train)


def _neighbors(config: TrainConfig, data: TrainingData) -> float:
    neighbors = datasets.average_neighbors(data.train, config.r_max)
    if neighbors == 0:
        raise ValueError(f"no two atoms are closer than r_max = {config.r_max} Angstrom: raise it")
    return neighbors


def _check_labels(config: TrainConfig, train: Sequence[Frame]) -> None:
    asked = {term for term in config.weights() if config.counts(term)}
    if config.stress_weight is None:
        asked -= {"stress"}  # molecules have none, and nobody asked for them
    if config.hvps_weight is None:
        asked -= {"hvps"}
    labels = FrameTable.of(train).labels()
    if "hvps" in asked:
        labels["hvps"] = int(has_products(train))
    for term in config.weights():
        if term in asked and labels[term] == 0:
            raise ValueError(
                f"no training frame has {'an energy' if term == 'energy' else term}: name the key "
                f"in the files (keys: {{{term}_key: ...}}) or set {term}_weight to 0"
            )


def _check_elements(train: Sequence[Frame], others: dict[str, Sequence[Frame]]) -> None:
    known = set(_elements(train))
    for name, frames in others.items():
        if known.issuperset(_elements(frames)):
            continue
        for frame in frames:
            unknown = set(frame.numbers.tolist()) - known
            if unknown and not frame.is_isolated_atom:
                raise ValueError(
                    f"{name} frame {frame.source}: {format_elements(unknown)} is in no training "
                    f"frame (these have {format_elements(known)})"
                )


def _elements(frames: Sequence[Frame]) -> list[int]:
    return FrameTable.of(frames).elements


def _names(files) -> str:
    return ", ".join(as_list(files))
