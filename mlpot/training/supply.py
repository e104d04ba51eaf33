"""The batches of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx

from mlpot.datasets import Batches

from .config import TrainConfig
from .parallel import Ranks
from .preparation import TrainingData
from .rehearsal import MixedBatches, MixedFrames

if TYPE_CHECKING:
    from mlpot.models import Potential

#: On CPUs, batches with fewer edges take longer to build in Python than padding costs: steps of up
#: to 24 ethanol molecules, or of one cell of 32 copper atoms, became 1.4 to 2.7 times as fast.
_FEW_EDGES = 2000
_SAMPLE = 100  # frames that tell how large a batch is


def records_steps(config: TrainConfig, potential: Potential, data: TrainingData) -> bool:
    """Whether steps are recorded for sizes of batches."""
    if config.record_steps != "auto":
        return config.record_steps == "on"
    if mx.default_device().type == mx.DeviceType.gpu:
        return True
    sample = data.train[:_SAMPLE]
    n_atoms = config.batch_size * sum(frame.n_atoms for frame in sample) / len(sample)
    return n_atoms * potential.config.avg_num_neighbors < _FEW_EDGES


def make_batches(
    config: TrainConfig, potential: Potential, data: TrainingData, ranks: Ranks, recorded: bool
) -> tuple[Batches, Batches]:
    """Batches to train on and batches to validate with.

    Args:
        config: of the run.
        potential: its cutoff, precision and E0s.
        data: frames.
        ranks: of each batch this process gets its share.
        recorded: whether steps are recorded.
    """
    options: dict[str, Any] = {
        "E0s": potential.config.E0s,
        "dtype": potential.dtype,
        "seed": config.seed,
        "type_weights": config.config_type_weights,
        "part": (ranks.rank, ranks.size),
        # Equal sizes serve what is recorded for a size, and kernels compiled for one on a GPU.
        "pad": recorded or mx.default_device().type == mx.DeviceType.gpu,
    }
    cutoff = potential.cutoff
    size = config.valid_batch_size or config.batch_size
    valid = Batches(data.valid, size, cutoff, shuffle=False, **options)
    if config.rehearsal is None:
        return Batches(data.train, config.batch_size, cutoff, **options), valid
    mixed = MixedFrames(data.train, data.old, config.rehearsal.weight, data.shifts)
    n_old = max(1, round(config.rehearsal.ratio * len(data.train)))
    return MixedBatches(mixed, config.batch_size, cutoff, n_old=n_old, **options), valid
