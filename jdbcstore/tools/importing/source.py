"""The parts that all sources have in common: findings, and locks of brokers."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from jdbcstore.errors import StoreError, StoreUnavailable
from jdbcstore.tools.importing.keeping import KeptRecords
from jdbcstore.util.closing import Closing
from jdbcstore.util.file_lock import holder_of

_MOST = 10_000


class NothingToImport(StoreError):
    """A folder has nothing that can be imported."""


class SourceInUse(StoreUnavailable):
    """A running broker has locked the files."""


class SourceDamage(NamedTuple):
    """An unreadable part of a source, and the omitted messages."""

    file: str
    offset: int
    length: int
    reason: str

    def __str__(self) -> str:
        extent = f", {self.length} bytes" if self.length else ""
        return f"{self.file} at {self.offset}{extent}: {self.reason}"


@dataclass(slots=True)
class Findings:
    """Damage and other remarks about a source."""

    damages: list[SourceDamage] = field(default_factory=list)
    """The first 10,000."""
    more_damages: int = 0
    notes: list[str] = field(default_factory=list)
    """Remarks on messages that were omitted on purpose, or may be missing."""
    kept: KeptRecords | None = None
    """A folder for omitted records."""
    _reported: set[SourceDamage] = field(default_factory=set)
    """The same as ``damages``."""

    def damage(
        self,
        file: Path | str,
        offset: int,
        length: int,
        reason: str,
        content: Callable[[], bytes] | None = None,
    ) -> None:
        """Report a part that could not be read. The same part is reported, and kept, once.

        :param content: returns its bytes, if ``file`` is not a file
        """
        damage = SourceDamage(str(file), offset, length, reason)
        if damage in self._reported:
            return
        if len(self.damages) >= _MOST:
            self.more_damages += 1
            return
        self.damages.append(damage)
        self._reported.add(damage)
        if self.kept is not None and length:
            with suppress(OSError):  # it is damaged
                if content is not None:
                    self.kept.add(content(), str(file), offset, reason)
                elif Path(file).is_file():
                    self.kept.copy(Path(file), offset, length, reason)

    def leave_out(
        self, file: Path | str, offset: int, content: Callable[[], bytes], reason: str, of: object
    ) -> None:
        """Keep a record that has no counterpart, if there is a folder for it.

        :param of: the destination or the queue that it is of
        """
        if self.kept is not None:
            with suppress(OSError):
                self.kept.add(content(), str(file), offset, reason, str(of))

    def is_damaged(self, file: Path) -> bool:
        """Return whether damage of a file was reported."""
        return any(damage.file == str(file) for damage in self.damages)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def check_unlocked(paths: Iterable[Path]) -> None:
    """Refuse a source of which a running broker has locked one of these files.

    :raises SourceInUse: one is locked
    """
    for path in paths:
        holder = holder_of(path)
        if holder is not None:
            raise SourceInUse(
                f"{path} is locked by {holder}: stop the broker that has it, and import again; nothing was"
                " changed"
            )


class SharedLocks(Closing):
    """Shares of the lock files of brokers, so that none starts on their files in the meantime.

    The files are opened for reading alone. A context manager that gives them back.

    :raises SourceInUse: a running broker has locked one
    """

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._files: dict[Path, BinaryIO] = {}
        paths = [path.resolve() for path in paths if path.is_file()]
        check_unlocked(paths)
        try:
            for path in paths:
                self._share(path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def _share(self, path: Path) -> None:
        file = self._files[path] = path.open("rb")
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise SourceInUse(f"{path} is locked; stop the broker that has it") from error
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EBADF):
                raise

    def release(self, path: Path) -> None:
        """Give one back, if there is a share of it: the target is about to lock it itself."""
        file = self._files.pop(path.resolve(), None)
        if file is not None:
            file.close()


class BodyFiles:
    """The files with the bodies, by number, of which few are open at a time."""

    def __init__(self, most: int = 64) -> None:
        self.paths: list[Path] = []
        self._open: dict[int, int] = {}
        self._most = most

    def number(self, path: Path) -> int:
        """Return the number of a file, which is a new one each time."""
        self.paths.append(path)
        return len(self.paths) - 1

    def read(self, file: int, at: int, size: int) -> bytes:
        """Return bytes of a file; fewer if it ends before.

        :raises OSError: they cannot be read
        """
        descriptor = self._open.pop(file, None)
        if descriptor is None:
            if len(self._open) >= self._most:
                os.close(self._open.pop(next(iter(self._open))))
            descriptor = os.open(self.paths[file], os.O_RDONLY | os.O_CLOEXEC)
        self._open[file] = descriptor
        data = os.pread(descriptor, size, at)
        while 0 < len(data) < size and (more := os.pread(descriptor, size - len(data), at + len(data))):
            data += more
        return data

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])
