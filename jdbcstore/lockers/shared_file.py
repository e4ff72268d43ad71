"""SharedFileLocker: an operating system's lock on a file in a directory that all brokers see."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

from jdbcstore.errors import ConfigurationError, StoreError, StoreUnavailable
from jdbcstore.lockers.base import AbstractLocker

LOCK_FILE = "lock"

_taken: set[tuple[int, int]] = set()
"""Device and inode of the files that this process has locked: it would not be kept from a second time."""
_taken_lock = threading.Lock()
_FLOCK = "hhqqi4x"
"""Linux's struct flock: type, whence, start, length, process."""


class SharedFileLocker(AbstractLocker):
    """As ActiveMQ's, and against one: a lock on all of ``directory/lock``.

    The kernel frees it when the process ends, not while it is paused. A file that was replaced, removed or
    written by another since is no longer ours.

    :raises ConfigurationError: there is no such directory
    """

    type: ClassVar[str] = "shared-file-locker"

    def __init__(self, *, directory: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        if directory is None:
            raise ConfigurationError("the shared-file-locker needs a directory", option="locker.directory")
        self._path = Path(directory) / LOCK_FILE
        self._file: int | None = None
        self._key: tuple[int, int] | None = None
        self._mtime = 0

    def pre_start(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"cannot make the directory {self._path.parent} for the lock: {error.strerror}",
                option="locker.directory",
            ) from error

    def do_start(self, patience: float) -> bool:  # noqa: ARG002
        with _taken_lock:
            # A process that closes any descriptor of a file loses its record locks on it, so a file
            # that is ours must not even be opened again.
            if _is_taken(self._path):
                return False
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                # Java takes a record lock, too, and would not see flock's.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError) as error:
                if error.filename is not None:
                    raise _unavailable(self._path, error) from error
                os.close(file)
                return False
            except OSError as error:
                raise _unavailable(self._path, error) from error
            self._file, self._key = file, _key(os.fstat(file))
            _taken.add(self._key)
        os.pwrite(file, struct.pack(">q", self.clock.now_ms()), 0)
        os.fsync(file)
        self._mtime = os.fstat(file).st_mtime_ns
        return True

    def _pause_after(self, failure: StoreError) -> float:  # noqa: ARG002
        return min(self.lock_acquire_sleep_interval, 1.0)

    @property
    def file(self) -> Path:
        return self._path

    @property
    def holder(self) -> str | None:
        return file_holder(self._path)

    def keep_alive(self) -> bool:
        if self._file is None:
            return False
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unavailable(self._path, error) from error
        return _key(there) == self._key and there.st_mtime_ns == self._mtime

    def do_stop(self) -> None:
        file, self._file = self._file, None
        key, self._key = self._key, None
        if file is not None and key is not None:
            with _taken_lock:
                os.close(file)
                _taken.discard(key)


def file_holder(path: Path) -> str | None:
    """Which process has locked the file now, where the operating system says so."""
    with _taken_lock:
        if _is_taken(path):
            return "this process"
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return _process_with_lock(file)
        except OSError:
            return None
        finally:
            os.close(file)


def _is_taken(path: Path) -> bool:
    try:
        return _key(path.stat()) in _taken
    except OSError:
        return False


def _process_with_lock(file: int) -> str | None:
    if sys.platform != "linux":
        return None
    question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else f"process {pid}"


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _unavailable(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"cannot lock {path}: {error.strerror}; check the directory and its rights")
