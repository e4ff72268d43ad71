"""The file system as the journal uses it: one place to break it in tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """What the journal asks of a file system. Paths are whole; every call may raise :class:`OSError`.

    Nothing is durable before a sync: bytes and a file's size before :meth:`sync` of the file, its name before
    :meth:`sync_directory`. Reading is not part of it: whatever reads opens files itself.
    """

    def create(self, path: Path) -> int:
        """A new file, to be read and written; the descriptor."""
        ...

    def open(self, path: Path) -> int:
        """An existing file, to be read and written; the descriptor."""
        ...

    def write(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        """Write at an offset; how many bytes were, which may be fewer than all."""
        ...

    def sync(self, file: int) -> None:
        """Make what was written durable, and the size of the file; not its times."""
        ...

    def truncate(self, file: int, size: int) -> None: ...

    def close(self, file: int) -> None: ...

    def rename(self, source: Path, target: Path) -> None:
        """Over the target, if that exists."""
        ...

    def remove(self, path: Path) -> None: ...

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        ...


class OsFiles:
    """The operating system's."""

    def create(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def write(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        return os.pwrite(file, data, offset)

    def sync(self, file: int) -> None:
        os.fdatasync(file)

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def close(self, file: int) -> None:
        os.close(file)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def sync_directory(self, path: Path) -> None:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
