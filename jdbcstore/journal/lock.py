"""One process at a time has a journal's directory."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

from jdbcstore.errors import JournalInUse, StoreUnavailable
from jdbcstore.journal.directory import LOCK

_taken: set[tuple[int, int]] = set()
"""Device and inode of the files that this process has locked: it would not be kept from a second time."""
_taken_lock = threading.Lock()


class DirectoryLock:
    """A lock on a file in the directory; the kernel frees it when the process ends.

    A record lock: a process that was forked does not have it, as it would have flock's.

    :raises JournalInUse: this process, or another, has it
    :raises StoreUnavailable: the file cannot be locked
    """

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK
        with _taken_lock:
            # Closing any descriptor of the file loses the lock: one that is ours must not be opened again.
            if _key_of(path) in _taken:
                raise JournalInUse(str(directory), "this process")
            try:
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
            except OSError as error:
                raise _unavailable(path, error) from error
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, str(os.getpid()).encode(), 0)
            except (BlockingIOError, PermissionError) as error:
                holder = os.pread(self._file, 20, 0).decode(errors="replace")
                os.close(self._file)
                raise JournalInUse(str(directory), f"process {holder}" if holder else None) from error
            except OSError as error:
                os.close(self._file)
                raise _unavailable(path, error) from error
            status = os.fstat(self._file)
            self._key = status.st_dev, status.st_ino
            _taken.add(self._key)

    def release(self) -> None:
        with _taken_lock:
            if self._key in _taken:
                _taken.discard(self._key)
                os.close(self._file)


def _key_of(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _unavailable(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"cannot lock {path}: {error.strerror}; check the directory and its rights")
