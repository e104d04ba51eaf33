"""The function pointers through which a loaded ELF library calls others (Linux, 64 bits).

A shared library calls a foreign function through a table of pointers that the dynamic loader
fills in from its relocations. This reads those relocations in memory, after the ELF
specification and ``dl_iterate_phdr(3)``, and sets a pointer.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
from collections.abc import Iterable

_PT_DYNAMIC, _PT_GNU_RELRO = 2, 0x6474E552
_DT_PLTRELSZ, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_JMPREL = 2, 5, 6, 7, 8, 23
_SYMBOL_SIZE = 24
_PROT_READ, _PROT_WRITE = 1, 2
# Relocations that store the plain address of a symbol: JUMP_SLOT and GLOB_DAT.
_POINTER_RELOCATIONS = {"x86_64": (7, 6), "aarch64": (1026, 1025)}


class ElfError(Exception):
    """The library is not loaded or is not of a kind that is understood here."""


class _ProgramHeader(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("physical", ctypes.c_uint64),
        ("file_size", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("align", ctypes.c_uint64),
    )


class _LoadedObject(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.POINTER(_ProgramHeader)),
        ("n_headers", ctypes.c_uint16),
    )


def _segments(file_name: str) -> tuple[int, list[tuple[int, int, int]]]:
    """Load address and (type, address, size) of the segments of a loaded library."""
    found: list[tuple[int, list[tuple[int, int, int]]]] = []
    suffix = b"/" + file_name.encode()

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_LoadedObject), ctypes.c_size_t, ctypes.c_void_p)
    def visit(info, _size, _data):
        item = info.contents
        if not (item.name or b"").endswith(suffix):
            return 0
        headers = [item.headers[i] for i in range(item.n_headers)]
        found.append((item.base, [(h.type, item.base + h.address, h.size) for h in headers]))
        return 1

    ctypes.CDLL(None).dl_iterate_phdr(visit, None)
    if not found:
        raise ElfError(f"{file_name} is not loaded")
    return found[0]


class FunctionPointers:
    """The pointers to foreign functions of one loaded library.

    Args:
        file_name: file name of the library, without folder.

    Raises:
        ElfError: it is not loaded, or the processor is none of those understood.
    """

    def __init__(self, file_name: str) -> None:
        machine = platform.machine()
        if machine not in _POINTER_RELOCATIONS or ctypes.sizeof(ctypes.c_void_p) != 8:
            raise ElfError(f"function pointers on {machine} are not understood")
        self._kinds = _POINTER_RELOCATIONS[machine]
        self._base, segments = _segments(file_name)
        self._read_only = [(a, a + size) for kind, a, size in segments if kind == _PT_GNU_RELRO]
        dynamic = next((s for s in segments if s[0] == _PT_DYNAMIC), None)
        if dynamic is None:
            raise ElfError(f"{file_name} has no dynamic section")
        table = ctypes.string_at(dynamic[1], dynamic[2])
        self._dynamic = dict(struct.iter_unpack("<qQ", table))

    def _address(self, tag: int) -> int:
        value = self._dynamic.get(tag, 0)
        # glibc replaces the offsets by addresses when it loads a library; other loaders need not.
        return value + self._base if value < self._base else value

    def _name(self, symbol: int) -> bytes:
        entry = self._address(_DT_SYMTAB) + _SYMBOL_SIZE * symbol
        offset = ctypes.c_uint32.from_address(entry).value
        return ctypes.string_at(self._address(_DT_STRTAB) + offset)

    def find(self, names: Iterable[str]) -> dict[str, list[int]]:
        """Addresses of the pointers to the functions of these names."""
        wanted = {name.encode(): name for name in names}
        found: dict[str, list[int]] = {}
        for tag, size_tag in ((_DT_JMPREL, _DT_PLTRELSZ), (_DT_RELA, _DT_RELASZ)):
            if tag not in self._dynamic:
                continue
            table = ctypes.string_at(self._address(tag), self._dynamic.get(size_tag, 0))
            for offset, info, _addend in struct.iter_unpack("<QQq", table):
                if info & 0xFFFFFFFF in self._kinds:
                    name = wanted.get(self._name(info >> 32))
                    if name is not None:
                        found.setdefault(name, []).append(self._base + offset)
        return found

    def write(self, address: int, target: int) -> int:
        """Set the pointer at ``address``; returns what it was."""
        protected = any(low <= address < high for low, high in self._read_only)
        if protected:
            self._protect(address, _PROT_READ | _PROT_WRITE)
        pointer = ctypes.c_uint64.from_address(address)
        before = pointer.value
        pointer.value = target
        if protected:
            self._protect(address, _PROT_READ)
        return before

    @staticmethod
    def _protect(address: int, mode: int) -> None:
        page = address & ~(mmap.PAGESIZE - 1)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), mode) != 0:
            raise ElfError(
                f"cannot write a protected function pointer (errno {ctypes.get_errno()})"
            )
