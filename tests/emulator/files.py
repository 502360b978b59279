# SPDX-License-Identifier: MIT
"""System calls of the model of the kernel: files, and what the C library calls at its start."""

import struct
from dataclasses import dataclass

ENOENT, EBADF, EINVAL, ENOSYS = 2, 9, 22, 38
O_TMPFILE = 0x400000
F_GETFL, O_RDWR = 3, 2
AT_EMPTY_PATH = 0x1000
S_IFREG = 0o100000
RLIMIT_STACK = 3
RELEASE = b"6.18.0"


@dataclass
class MemoryFile:
    at: int = 0  # where it was mapped first
    size: int = 0


@dataclass
class OpenFile:
    content: bytes = b""
    position: int = 0
    memory: MemoryFile = None  # in place of `content`


class Files:
    """The part of Kernel for files, and for the start of a process."""

    # Files: those of sysfs that say what machine this is, and memory files, which may have names.

    def _open(self, file):
        fd = 3
        while fd in self.process.files:
            fd += 1
        self.process.files[fd] = file
        return fd

    def _memory_file(self, path):
        """The one with this name, or None."""
        number = path.removeprefix("/proc/self/fd/")
        if number != path and int(number) in self.process.files:
            return self.process.files[int(number)].memory
        return self.process.named.get(path)

    def sys_openat(self, _task, _directory, path, flags, *_):
        path = self.memory.text(path)
        if flags & O_TMPFILE:
            return self.sys_memfd_create()
        if path in self.files:
            return self._open(OpenFile(self.files[path]))
        memory = self._memory_file(path)
        return self._open(OpenFile(memory=memory)) if memory else -ENOENT

    def sys_linkat(self, _task, _directory, old, _new_directory, new, *_):
        self.process.named[self.memory.text(new)] = self._memory_file(self.memory.text(old))
        return 0

    def sys_unlinkat(self, _task, _directory, path, *_):
        return 0 if self.process.named.pop(self.memory.text(path), None) else -ENOENT

    def sys_unlink(self, task, path, *_):
        return self.sys_unlinkat(task, 0, path)

    def sys_faccessat2(self, _task, _directory, path, *_):
        return 0 if self.memory.text(path) in self.process.named else -ENOENT

    def sys_memfd_create(self, *_):
        return self._open(OpenFile(memory=MemoryFile()))

    def sys_fallocate(self, _task, fd, *_):
        return 0 if fd in self.process.files else -EBADF

    def sys_ftruncate(self, _task, fd, size, *_):
        self.process.files[fd].memory.size = size
        return 0

    def sys_newfstatat(self, _task, fd, _path, address, flags, *_):
        """fstat(2) of a memory file; other files are not there."""
        file = self.process.files.get(fd)
        if not flags & AT_EMPTY_PATH or not file or not file.memory:
            return -ENOENT
        status = bytearray(128)
        struct.pack_into("<I", status, 24 if self.cpu.name == "x86_64" else 16, S_IFREG | 0o600)
        struct.pack_into("<Q", status, 48, file.memory.size)
        self.memory.write(address, bytes(status))
        return 0

    def sys_pread64(self, _task, fd, address, size, offset, *_):
        at = self.process.files[fd].memory.at + offset
        self.memory.write(address, bytes(self.memory.view[at:at + size]))
        return size

    def sys_fcntl(self, _task, fd, command, *_):
        if fd not in self.process.files:
            return -EBADF
        return O_RDWR if command == F_GETFL else 0

    def sys_read(self, _task, fd, address, size, *_):
        file = self.process.files.get(fd)
        if not file:
            return -EBADF
        data = file.content[file.position:file.position + size]
        file.position += len(data)
        self.memory.write(address, data)
        return len(data)

    def sys_close(self, _task, fd, *_):
        return 0 if self.process.files.pop(fd, None) else -EBADF

    def sys_fstatfs(self, *_):
        return -ENOSYS

    # What the C library queries when it starts.

    def sys_arch_prctl(self, task, code, address, *_):
        if code != 0x1002:  # ARCH_SET_FS
            return -EINVAL
        task.tp = address
        self.machine.set_thread_pointer(address)
        return 0

    def sys_uname(self, _task, address, *_):
        fields = (b"Linux", b"emulated", RELEASE, b"", self.cpu.name.encode(), b"")
        self.memory.write(address, b"".join(f.ljust(65, b"\0") for f in fields))
        return 0

    def sys_getrandom(self, _task, address, size, *_):
        self.memory.write(address, bytes(i * 37 & 255 for i in range(size)))
        return size

    def sys_prlimit64(self, _task, _pid, resource, _new, old, *_):
        if old:
            limit = 8 << 20 if resource == RLIMIT_STACK else (1 << 64) - 1
            self.memory.write(old, struct.pack("<QQ", limit, (1 << 64) - 1))
        return 0

    def sys_set_tid_address(self, task, *_):
        return task.tid

    def _nothing(self, *_):
        return 0

    sys_prctl = sys_set_robust_list = sys_rt_sigprocmask = sys_rt_sigaction = _nothing

    def _not_there(self, *_):
        return -ENOENT

    sys_readlink = sys_readlinkat = _not_there
