"""Files that would do harm, for tests of what reads them."""

from __future__ import annotations

import zipfile

from reference_outputs import FIXTURES

NQX = FIXTURES / "nequix_small.nqx"
PTH = FIXTURES / "sevennet_even.pth"


class Evil:
    """Calls something when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def no_storage(identifier):
    raise AssertionError("nothing was to be loaded")


def repacked(path, target, change):
    """A copy of a zip archive with some of its entries changed, added or (None) left out."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        names = [*old.namelist(), *(n for n in change if n not in old.namelist())]
        for name in names:
            content = change.get(name, old.read(name) if name in old.namelist() else b"")
            if content is not None:
                new.writestr(name, content)
    return target


def pickle_entry(path):
    with zipfile.ZipFile(path) as archive:
        return next(n for n in archive.namelist() if n.endswith("data.pkl"))
