"""What is said where a file of a run cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .file_names import RESTART


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Says which file of a run could not be written, and what is to be done.

    Args:
        path: in the folder of the run.

    Raises:
        OSError: with one message, where the body raises an OSError.
    """
    try:
        yield
    except OSError as error:
        if (path.parent / RESTART).is_file():
            go_on = f"go on with: mlpot md --resume {path.parent}"
        else:
            go_on = "start the run anew with --overwrite"
        raise OSError(
            f"{str(path)!r} cannot be written: {error.strerror or error}. Mend that, e.g. make "
            f"room on the disk, then {go_on}"
        ) from error
