"""An exclusive lock on a file, which the kernel releases when the process ends."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import struct
import sys
import threading
import weakref
from pathlib import Path

_FLOCK = "hhqqi4x"
"""Linux's struct flock: type, whence, start, length, process."""
_PID = re.compile(rb"(?:^|pid )(\d+)$")

_Key = tuple[int, int, str]
_taken: set[_Key] = set()
"""The files that this process has locked: where a lock is the process's, the kernel would grant it again."""
_guard = threading.Lock()
_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLock:
    """A lock on the whole of a file; it conflicts with Java's locks on the same file.

    It belongs to the open file where the system has such locks. A lock of the process would be lost as soon
    as any code in the process, for instance a backup of the folder, opens and closes the file. A forked
    child does not keep it. Not released while the process is merely paused.

    :raises BlockingIOError: it is locked; :func:`holder_of` may know by which process
    :raises OSError: the file cannot be opened or locked
    """

    def __init__(self, path: Path, mode: int = 0o644) -> None:
        self._name = str(path)
        with _guard:
            # A lock of the process is lost by closing any descriptor: the file must not be opened again.
            if _is_taken(path):
                raise BlockingIOError(errno.EAGAIN, "this process has locked it", self._name)
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
            try:
                _lock(self.descriptor)
                status = os.fstat(self.descriptor)
                self._keys = {_key(status), _key(path.parent.stat(), path.name)}
            except BaseException:
                os.close(self.descriptor)
                raise
            self._inode = status.st_dev, status.st_ino
            _taken.update(self._keys)
            _held.add(self)

    def write(self, content: bytes) -> None:
        """Replace the file's content; ending in ``pid 123``, it lets :func:`holder_of` name the process."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, content, 0)

    def status(self) -> os.stat_result | None:
        """Return the status of the file under this name; None if it is no longer the locked one.

        Then it was removed or replaced, and another process may have locked the new one.
        """
        try:
            status = os.stat(self._name)
        except FileNotFoundError:
            return None
        return status if (status.st_dev, status.st_ino) == self._inode else None

    def release(self) -> None:
        """Close the file, which releases the lock. Does nothing if it is released."""
        with _guard:
            self._close()

    def _close(self) -> None:
        if self in _held:
            _held.discard(self)
            _taken.difference_update(self._keys)
            os.close(self.descriptor)


def holder_of(path: Path) -> str | None:
    """Describe the process that has the file locked now; None if none has, or the system does not say."""
    with _guard:
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


def _process_with_lock(file: int) -> str | None:
    if sys.platform != "linux":
        return None
    question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, question))
    if kind == fcntl.F_UNLCK:
        return None
    if pid <= 0:  # the lock is an open file's
        written = _PID.search(os.pread(file, 64, 0))
        return f"process {int(written[1])}" if written else "another process"
    return f"process {pid}"


def _lock(file: int) -> None:
    try:
        if sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK"):
            try:
                request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                fcntl.fcntl(file, fcntl.F_OFD_SETLK, request)
            except OSError as error:
                if error.errno != errno.EINVAL:  # a file system, or an old kernel, without such locks
                    raise
            else:
                return
        # Java takes a record lock as well, and would not see flock's.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except PermissionError as error:
        raise BlockingIOError(errno.EAGAIN, "it is locked") from error


def _is_taken(path: Path) -> bool:
    if not _taken:
        return False
    try:
        if _key(path.parent.stat(), path.name) in _taken:
            return True
        return _key(path.stat()) in _taken
    except OSError:
        return False


def _key(status: os.stat_result, name: str = "") -> _Key:
    """Identify the file by its inode, or by its name in a folder."""
    return status.st_dev, status.st_ino, name


def _forget() -> None:
    """Close locked files in a forked child, which would keep them locked."""
    global _guard
    _guard = threading.Lock()
    for lock in list(_held):
        lock._close()


os.register_at_fork(after_in_child=_forget)
