"""Other programs that may watch a training: TensorBoard, Weights & Biases. Only if asked for."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .config_sections import LoggingSection

#: Module and extra of each.
_NEEDS = {"tensorboard": ("tensorboardX", "tensorboard"), "wandb": ("wandb", "wandb")}
TENSORBOARD, WANDB, WANDB_ID = "tensorboard", "wandb", "wandb-id.txt"


def check_loggers(section: LoggingSection) -> None:
    """Refuse what is not installed, before a run begins.

    Raises:
        ValueError: with the command that installs it.
    """
    for name, (module, extra) in _NEEDS.items():
        if getattr(section, name) and importlib.util.find_spec(module) is None:
            raise ValueError(
                f"logging.{name} needs the package {module}: pip install 'mlpot[{extra}]', or "
                f"leave logging.{name} out"
            )


class Loggers:
    """Passes the numbers of each epoch on. ``with Loggers(...) as loggers:`` closes them.

    Args:
        section: which.
        folder: of the run; TensorBoard's and offline W&B's files go into folders in it.
        config: plain values, shown beside the curves.
        epoch: complete epochs, when a run goes on.
    """

    def __init__(
        self, section: LoggingSection, folder: Path, config: Mapping[str, Any], epoch: int = 0
    ) -> None:
        self._section, self._folder, self._config = section, folder, dict(config)
        self._epoch = epoch
        self._writer: Any = None
        self._run: Any = None

    def __enter__(self) -> Loggers:
        if self._section.tensorboard:
            from tensorboardX import SummaryWriter

            place = self._folder / TENSORBOARD
            if self._epoch == 0:
                for old in place.glob("events.out.tfevents.*"):  # of a run that is replaced
                    old.unlink()
            # What a run wrote after the checkpoint from which it goes on is taken back.
            purge = self._epoch + 1 if self._epoch else None
            self._writer = SummaryWriter(str(place), purge_step=purge)
        if self._section.wandb:
            self._run = self._start_wandb()
        return self

    def __exit__(self, *_) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._run is not None:
            self._run.finish()

    def _start_wandb(self) -> Any:
        import wandb

        name = self._folder / WANDB_ID
        known = name.read_text(encoding="utf-8") if name.exists() and self._epoch else None
        run = wandb.init(
            project=self._section.wandb,
            name=self._folder.name,
            id=known,
            resume="allow" if known else None,
            dir=str(self._folder),
            config=self._config,
            mode=self._section.wandb_mode,
            # Neither code nor the state of the machine: only the numbers of the training.
            settings=wandb.Settings(
                console="off", save_code=False, disable_git=True, x_disable_stats=True
            ),
        )
        name.write_text(run.id, encoding="utf-8")
        return run

    def epoch(self, row: Mapping[str, float | None]) -> None:
        """Pass on a line of ``metrics.csv``; what is not known is left out."""
        number = int(row["epoch"] or 0)
        known = {key: float(v) for key, v in row.items() if v is not None and key != "epoch"}
        if self._writer is not None:
            for key, value in known.items():
                self._writer.add_scalar(_tag(key), value, number)
            self._writer.flush()
        if self._run is not None:
            self._run.log(
                {**{_tag(key): value for key, value in known.items()}, "epoch": number},
                step=number,
            )


def _tag(key: str) -> str:
    """``train_forces_rmse`` as ``forces_rmse/train``, so that curves to compare stand together."""
    part, _, rest = key.partition("_")
    return f"{rest}/{part}" if part in ("train", "valid") else key
