"""SharedFileLocker: an operating system's lock on a file in a directory that all brokers see."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, ClassVar

from jdbcstore.errors import ConfigurationError, StoreError, StoreUnavailable
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.util.file_lock import FileLock, holder_of

LOCK_FILE = "lock"


class SharedFileLocker(AbstractLocker):
    """ActiveMQ's, and compatible with it: a lock on the whole of ``directory/lock``.

    The kernel releases it when the process ends, not while it is paused. It is lost if the file is replaced,
    removed or written by another process.

    :raises ConfigurationError: no directory is given
    """

    type: ClassVar[str] = "shared-file-locker"

    def __init__(self, *, directory: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        if directory is None:
            raise ConfigurationError("the shared-file-locker needs a directory", option="locker.directory")
        self._path = Path(directory) / LOCK_FILE
        self._held: FileLock | None = None
        self._mtime = 0

    def pre_start(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"cannot make the directory {self._path.parent} for the lock: {error.strerror}",
                option="locker.directory",
            ) from error

    def do_start(self, max_wait: float) -> bool:  # noqa: ARG002
        try:
            self._held = FileLock(self._path)
            # The time is what ActiveMQ writes; the process is for holder_of.
            self._held.write(struct.pack(">q", self.clock.now_ms()) + f"pid {os.getpid()}".encode())
            os.fsync(self._held.descriptor)
            self._mtime = os.fstat(self._held.descriptor).st_mtime_ns
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._unavailable(error) from error
        return True

    def _pause_after(self, failure: StoreError) -> float:  # noqa: ARG002
        return min(self.lock_acquire_sleep_interval, 1.0)

    @property
    def file(self) -> Path:
        return self._path

    @property
    def holder(self) -> str | None:
        return holder_of(self._path)

    def keep_alive(self) -> bool:
        if self._held is None:
            return False
        try:
            status = self._held.status()
        except OSError as error:
            raise self._unavailable(error) from error
        if status is None:
            self.lost = f"the lock file {self._path} was removed or replaced; is its disk mounted?"
        return status is not None and status.st_mtime_ns == self._mtime

    def do_stop(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def _unavailable(self, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(
            f"cannot lock {self._path}: {error.strerror}; check the directory and its rights"
        )
