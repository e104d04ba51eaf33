"""From a configuration to a run: folders, limits of memory, the model's precision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from mlpot import io
from mlpot.config import validate
from mlpot.files import atomic_write, remove_temporaries
from mlpot.models import Potential

from .committee_config import CommitteeSection
from .config import MDConfig
from .file_names import CONFIG, START
from .folder_lock import folder_lock
from .restart import load_restart
from .run_files import RESTART, earlier_results, results
from .simulation import Simulation
from .structure import Structure
from .write_errors import naming

if TYPE_CHECKING:
    from rich.console import Console

#: Key in a model file's metadata that holds the closest pair of its training data, Angstrom.
CLOSEST_PAIR = "closest_pair"
#: Settings that may be others when a run goes on: its state does not depend on them.
CHANGEABLE = ("timestep", "max_temperature", "memory_limit", "cache_limit")


def start_run(
    config: MDConfig,
    structure: Structure,
    *,
    overwrite: bool = False,
    console: Console | None = None,
) -> dict[str, Any]:
    """Run molecular dynamics as configured; nothing is written if it cannot start.

    Args:
        config: of the run.
        structure: what it begins with.
        overwrite: replace results that lie in the folder.
        console: of rich, for progress and warnings.

    Returns:
        The summary, which is also written.

    Raises:
        ValueError: results in the way, another run in the folder, a model that does not fit, a
            structure that cannot be started from.
        StoppedRun: energies or atoms ran away.
    """
    folder = Path(config.out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output {config.out!r} is a file: name a folder")
    with ExitStack() as held:
        new = not folder.is_dir()
        if not new:
            held.enter_context(folder_lock(folder))
        there = _in_the_way(config, overwrite)
        # Found from the folder of the run, wherever that is resumed from.
        if Path(config.model).exists():
            config = config.model_copy(update={"model": str(Path(config.model).absolute())})
        if config.committee is not None:
            config = config.model_copy(update={"committee": _found(config.committee)})
        potential, closest = _model(config, structure)
        members = _members(config, structure)
        simulation = Simulation(config, structure, potential, folder, console, closest, members)

        def claim() -> None:
            folder.mkdir(parents=True, exist_ok=True)
            if new:
                held.enter_context(folder_lock(folder))
                _in_the_way(config, overwrite)
            for name in there:
                (folder / name).unlink(missing_ok=True)
            _remove_temporaries(folder, config)
            with naming(folder / START):
                structure.save(folder / START)
            _save_config(config)

        return simulation.run(before_files=claim)


def _in_the_way(config: MDConfig, overwrite: bool) -> list[str]:
    """Names of results that lie in the folder, also of the run before.

    Raises:
        ValueError: there are some, and they are not to be replaced.
    """
    folder = Path(config.out)
    names = dict.fromkeys([*results(config), *earlier_results(folder)])
    there = [name for name in names if (folder / name).exists()]
    if there and not overwrite:
        raise ValueError(
            f"folder {config.out!r} holds results already ({', '.join(there)}): name another "
            "folder, go on with --resume, or give --overwrite to replace them"
        )
    return there


def resume_run(
    folder: Path, console: Console | None = None, changes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Go on with a run that was stopped, from its last restart file.

    Args:
        folder: of the run.
        console: of rich, for progress and warnings.
        changes: settings of `CHANGEABLE` from here on, also for later restarts. A time step is
            that of all stages that are left, those with one of their own too.

    Raises:
        ValueError: there is no run in the folder, it goes on already, has reached its end, or
            another setting cannot be changed.
        StoppedRun: energies or atoms ran away.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise ValueError(f"{str(folder)!r} is not the folder of a run: it has no {CONFIG}")
    with folder_lock(folder):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{str(path)!r} is damaged: {error}") from error
        config = validate(data, MDConfig, str(path)).model_copy(update={"out": str(folder)})
        if changes:
            config = _changed(config, changes)
        structure = Structure.load(folder / START)
        potential, closest = _model(config, structure)
        members = _members(config, structure)
        simulation = Simulation(config, structure, potential, folder, console, closest, members)

        def claim() -> None:
            _remove_temporaries(folder, config)
            if changes:
                _save_config(config)

        return simulation.run(resume=True, before_files=claim)


def _changed(config: MDConfig, changes: Mapping[str, Any]) -> MDConfig:
    """The configuration of a run as it goes on."""
    fixed = [name for name in changes if name not in CHANGEABLE]
    if fixed:
        raise ValueError(
            f"{', '.join(fixed)}: a run that goes on keeps its settings, but for "
            f"{', '.join(CHANGEABLE)}; start another one, e.g. from its last frame"
        )
    data = config.model_dump() | dict(changes)
    if "timestep" in changes:
        _, progress = load_restart(Path(config.out) / RESTART)
        for stage in data["stages"][progress.stage :]:
            stage["timestep"] = None
    return validate(data, MDConfig, "the run with its new settings")


def _save_config(config: MDConfig) -> None:
    path = Path(config.out) / CONFIG
    with naming(path), atomic_write(path, "w") as file:
        file.write(config.model_dump_json(indent=2) + "\n")


def _remove_temporaries(folder: Path, config: MDConfig) -> None:
    """Remove what a killed process has left half written; the folder is locked."""
    for name in results(config):
        remove_temporaries(folder / name)


def _found(section: CommitteeSection) -> CommitteeSection:
    """The section with the files that its names stand for, wherever the run is resumed from."""
    names = [section.models] if isinstance(section.models, str) else section.models
    return section.model_copy(
        update={"models": [path for name in names for path in io.model_paths(name)]}
    )


def _members(config: MDConfig, structure: Structure) -> list[Potential]:
    """The members of the committee in the run's precision; none without a committee."""
    if config.committee is None:
        return []
    paths = config.committee.models
    return [
        _model(config.model_copy(update={"model": path}), structure)[0]
        for path in ([paths] if isinstance(paths, str) else paths)
    ]


def _model(config: MDConfig, structure: Structure) -> tuple[Potential, float | None]:
    """The potential in the run's precision, and the closest pair that it was trained on."""
    if config.memory_limit is not None:
        mx.set_memory_limit(int(config.memory_limit * 1e9))
    if config.cache_limit is not None:
        mx.set_cache_limit(int(config.cache_limit * 1e9))
    arrays, metadata = io.read_file(config.model)
    potential = io.build_potential(arrays, metadata, config.model)
    potential.check_elements(int(z) for z in set(structure.numbers.tolist()))
    potential.set_feature_dtype(config.feature_dtype)
    if config.dtype == "float64":
        with mx.stream(mx.cpu):
            potential.set_dtype(mx.float64)
            mx.eval(potential.parameters())
    known = metadata.get(CLOSEST_PAIR)
    return potential, None if known is None else float(known)
