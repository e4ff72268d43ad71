"""One process at a time has a journal's directory."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
import weakref
from pathlib import Path

from jdbcstore.errors import JournalInUse, StoreUnavailable
from jdbcstore.journal.directory import LOCK

_taken: set[tuple[int, int]] = set()
"""Device and inode of the directories that this process has: where a lock is the process's, it would not be
kept from a second time."""
_taken_lock = threading.Lock()
_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()
_FLOCK = "hhqqi4x"
"""Linux's struct flock: type, whence, start, length, process."""


class DirectoryLock:
    """A lock on a file in the directory; the kernel frees it when the process ends.

    It belongs to the open file where the system has such locks: one that is the process's is lost as soon as
    anything in it, be it to copy the folder, closes the file. A process that was forked does not keep it.

    :raises JournalInUse: this process, or another, has it
    :raises StoreUnavailable: the file cannot be locked
    """

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK
        self._name = str(path)
        with _taken_lock:
            # A lock that is the process's is lost by closing any descriptor: the file is not opened again.
            try:
                self._directory = _key(directory.stat())
                if self._directory in _taken:
                    raise JournalInUse(str(directory), "this process")
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
            except OSError as error:
                raise _unavailable(path, error) from error
            try:
                _lock(self._file)
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, str(os.getpid()).encode(), 0)
            except (BlockingIOError, PermissionError) as error:
                holder = os.pread(self._file, 20, 0).decode(errors="replace")
                os.close(self._file)
                raise JournalInUse(str(directory), f"process {holder}" if holder else None) from error
            except OSError as error:
                os.close(self._file)
                raise _unavailable(path, error) from error
            self._key = _key(os.fstat(self._file))
            _taken.add(self._directory)
            _held.add(self)

    def check(self) -> None:
        """Make sure that the file in the directory is still the one that is locked.

        :raises OSError: it is not, and another may have the directory, too
        """
        try:
            if _key(os.stat(self._name)) == self._key:
                return
        except FileNotFoundError:
            pass
        raise OSError(
            errno.ESTALE, f"its {LOCK} was removed or replaced, and another process may write there"
        )

    def release(self) -> None:
        with _taken_lock:
            self._close()

    def _close(self) -> None:
        if self in _held:
            _held.discard(self)
            _taken.discard(self._directory)
            os.close(self._file)


def _lock(file: int) -> None:
    """
    :raises BlockingIOError: another has it
    """
    if sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK"):
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system, or an old kernel, that has none
                raise
        else:
            return
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _forget() -> None:
    """In a process that was forked: the open file would stay locked as long as it has it, too."""
    global _taken_lock
    _taken_lock = threading.Lock()
    for lock in list(_held):
        lock._close()


os.register_at_fork(after_in_child=_forget)


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _unavailable(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"cannot lock {path}: {error.strerror}; check the directory and its rights")
