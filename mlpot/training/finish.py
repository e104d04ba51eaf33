"""The end of a run: errors of the best model, pictures and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlpot.files import atomic_write
from mlpot.io import load
from mlpot.models import Potential

from .element_errors import element_cells, element_rows
from .errors import ErrorRow
from .evaluate import compare, predict
from .insights import distances, timing, worst_cells, worst_frames
from .loading import describe, sampled
from .plots import error_against_distance, loss_curves
from .preparation import rounded, statistics
from .report import png, write_parity, write_report
from .tables import rich_table, write_errors

if TYPE_CHECKING:
    from rich.console import Console

    from .trainer import Trainer


def finish(trainer: Trainer, reason: str, console: Console) -> tuple[Potential, list[ErrorRow]]:
    """Evaluate the best model on all sets, print and write what came out.

    Args:
        trainer: after training.
        reason: why it ended.
        console: where to print.

    Returns:
        The best model and its errors.

    Raises:
        ValueError: there is no best model.
    """
    config, data, folder = trainer.config, trainer.data, trainer.folder
    if not folder.best.is_file():
        raise ValueError(
            f"the validation loss was never finite, so there is no model: look at {folder.metrics} "
            f"and lower lr (now {config.lr})"
        )
    potential = load(folder.best)
    if config.dtype == "float64":
        potential.set_dtype(trainer.potential.dtype)
    # Of what does not fit into memory a sample, evenly spaced.
    sets = {name: sampled(frames) for name, frames in data.sets().items()}
    rows: list[ErrorRow] = []
    shown = {}
    size = config.valid_batch_size or config.batch_size
    for name, frames in sets.items():
        with console.status(f"evaluating {name}"):
            said = predict(potential, frames, size)
        rows += compare(name, frames, said)
        shown[name] = (frames, said)
    write_errors(folder.path, rows)
    pictures = {"Training": png(loss_curves(folder.read_metrics()))}
    with atomic_write(folder.curves) as file:
        file.write(pictures["Training"])
    picture = write_parity(folder.parity, shown)
    if picture is not None:
        pictures["Predictions against labels"] = picture
    away = error_against_distance(distances(shown, min(potential.cutoff, 5.0)))
    if away is not None:
        pictures["Errors of forces by distance from the training frames"] = png(away)
    by_element = [row for name in sets for row in element_rows(name, "model", *shown[name])]
    progress = trainer.progress
    minutes = progress.seconds / 60
    write_report(
        folder.report,
        title=f"mlpot training: {folder.path.name}",
        facts={
            "ended": reason,
            "best epoch": f"{progress.best_epoch} (validation loss {progress.best_loss:.4g})",
            "training": f"{minutes:.1f} minutes, {progress.step} steps",
            "speed": timing(folder.read_metrics(), len(data.train)),
            **{name: rounded(value) for name, value in statistics(potential, data).items()},
        },
        rows=rows,
        pictures=pictures,
        texts={f"Data: {name}": describe(frames) for name, frames in data.sets().items()},
        config=config.plain(),
        tables={
            "Forces by element": element_cells(by_element),
            "Worst frames": worst_cells(worst_frames(shown)),
        },
    )
    console.print(rich_table(rows))
    console.print(
        f"{reason[0].upper()}{reason[1:]}, {minutes:.1f} minutes; best epoch "
        f"{progress.best_epoch}.\nModel  {folder.best}\nReport {folder.report}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    return potential, rows
