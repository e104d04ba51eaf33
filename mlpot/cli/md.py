"""``mlpot md``: molecular dynamics of a structure with a potential."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ase import Atoms


def md(
    model: Annotated[str, typer.Option(help="Potential: a .safetensors file.")],
    struct: Annotated[Path, typer.Option(help="Structure, in any format that ASE reads.")],
    out: Annotated[Path, typer.Option(help="Folder for log, trajectory and pictures.")],
    ensemble: Annotated[str, typer.Option(help="nve or langevin.")] = "nve",
    temperature: Annotated[float, typer.Option(help="Temperature in K.")] = 300.0,
    timestep: Annotated[float, typer.Option(help="Time step in fs.")] = 0.5,
    steps: Annotated[int, typer.Option(help="Number of steps.")] = 1000,
    friction: Annotated[float, typer.Option(help="Friction of the Langevin bath in 1/ps.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Seed of velocities and random forces.")] = 0,
    log_interval: Annotated[int, typer.Option(help="Steps between rows of the log.")] = 10,
    trajectory_interval: Annotated[
        int | None, typer.Option(help="Steps between frames; as --log-interval by default.")
    ] = None,
    trajectory: Annotated[
        Path | None,
        typer.Option(help="File for frames, .traj or .extxyz [default: trajectory.traj in --out]"),
    ] = None,
    index: Annotated[int, typer.Option(help="Which structure of the file; -1 is the last.")] = -1,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    skin: Annotated[float, typer.Option(help="Skin of the neighbour list in Angstrom.")] = 0.5,
    max_temperature: Annotated[float, typer.Option(help="Stop above it, in K.")] = 10_000.0,
    keep_velocities: Annotated[
        bool, typer.Option("--keep-velocities", help="Go on with those in the structure file.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace results that lie in the folder.")
    ] = False,
) -> None:
    """Run molecular dynamics, at constant energy or with a Langevin bath.

    Writes log.csv, trajectory.traj, final.extxyz, summary.json, energies.png,
    temperature.png and rdf.png. A run that blows up stops and leaves
    last_good.extxyz.
    """
    from rich.console import Console

    from mlpot.calculators import MLPotCalculator
    from mlpot.md import Settings, run_md

    # Told before the model is loaded, which may take a while.
    Settings(
        ensemble=ensemble,
        temperature=temperature,
        timestep=timestep,
        steps=steps,
        friction=friction,
        seed=seed,
        log_interval=log_interval,
        max_temperature=max_temperature,
    )
    atoms = _read(struct, index)
    atoms.calc = MLPotCalculator(model, dtype=dtype, skin=skin)
    record = run_md(
        atoms,
        ensemble,
        temperature=temperature,
        timestep=timestep,
        steps=steps,
        friction=friction,
        seed=seed,
        log_interval=log_interval,
        trajectory=trajectory,
        trajectory_interval=trajectory_interval,
        out=out,
        overwrite=overwrite,
        keep_velocities=keep_velocities,
        max_temperature=max_temperature,
        console=Console(),
    )
    numbers = record.summary()
    typer.echo(
        f"{record.n_atoms} atoms, {record.steps_done} steps of {timestep:g} fs in "
        f"{record.seconds:.1f} s: {record.steps_per_second:.4g} steps/s, "
        f"{record.ns_per_day:.3g} ns/day"
    )
    typer.echo(
        f"temperature {numbers['mean_temperature_K']:.1f} K on average, "
        f"standard deviation {numbers['std_temperature_K']:.1f} K"
    )
    if record.drift is not None:
        typer.echo(
            f"drift of the total energy {record.drift:.4g} meV/atom/ps, "
            f"standard deviation {record.fluctuation:.4g} meV/atom"
        )
    typer.echo(f"written to {out}")


def _read(path: Path, index: int) -> Atoms:
    from ase import Atoms
    from ase.io import read

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
    return structures[index]
