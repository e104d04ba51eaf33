"""Training and evaluation of potentials on labelled frames."""

from .committee import resume, train
from .config import TrainConfig, load_config
from .disagreement import Disagreement, combine
from .errors import ErrorRow, Predictions, error_rows, mean_only
from .evaluate import compare, predict
from .interrupt import Interrupted
from .objective import Objective
from .report import write_parity
from .runs import Run
from .tables import rich_table, write_errors

__all__ = [
    "Disagreement",
    "ErrorRow",
    "Interrupted",
    "Objective",
    "Predictions",
    "Run",
    "TrainConfig",
    "combine",
    "compare",
    "error_rows",
    "load_config",
    "mean_only",
    "predict",
    "resume",
    "rich_table",
    "train",
    "write_errors",
    "write_parity",
]
