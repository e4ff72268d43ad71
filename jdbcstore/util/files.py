"""Files that survive a crash: replaced whole or not at all, and durable by their syncs."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

UNFINISHED = ".tmp"
"""The suffix of a file that is being written; it means nothing until it is renamed."""
_PIECE = 1 << 20


class Files:
    """The operating system's files; tests replace this class to make them fail.

    Nothing is durable before a sync: the bytes and the size of a file before :meth:`sync`, its name before
    :meth:`sync_directory`. Every method may raise :class:`OSError`. Readers open files by themselves.
    """

    def create(self, path: Path) -> int:
        """Create a file for reading and writing; returns the descriptor."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)

    def open(self, path: Path) -> int:
        """Open an existing file for reading and writing; returns the descriptor."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def write(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        """Write at an offset; returns the number of bytes written, which may be fewer than all."""
        return os.pwrite(file, data, offset)

    def sync(self, file: int) -> None:
        """Make the bytes and the size of a file durable, but not its times."""
        os.fdatasync(file)

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def close(self, file: int) -> None:
        os.close(file)

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing the target if it exists."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        sync(path)


OS_FILES = Files()


def sync(path: Path) -> None:
    """Make the bytes of a file, or the names in a directory, durable.

    :raises OSError:
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def write_all(file: int, data: bytes, offset: int = 0, files: Files = OS_FILES) -> int:
    """Write all of the data at an offset; returns the offset of its end.

    :raises OSError: a part of it may be written
    """
    rest = memoryview(data)
    while rest:
        written = files.write(file, rest, offset)
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        rest, offset = rest[written:], offset + written
    return offset


def replace_file(
    path: Path, content: bytes | Iterable[bytes], *, mode: int | None = None, files: Files = OS_FILES
) -> None:
    """Write a file under its name, durably: after a crash it is there with all of this content, or as before.

    :raises OSError: the file is as before, or has this content and its name is not durable yet
    """
    with creating(path, files) as file:
        if mode is not None:
            os.fchmod(file, mode)
        offset = 0
        for piece in (content,) if isinstance(content, bytes) else content:
            offset = write_all(file, piece, offset, files)
        files.sync(file)
    files.sync_directory(path.parent)


@contextlib.contextmanager
def creating(path: Path, files: Files) -> Iterator[int]:
    """Yield the descriptor of a new file, which gets its name after the block, or is removed on an error.

    :raises OSError: the file is as before
    """
    making = path.with_name(path.name + UNFINISHED)
    if making.exists():
        files.remove(making)  # of a process that was killed
    try:
        file = files.create(making)
        try:
            yield file
        finally:
            files.close(file)
        files.rename(making, path)
    except OSError:
        with contextlib.suppress(OSError):
            files.remove(making)
        raise


def copy_file(source: Path, target: Path, *, files: Files = OS_FILES) -> None:
    """Copy a file as :func:`replace_file` writes one, also to another file system.

    :raises OSError:
    """
    replace_file(target, _pieces(source), files=files)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def make_directory(path: Path, *, files: Files = OS_FILES) -> None:
    """Create a directory and its parents where they are missing, durably.

    :raises OSError:
    """
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        files.sync_directory(folder.parent)
