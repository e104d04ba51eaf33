"""What is said where a file of a run cannot be written."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .file_names import RESTART


def _mend(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Allow yourself to write it"
    return "Mend that, e.g. make room on the disk"


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
            go_on = f"go on with: mlpot md --resume {shlex.quote(str(path.parent))}"
        else:
            go_on = "start the run anew with --overwrite"
        raise OSError(
            f"{str(path)!r} cannot be written: {error.strerror or error}. {_mend(error)}, then "
            f"{go_on}"
        ) from error
