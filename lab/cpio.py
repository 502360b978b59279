# SPDX-License-Identifier: MIT
"""An initramfs: the newc form of cpio, as Documentation/driver-api/early-userspace describes it."""

MAGIC = "070701"
DIRECTORY, REGULAR, CHARACTER = 0o040000, 0o100000, 0o020000
TRAILER = "TRAILER!!!"


def _padded(data):
    return data + b"\0" * (-len(data) % 4)


class Writer:
    """Collects entries; data() is the archive."""

    def __init__(self):
        self.parts = []
        self.inode = 0

    def _add(self, name, mode, data=b"", device=(0, 0)):
        self.inode += 1
        encoded = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        header = (MAGIC + "".join(f"{field:08x}" for field in fields)).encode()
        self.parts += [_padded(header + encoded), _padded(data)]

    def directory(self, name):
        """An empty directory."""
        self._add(name, DIRECTORY | 0o755)

    def file(self, name, data, mode=0o755):
        """A file with its content."""
        self._add(name, REGULAR | mode, data)

    def console(self):
        """/dev/console, which the kernel opens for init."""
        self._add("dev/console", CHARACTER | 0o600, device=(5, 1))

    def data(self):
        """The whole archive."""
        self._add(TRAILER, 0)
        return b"".join(self.parts)
