"""``mlpot md``: molecular dynamics of a structure with a potential."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mlpot.md.config import MDConfig


def md(
    config: Annotated[
        Path | None, typer.Argument(help="YAML file with all settings; options change them.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Potential: a .safetensors file.")] = None,
    struct: Annotated[
        Path | None, typer.Option(help="Structure, in any format that ASE reads.")
    ] = None,
    # Not a path, which makes "." of an empty word.
    out: Annotated[
        str | None, typer.Option(help="Folder for log, trajectory and pictures.")
    ] = None,
    ensemble: Annotated[
        str | None,
        typer.Option(
            help="nve (default), langevin, nose-hoover, bussi, npt, npt-full, npt-stochastic or "
            "minimise."
        ),
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Temperature in K [300].")] = None,
    timestep: Annotated[float | None, typer.Option(help="Time step in fs [0.5].")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps [1000].")] = None,
    friction: Annotated[
        float | None, typer.Option(help="Friction of the Langevin bath in 1/ps [10].")
    ] = None,
    tau: Annotated[
        float | None, typer.Option(help="Time constant of other thermostats in ps [0.1].")
    ] = None,
    pressure: Annotated[float | None, typer.Option(help="Of npt ensembles, in GPa [0].")] = None,
    tau_pressure: Annotated[
        float | None, typer.Option(help="Time constant of the cell in ps [1].")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(help="Copies that run in one batch, with other velocities [1].")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of velocities and noise [0].")] = None,
    log_interval: Annotated[
        int | None, typer.Option(help="Steps between rows of the log [10].")
    ] = None,
    trajectory: Annotated[
        str | None,
        typer.Option(help="File in --out: .h5 (H5MD), .extxyz or .traj; trajectory.h5 by default."),
    ] = None,
    trajectory_interval: Annotated[
        int | None, typer.Option(help="Steps between frames; as --log-interval by default.")
    ] = None,
    index: Annotated[
        int | None, typer.Option(help="Which structure of the file; -1 is the last [-1].")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 (default) or float64.")] = None,
    feature_dtype: Annotated[
        str | None,
        typer.Option(help="Of features: float32 (default), float16 or bfloat16, for GPUs."),
    ] = None,
    skin: Annotated[
        float | None, typer.Option(help="Skin of the list of pairs in Angstrom [0.5].")
    ] = None,
    max_temperature: Annotated[
        float | None, typer.Option(help="Stop above it, in K [10000].")
    ] = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(help="Memory that MLX is to keep within, in GB; the end says if it did not."),
    ] = None,
    cache_limit: Annotated[
        float | None, typer.Option(help="Freed memory that MLX keeps, in GB.")
    ] = None,
    keep_velocities: Annotated[
        bool, typer.Option("--keep-velocities", help="Go on with those in the structure file.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace results that lie in the folder.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the stopped run in this folder.")
    ] = None,
) -> None:
    """Run molecular dynamics in one or several stages.

    Everything stays on the device: constant energy, Langevin, Nose-Hoover, Bussi, or constant
    pressure. Writes log.csv, trajectory.h5 (H5MD), restart.npz, final.extxyz, summary.json and
    pictures of energies, temperature, cell, pair distances and displacements. A run that blows
    up stops and leaves last_good.extxyz; one that was killed goes on with --resume FOLDER, which
    takes another --timestep, --max-temperature, --memory-limit and --cache-limit.

    mlpot md run.yaml

    mlpot md --model m.safetensors --struct s.xyz --out run --ensemble langevin
    """
    from rich.console import Console

    from mlpot.md.launch import CHANGEABLE, resume_run, start_run

    given = {
        "model": model,
        "struct": None if struct is None else str(struct),
        "out": out,
        "temperature": temperature,
        "timestep": timestep,
        "replicas": replicas,
        "seed": seed,
        "log_interval": log_interval,
        "trajectory": trajectory,
        "trajectory_interval": trajectory_interval,
        "index": index,
        "dtype": dtype,
        "feature_dtype": feature_dtype,
        "skin": skin,
        "max_temperature": max_temperature,
        "memory_limit": memory_limit,
        "cache_limit": cache_limit,
        "keep_velocities": keep_velocities or None,
    }
    stage = {
        "ensemble": ensemble,
        "steps": steps,
        "friction": friction,
        "tau": tau,
        "pressure": pressure,
        "tau_pressure": tau_pressure,
    }
    options = {key: value for key, value in given.items() if value is not None}
    own_stage = {key: value for key, value in stage.items() if value is not None}
    console = Console()
    if resume is not None:
        kept = {key: value for key, value in options.items() if key not in CHANGEABLE}
        if config is not None or kept or own_stage or overwrite:
            able = ", ".join(f"--{name.replace('_', '-')}" for name in CHANGEABLE)
            raise ValueError(
                f"--resume goes on with the settings of the run: give nothing else but {able}"
            )
        place = resume
        with _saying_how_to_go_on(place):
            summary = resume_run(resume, console, options)
    else:
        settings = _settings(config, options, own_stage)
        place = Path(settings.out)
        with _saying_how_to_go_on(place):
            summary = start_run(settings, _read(settings), overwrite=overwrite, console=console)
    for line in _lines(summary):
        typer.echo(line)
    typer.echo(f"written to {place}")


@contextmanager
def _saying_how_to_go_on(folder: Path) -> Iterator[None]:
    """Ends an interrupted run with exit code 130 and the command that goes on with it."""
    try:
        yield
    except KeyboardInterrupt as error:
        if not (folder / "restart.npz").is_file():
            raise
        typer.echo(
            f"mlpot: stopped. Go on with:\n  mlpot md --resume {shlex.quote(str(folder))}", err=True
        )
        raise typer.Exit(130) from error


def _settings(config: Path | None, options: dict[str, Any], stage: dict[str, Any]) -> MDConfig:
    """The configuration of file and options; paths in a file count from its folder."""
    from mlpot.config import load_yaml, validate
    from mlpot.io import PUBLISHED
    from mlpot.md.config import MDConfig

    if config is None:
        missing = [f"--{name}" for name in ("model", "struct", "out") if name not in options]
        if missing:
            raise ValueError(f"give {', '.join(missing)}, or a configuration file")
        return validate({**options, "stages": [stage]}, MDConfig, "the command line")
    if stage:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in stage)
        raise ValueError(f"{names}: the stages of {str(config)!r} say this; change them there")
    if config.is_dir():
        raise ValueError(
            f"{str(config)!r} is a folder, not a YAML file; to go on with the run in it: "
            f"mlpot md --resume {shlex.quote(str(config))}"
        )
    written = load_yaml(config, MDConfig).model_dump()
    for name in ("model", "struct", "out"):
        if not (name == "model" and written[name] in PUBLISHED):
            written[name] = str(config.parent / written[name])
    if written["committee"] is not None:
        models = written["committee"]["models"]
        files = [models] if isinstance(models, str) else models
        written["committee"]["models"] = [str(config.parent / file) for file in files]
    return validate({**written, **options}, MDConfig, f"{config} and the options")


def _read(settings: MDConfig) -> Any:
    """The structure that the run begins with."""
    from ase import Atoms
    from ase.io import read

    from mlpot.md.ase_bridge import to_structure

    path, index = Path(settings.struct), settings.index
    if not path.is_file():
        raise ValueError(f"structure file {str(path)!r} does not exist")
    try:
        structures = [one for one in read(path, index=":") if isinstance(one, Atoms)]
    except Exception as error:  # readers of ASE raise whatever their format trips over
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"structure file {str(path)!r} cannot be read ({what})") from error
    if not -len(structures) <= index < len(structures):
        raise ValueError(
            f"structure file {str(path)!r} has no structure {index}: it holds {len(structures)}, "
            "counted from 0"
        )
    return to_structure(structures[index])


def _lines(summary: dict[str, Any]) -> list[str]:
    """What is told at the end."""
    replicas = summary["settings"]["replicas"]
    copies = "" if replicas == 1 else f", {replicas} replicas"
    speed = f"{summary['steps_per_second']:.4g} steps/s"
    if summary["ns_per_day"] is not None:
        speed += f", {summary['ns_per_day']:.3g} ns/day"
    restart = summary["restarted_from_step"]
    if restart is not None:
        speed += f" in the {summary['steps_since_restart']} steps since the restart at {restart}"
    lines = [f"{summary['n_atoms']} atoms{copies}, {summary['steps_done']} steps: {speed}"]
    for end in summary["relaxations"]:
        reached = "converged" if end["converged"] else "NOT converged"
        lines.append(
            f"{end['stage']} {reached}: largest force {end['largest_force_eV_per_A']:.4g} eV/Å, "
            f"fmax {end['fmax_eV_per_A']:g} eV/Å"
        )
    if summary["mean_temperature_K"] is not None:
        lines.append(
            f"temperature {summary['mean_temperature_K']:.1f} K on average in the last stage, "
            f"standard deviation {summary['std_temperature_K']:.1f} K"
        )
    drift = summary["drift_meV_per_atom_per_ps"]
    if drift is not None:
        lines.append(f"drift of the conserved quantity {drift:.4g} meV/atom/ps")
    if "uncertain_frames" in summary:
        lines.append(
            f"the committee disagreed by at most {summary['largest_disagreement_eV_per_A']:.3f} "
            f"eV/Å; {summary['uncertain_frames']} uncertain frames in uncertain.extxyz"
        )
    since = "" if restart is None else " since the restart"
    lines.append(
        f"pairs listed {summary['lists_built']} times{since}; memory at most "
        f"{summary['peak_memory_MB']:.0f} MB"
    )
    if summary["memory_limit_passed"]:
        lines.append(
            f"Warning: that is more than the memory limit of "
            f"{summary['settings']['memory_limit'] * 1e3:g} MB, to which MLX cannot hold"
        )
    return lines
