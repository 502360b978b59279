# SPDX-License-Identifier: MIT
"""The memory of the emulated process: guest addresses are offsets into one mapping of the host.

While the process starts, the mapping is shared with a file of the host; freeze() then maps the
file privately at the same place, so that revert() need only discard the pages
that were written since: exact, and its cost is proportional to what was written."""

import ctypes
import os

import unicorn

PAGE = 4096
MIB = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                       ctypes.c_long)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_PROT_RW, _SHARED, _PRIVATE, _FIXED, _NORESERVE, _DONTNEED = 3, 1, 2, 0x10, 0x4000, 4


def round_up(n, to=PAGE):
    return (n + to - 1) // to * to


class Memory:
    SIZE = 256 << 20  # of the guest's address space

    def __init__(self):
        self._file = os.memfd_create("emulated")
        os.ftruncate(self._file, self.SIZE)
        self.host = None
        self._map(_SHARED)
        self.view = memoryview((ctypes.c_ubyte * self.SIZE).from_address(self.host)).cast("B")
        # (start, end, protection), sorted, without gaps of our own making; a change makes another
        # tuple. A machine's engines map them.
        self.areas = self._frozen = ()

    def _map(self, kind):
        # Not reserved: what is touched is little, but the whole may be more than there is.
        kind |= _NORESERVE | (_FIXED if self.host else 0)
        host = _libc.mmap(self.host, self.SIZE, _PROT_RW, kind, self._file, 0)
        if host in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "mmap of the emulated memory")
        self.host = host

    def close(self):
        self.view.release()
        _libc.munmap(self.host, self.SIZE)
        os.close(self._file)

    def freeze(self):
        self._map(_PRIVATE)
        self._frozen = self.areas

    def revert(self):
        _libc.madvise(self.host, self.SIZE, _DONTNEED)
        self.areas = self._frozen

    # Protection.

    def protect(self, start, size, protection):
        """Maps or changes [start, start + size); protection None unmaps it."""
        end = start + round_up(size)
        areas = []
        for a, b, p in self.areas:
            if b <= start or a >= end:
                areas.append((a, b, p))
            else:
                areas += [(a, start, p)] if a < start else []
                areas += [(end, b, p)] if b > end else []
        if protection is not None:
            areas.append((start, end, protection))
        self.areas = tuple(sorted(areas))

    def reserve(self, start, size, protection):
        """Maps it in parts that end where slots do."""
        end = start + round_up(size)
        while start < end:
            part = min(end, (start // MIB + 1) * MIB)
            self.protect(start, part - start, protection)
            start = part

    def is_mapped(self, start, size):
        """True if every byte lies in an area."""
        for a, b, _ in self.areas:
            if a <= start < b:
                if start + size <= b:
                    return True
                size -= b - start
                start = b
        return False

    # Content.

    def u64(self, address):
        return int.from_bytes(self.view[address:address + 8], "little")

    def u32(self, address):
        return int.from_bytes(self.view[address:address + 4], "little")

    def write(self, address, data):
        self.view[address:address + len(data)] = data

    def write_u32(self, address, value):
        self.view[address:address + 4] = value.to_bytes(4, "little")

    def write_u64(self, address, value):
        self.view[address:address + 8] = value.to_bytes(8, "little")

    def clear(self, address, size):
        ctypes.memset(self.host + address, 0, size)

    def text(self, address):
        end = address
        while self.view[end]:
            end += 1
        return bytes(self.view[address:end]).decode()


READ, WRITE, EXECUTE = unicorn.UC_PROT_READ, unicorn.UC_PROT_WRITE, unicorn.UC_PROT_EXEC
