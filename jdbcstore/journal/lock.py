"""The lock on a journal's directory: one process at a time has it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from jdbcstore.errors import JournalInUse, StoreUnavailable
from jdbcstore.journal.directory import LOCK
from jdbcstore.util.file_lock import FileLock, holder_of


class DirectoryLock:
    """A lock on a file in the directory; the kernel releases it when the process ends.

    :raises JournalInUse: this process, or another, has it
    :raises StoreUnavailable: the file cannot be locked
    """

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK
        lock: FileLock | None = None
        try:
            lock = FileLock(path, 0o640)
            lock.write(str(os.getpid()).encode())
        except BlockingIOError as error:
            raise JournalInUse(str(directory), holder_of(path)) from error
        except OSError as error:
            if lock is not None:
                lock.release()
            raise StoreUnavailable(
                f"cannot lock {path}: {error.strerror}; check the directory and its rights"
            ) from error
        self._lock = lock

    def check(self) -> None:
        """Make sure that the file in the directory is still the one that is locked.

        :raises OSError: it is not, and another process may have locked the directory, too
        """
        if self._lock.status() is None:
            raise OSError(
                errno.ESTALE, f"its {LOCK} was removed or replaced, and another process may write there"
            )

    def release(self) -> None:
        self._lock.release()
