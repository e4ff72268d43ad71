"""A journal's directory: the names of its files, a folder beside them, and the lock that one process has."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jdbcstore.errors import JournalInUse, StoreUnavailable
from jdbcstore.journal.layout import SegmentHeader
from jdbcstore.util.file_lock import FileLock, holder_of
from jdbcstore.util.files import UNFINISHED, make_directory, replace_file, sync

LOCK = "journal.lock"
_SEGMENT = re.compile(r"journal-(\d{10,20})\.log")
_PREALLOCATED = re.compile(r"spare-(\d+)\.log")
_KEPT = re.compile(r"kept-([0-9a-f]{16})-(\d{10,20})-(\d+)-(\d+)-(\d+)-(\d+)\.log")


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"journal-{number:010}.log"


def preallocated_path(directory: Path, number: int) -> Path:
    """Return the path of a file that can become a segment."""
    return directory / f"spare-{number}.log"


class Kept(NamedTuple):
    """A released segment that was retained; these facts are in its file's name."""

    path: Path
    journal: int
    number: int
    first_number: int
    last_number: int
    """The last record; before the first if there is none."""
    first_time: int
    """Epoch milliseconds; its records were written from then until ``last_time``."""
    last_time: int

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def kept_path(directory: Path, header: SegmentHeader, *, last_number: int, last_time: int) -> Path:
    return directory / (
        f"kept-{header.journal:016x}-{header.number:010}-{header.first_number}-{last_number}"
        f"-{header.created}-{last_time}.log"
    )


def live_segments(directory: Path) -> dict[int, Path]:
    """Return the segments that are not released, by their numbers, ascending."""
    segments = {int(match[1]): path for path, match in _matching(directory, _SEGMENT)}
    return dict(sorted(segments.items()))


def preallocated(directory: Path) -> dict[int, Path]:
    """Return files that can become segments, by their numbers."""
    return {int(match[1]): path for path, match in _matching(directory, _PREALLOCATED)}


def kept_segments(directory: Path) -> list[Kept]:
    """Return the retained segments, oldest first."""
    segments = [
        Kept(path, int(match[1], 16), *(int(match[group]) for group in range(2, 7)))
        for path, match in _matching(directory, _KEPT)
    ]
    return sorted(segments, key=lambda kept: (kept.first_time, kept.number))


def unfinished(directory: Path) -> list[Path]:
    """Return unfinished files of a killed process."""
    return [path for path in directory.iterdir() if path.name.endswith(UNFINISHED)]


def _matching(directory: Path, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in directory.iterdir():
        if match := pattern.fullmatch(path.name):
            yield path, match


class AsideFolder:
    """A folder of files beside the log, as :class:`jdbcstore.journal.abc.Aside` says.

    It is created with the first file. Readers need no lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    @property
    def place(self) -> str:
        return str(self._path)

    def names(self) -> list[str]:
        return [path.name for path in self._path.glob("*") if not path.name.endswith(UNFINISHED)]

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        with self._lock:
            make_directory(self._path)
            replace_file(self._path / name, content)

    def remove(self, name: str) -> None:
        with self._lock:
            (self._path / name).unlink(missing_ok=True)
            if self._path.exists():
                sync(self._path)


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
        """Check that the file in the directory is still the locked one.

        :raises OSError: it is not, and another process may have locked the directory, too
        """
        if self._lock.status() is None:
            raise OSError(
                errno.ESTALE, f"its {LOCK} was removed or replaced, and another process may write there"
            )

    def release(self) -> None:
        self._lock.release()
