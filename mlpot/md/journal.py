"""A file that is changed all at once or not at all, whenever the process may be killed."""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path

_PAGE = 4096
_MAGIC = b"mlpot journal 1\n"


def journal_of(path: str | os.PathLike[str]) -> Path:
    """Where changes of a file are written down before they are made."""
    path = Path(path)
    return path.with_name(f".{path.name}.journal")


def recover(path: str | os.PathLike[str]) -> None:
    """Finish, or forget, changes that a killed process has left half made.

    A complete journal is applied (again); an incomplete one belongs to changes that were not
    begun, so the file is as it was.
    """
    path, journal = Path(path), journal_of(path)
    if not journal.is_file():
        return
    pages = _read(journal.read_bytes())
    if pages is not None and path.is_file():
        with open(path, "r+b") as file:
            _apply(file, *pages)
    journal.unlink()


class JournaledFile(io.RawIOBase):
    """A binary file whose writes are kept in memory until `commit`.

    HDF5 changes a file in many places for one more frame; killed in between, it leaves a file
    that cannot be opened. `commit` first writes all changed pages to a journal beside the file,
    then to the file, then removes the journal: see `recover`.

    Args:
        path: an existing file, or one to be made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.path = Path(path)
        recover(self.path)
        self._file = open(self.path, "r+b" if self.path.exists() else "w+b")  # noqa: SIM115
        self._size = self.path.stat().st_size
        self._pages: dict[int, bytearray] = {}
        self._place = 0
        self._changed = False

    @property
    def changed_bytes(self) -> int:
        """Size of what waits for `commit`."""
        return len(self._pages) * _PAGE

    def readable(self) -> bool:
        """Always."""
        return True

    def writable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Where the next byte is read or written."""
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move; as for any file."""
        self._place = offset + (0, self._place, self._size)[whence]
        return self._place

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        size = self._place if size is None else size
        # What is cut off must read as zeros if the file grows again.
        for number in range(size // _PAGE, -(-self._size // _PAGE)):
            page = self._pages.setdefault(number, bytearray(self._page(number)))
            kept = max(0, size - number * _PAGE)
            page[kept:] = bytes(_PAGE - min(kept, _PAGE))
        self._size = size
        self._changed = True
        return size

    def readinto(self, buffer) -> int:
        """Read with the changes that are not committed yet."""
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._size - self._place))
        done = 0
        while done < count:
            number, start = divmod(self._place + done, _PAGE)
            length = min(_PAGE - start, count - done)
            view[done : done + length] = self._page(number)[start : start + length]
            done += length
        self._place += count
        return count

    def write(self, data) -> int:
        """Change bytes in memory."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            number, start = divmod(self._place + done, _PAGE)
            length = min(_PAGE - start, len(view) - done)
            if number not in self._pages:
                self._pages[number] = bytearray(self._page(number))
            self._pages[number][start : start + length] = view[done : done + length]
            done += length
        self._place += done
        self._size = max(self._size, self._place)
        self._changed = True
        return done

    def commit(self) -> None:
        """Make all changes since the last time, as one."""
        if not self._changed:
            return
        body = bytearray()
        for number in sorted(self._pages):
            body += number.to_bytes(8, "little") + self._pages[number]
        head = self._size.to_bytes(8, "little") + len(self._pages).to_bytes(8, "little")
        check = zlib.crc32(head + body).to_bytes(4, "little")
        journal = journal_of(self.path)
        with open(journal, "wb") as file:
            file.write(_MAGIC + check + head + body)
            file.flush()
            os.fsync(file.fileno())
        _apply(self._file, self._size, self._pages)
        journal.unlink()
        self._pages.clear()
        self._changed = False

    def close(self) -> None:
        """Close; what was not committed is lost."""
        if not self.closed:
            self._file.close()
        super().close()

    def _page(self, number: int) -> bytes | bytearray:
        if number in self._pages:
            return self._pages[number]
        self._file.seek(number * _PAGE)
        return self._file.read(_PAGE).ljust(_PAGE, b"\0")


def _apply(file, size: int, pages: dict[int, bytearray]) -> None:
    for number, page in pages.items():
        file.seek(number * _PAGE)
        file.write(page)
    file.truncate(size)
    file.flush()
    os.fsync(file.fileno())


def _read(content: bytes) -> tuple[int, dict[int, bytearray]] | None:
    """Size and pages of a journal, None if it is not complete."""
    start = len(_MAGIC) + 4
    if len(content) < start + 16 or not content.startswith(_MAGIC):
        return None
    if zlib.crc32(content[start:]).to_bytes(4, "little") != content[len(_MAGIC) : start]:
        return None
    size = int.from_bytes(content[start : start + 8], "little")
    place = start + 16
    pages = {}
    while place < len(content):
        number = int.from_bytes(content[place : place + 8], "little")
        pages[number] = bytearray(content[place + 8 : place + 8 + _PAGE])
        place += 8 + _PAGE
    return size, pages
