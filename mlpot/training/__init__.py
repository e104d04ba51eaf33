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
from .selecting import Selection, select
from .tables import rich_table, write_errors
from .teaching import label_hvps

__all__ = [
    "Disagreement",
    "ErrorRow",
    "Interrupted",
    "Objective",
    "Predictions",
    "Run",
    "Selection",
    "TrainConfig",
    "combine",
    "compare",
    "error_rows",
    "label_hvps",
    "load_config",
    "mean_only",
    "predict",
    "resume",
    "rich_table",
    "select",
    "train",
    "write_errors",
    "write_parity",
]
