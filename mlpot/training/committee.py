"""Runs of one potential or of several that differ by the seed of their weights."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mlpot.config import load_yaml
from mlpot.files import atomic_write

from .config import TrainConfig
from .disagreement import combine, disagreement_row, disagreement_table, write_disagreement
from .errors import ErrorRow
from .evaluate import compare, predict
from .interrupt import Interrupted
from .loading import sampled
from .parallel import find_ranks
from .preparation import read_data
from .run_folder import RunFolder
from .runs import Run, compute_device, resume_one, silent, train_one
from .tables import rich_table, write_errors

if TYPE_CHECKING:
    from rich.console import Console

#: File in the folder of a committee that names the folders of its members.
MEMBERS = "committee.json"


def train(config: TrainConfig, overwrite: bool = False, console: Console | None = None) -> Run:
    """Train a potential as a configuration says, or a committee where ``n_models`` is above 1.

    Nothing is written before the configuration, the data and the model are found to be good.
    The members of a committee have the same training and validation frames and other first
    weights; they are trained one after another in the folders ``member1``, ``member2``, ... of the
    run's folder.

    Args:
        config: see `load_config`; ``out`` must be given.
        overwrite: replace a run that lies in the folder; its files are removed, others stay.
        console: where to print; nothing is printed by default.

    Returns:
        The run.

    Raises:
        FileNotFoundError: a data file does not exist.
        ValueError: anything wrong with configuration, data or folder, or a loss that is not finite.
        Interrupted: SIGINT or SIGTERM came; the state is saved.
    """
    if config.n_models == 1:
        return train_one(config, overwrite, console)
    if config.out is None:
        raise ValueError("out is not given: name the folder of the run")
    root = Path(config.out)
    members = [f"member{number}" for number in range(1, config.n_models + 1)]
    ranks = find_ranks()
    folder = RunFolder(root, writes=ranks.first)
    with ranks:
        if ranks.first and not overwrite:
            folder.refuse_existing()
            for name in members:
                RunFolder(root / name).refuse_existing()
        read_data(config)  # what is wrong with it is said before anything is written
        if ranks.first:
            folder.start()
            folder.metrics.unlink()  # each member has its own
            folder.write_config(config.plain())
            for name in members:
                RunFolder(root / name).last.unlink(missing_ok=True)
            with atomic_write(root / MEMBERS, "w") as file:
                json.dump({"members": members}, file, indent=1)
    return _members(config, members, root, console, overwrite)


def resume(path: str | os.PathLike[str], console: Console | None = None) -> Run:
    """Go on with an interrupted run, exactly as if it had not been interrupted.

    Args:
        path: folder of the run, of one potential or of a committee.
        console: where to print; nothing is printed by default.

    Returns:
        The run.

    Raises:
        FileNotFoundError: there is no run, or a data file is gone.
        ValueError: the checkpoint is damaged, or the data are not what they were.
        Interrupted: SIGINT or SIGTERM came; the state is saved.
    """
    root = Path(path)
    if not (root / MEMBERS).is_file():
        return resume_one(path, console)
    members = json.loads((root / MEMBERS).read_text(encoding="utf-8"))["members"]
    config = load_yaml(root / "config.yaml", TrainConfig)
    return _members(config, members, root, console, overwrite=True)


def _members(
    config: TrainConfig,
    names: list[str],
    root: Path,
    console: Console | None,
    overwrite: bool,
) -> Run:
    runs = []
    first = config.seed if config.model_seed is None else config.model_seed
    for number, name in enumerate(names):
        place = RunFolder(root / name)
        if console is not None:
            console.rule(f"member {number + 1} of {len(names)}", align="left")
        own = {"n_models": 1, "out": str(place.path), "model_seed": first + number}
        try:
            if place.last.is_file():
                runs.append(resume_one(place.path, console))
            else:
                runs.append(train_one(config.model_copy(update=own), overwrite, console))
        except Interrupted as stop:
            raise Interrupted(
                stop.exit_code - 128,
                f"member {number + 1} of {len(names)}: {stop}".replace(str(place.path), str(root)),
            ) from None
    ranks = find_ranks()
    rows = _finish(config, runs, root, console or silent()) if ranks.first else []
    reason = "; ".join(f"{name}: {run.reason}" for name, run in zip(names, runs, strict=True))
    return Run(RunFolder(root), runs[0].potential, rows, reason, tuple(runs))


def _finish(config: TrainConfig, runs: list[Run], root: Path, console: Console) -> list[ErrorRow]:
    """Errors of the mean of the members, beside theirs, and what they disagree about."""
    import mlx.core as mx

    rows: list[ErrorRow] = []
    told, frames_of = [], {}
    with mx.stream(compute_device(config)):
        data = read_data(config)
        for name, frames in data.sets().items():
            if name == "train":
                continue
            frames = sampled(frames)
            size = config.valid_batch_size or config.batch_size
            said = [predict(run.potential, frames, size) for run in runs]
            mean, spread = combine(frames, said)
            rows += compare(name, frames, mean, "committee")
            for number, one in enumerate(said):
                rows += compare(name, frames, one, f"member{number + 1}")[:1]
            told.append(disagreement_row(name, frames, mean, spread))
            frames_of[name] = (frames, mean, spread)
    write_errors(root, rows)
    write_disagreement(root, frames_of)
    console.print(rich_table(rows))
    console.print(disagreement_table(told))
    console.print(
        f"{len(runs)} members, to be used together: --model {root}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    return rows
