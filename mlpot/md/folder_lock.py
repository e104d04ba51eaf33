"""One run at a time in a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

_NAME = ".lock"
# File systems without locks.
_NONE = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which ends with the process, however that ends.

    Args:
        folder: exists. ``.lock`` lies in it meanwhile, with the number of the process.

    Raises:
        OSError: the folder cannot be written to.
        ValueError: another run holds it. File systems without locks let both run.
    """
    path = folder / _NAME
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise OSError(
                f"the folder {str(folder)!r} cannot be written to: {error.strerror} ({_NAME}); "
                "allow yourself to, or name another"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if isinstance(error, BlockingIOError):
                number = os.read(descriptor, 20).decode("ascii", "replace").strip()
                os.close(descriptor)
                process = f"process {number}" if number else "another process"
                raise ValueError(
                    f"{process} runs molecular dynamics in the folder {str(folder)!r}: wait until "
                    "it has ended, or name another folder"
                ) from None
            if error.errno not in _NONE:
                os.close(descriptor)
                raise
        if _is(descriptor, path):
            break
        os.close(descriptor)  # removed by its holder in the meantime
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _is(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
