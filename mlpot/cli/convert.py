"""``mlpot convert``: data sets and other programs' models from one format to another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.status import Status

    from mlpot.datasets import Frame

Key = Annotated[str | None, typer.Option(help="Name of this label, if not a usual one.")]


def convert(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="IN... OUT",
            help="Files or patterns to read (extended XYZ, rMD17 npz, HDF5, anything ASE reads, "
            "also .gz), then the file to write: .h5 or .hdf5, .xyz or .extxyz. Or a model of "
            "Nequix (.nqx), SevenNet (.pth) or NequIP (.npz) and a .safetensors file.",
            show_default=False,
        ),
    ],
    energy_unit: Annotated[
        str | None, typer.Option(help="Unit of energies in the files: eV, kcal/mol, Hartree, ...")
    ] = None,
    length_unit: Annotated[
        str | None, typer.Option(help="Unit of lengths in the files: Angstrom, Bohr, nm.")
    ] = None,
    forces_unit: Annotated[
        str | None, typer.Option(help="Unit of forces, if not energy/length: Hartree/Bohr, ...")
    ] = None,
    stress_unit: Annotated[
        str | None, typer.Option(help="Unit of stresses, if not energy/length^3: GPa, kbar, ...")
    ] = None,
    energy_key: Key = None,
    forces_key: Key = None,
    stress_key: Key = None,
    virials_key: Key = None,
    config_type_key: Annotated[
        str, typer.Option(help="Name of what tells kinds of frames apart.")
    ] = "config_type",
    neighbors: Annotated[
        float | None,
        typer.Option(help="Store neighbour lists up to this distance, too (Angstrom; .h5 only)."),
    ] = None,
    hvps_from: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Add Hessian-vector products of this potential along random directions, as labels "
            "for another one to learn from.",
        ),
    ] = None,
    hvps: Annotated[int, typer.Option(min=1, help="Directions a frame for --hvps-from.")] = 4,
    seed: Annotated[int, typer.Option(help="Of the directions for --hvps-from.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace OUT where it exists.")
    ] = False,
) -> None:
    """Convert data sets to mlpot's HDF5 or extended XYZ, and other programs' models.

    Labels end in eV, eV/Angstrom and eV/Angstrom^3; virials become stresses. Examples:

    mlpot convert rmd17_ethanol.npz ethanol.h5 --energy-unit kcal/mol

    mlpot convert small.xyz taught.h5 --hvps-from nequix-mp-1 --hvps 4

    mlpot convert nequix-mp-1.nqx nequix-mp-1.safetensors
    """
    from rich.console import Console

    from mlpot import datasets
    from mlpot.datasets.reading import expand

    if len(inputs) < 2:
        raise ValueError(
            "convert needs at least one file to read and one to write: mlpot convert IN... OUT"
        )
    *sources, target = inputs
    if Path(target).suffix == ".safetensors":
        _convert_model(sources, Path(target), overwrite)
        return
    files = expand(sources)
    if Path(target).exists():
        if any(Path(target).samefile(file) for file in files):
            raise ValueError(f"{target} is to be read and written; write to another file")
        if not overwrite:
            raise ValueError(f"{target} exists already; add --overwrite to replace it")
    options = {
        "energy_unit": energy_unit,
        "length_unit": length_unit,
        "forces_unit": forces_unit,
        "stress_unit": stress_unit,
        "energy_key": energy_key,
        "forces_key": forces_key,
        "stress_key": stress_key,
        "virials_key": virials_key,
        "config_type_key": config_type_key,
    }
    census = datasets.Census()
    provenance: dict = {
        "converted_from": [_origin(file) for file in files],
        "options": {key: value for key, value in options.items() if value is not None},
    }
    read = datasets.iterate(files, **options)
    if hvps_from is not None:
        import mlpot
        from mlpot.training import label_hvps

        provenance["hvps"] = {"model": hvps_from, "directions": hvps, "seed": seed}
        read = label_hvps(read, mlpot.load(hvps_from), hvps, seed)
    with Console(stderr=True).status("reading") as status:
        frames = census.watch(_told(read, status))
        count = datasets.write(target, frames, provenance, neighbors)
    typer.echo(census.summary())
    typer.echo(f"wrote {count} frames to {target} ({Path(target).stat().st_size / 1e6:.2f} MB)")


def _told(frames: Iterator[Frame], status: Status) -> Iterator[Frame]:
    """The frames, with their number shown now and then."""
    for number, frame in enumerate(frames):
        if number % 1000 == 0 and number:
            status.update(f"{number} frames")
        yield frame


def _convert_model(sources: list[str], target: Path, overwrite: bool) -> None:
    """A model of another program as mlpot's file."""
    from mlpot import io

    if len(sources) != 1:
        raise ValueError(f"a model is converted from one file, not from {len(sources)}")
    if target.exists() and not overwrite:
        raise ValueError(f"{target} exists already; add --overwrite to replace it")
    potential = io.import_potential(sources[0])
    io.save(target, potential, io.import_metadata(sources[0]))
    typer.echo(
        f"wrote a potential for {len(potential.numbers)} elements, cutoff "
        f"{potential.cutoff:g} Angstrom, to {target} ({target.stat().st_size / 1e6:.2f} MB)"
    )


def _origin(file: Path) -> dict:
    """Name and digest of a source, and the provenance it carries itself."""
    import hashlib

    from mlpot.datasets import HDF5Dataset
    from mlpot.datasets.reading import HDF5_SUFFIXES, suffix_of

    with file.open("rb") as stream:
        origin: dict = {
            "file": file.name,
            "sha256": hashlib.file_digest(stream, "sha256").hexdigest(),
        }
    if suffix_of(file) in HDF5_SUFFIXES:
        with HDF5Dataset(file) as stored:
            origin["provenance"] = stored.provenance
    return origin
