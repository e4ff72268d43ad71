"""Folders that hold an archive: of this machine, or of any file system that Spark reaches by URL.

Files are created and never changed, so a file system needs neither renames nor locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from jdbcstore.config.data_source import is_url
from jdbcstore.errors import ConfigurationError, NotMaster
from jdbcstore.util.files import make_directory, sync, write_all


class Folder(Protocol):
    """A folder and its contents, by relative paths with slashes."""

    place: str
    """Its path or URL, for people."""

    def url(self, path: str) -> str:
        """Return the URL of a path in it, for Spark."""

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; empty if it does not exist."""

    def read(self, path: str) -> bytes:
        """Read a file.

        :raises FileNotFoundError: there is none
        """

    def create(self, path: str, content: bytes) -> None:
        """Write a new file durably. A process that is killed may leave a part of it.

        :raises FileExistsError: there is one; it was not changed
        """

    def keep(self, paths: Iterable[str]) -> None:
        """Make files that Spark wrote durable, with the folders that they are in."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its contents, if it exists."""

    def checksum(self, path: str) -> str:
        """Return the SHA-256 of a file, in hexadecimal.

        :raises FileNotFoundError: there is none
        """

    def fetch(self, path: str) -> Path:
        """Return a file as one of this machine, until :meth:`drop`.

        :raises FileNotFoundError: there is none
        """

    def drop(self, path: str) -> None:
        """Remove the copy that :meth:`fetch` has made, if it has made one."""

    @contextmanager
    def writing(self) -> Iterator[bool]:
        """Yield whether the block, which writes, excludes every other writer.

        :raises NotMaster: another process is writing
        :raises ConfigurationError: the folder cannot be written to
        """


def folder_at(where: str | Path) -> Folder:
    """Return the folder of this path or URL; a URL needs Spark, which is started if it does not run."""
    if isinstance(where, Path) or not is_url(where):
        refuse_url(where)
        return LocalFolder(Path(where))
    from jdbcstore.analytics.hadoop import HadoopFolder

    return HadoopFolder(where)


def refuse_url(folder: str | Path) -> None:
    """Refuse a URL where only a path will do.

    :raises ConfigurationError: ``folder`` is a URL
    """
    if is_url(str(folder)):
        raise ConfigurationError(f"{folder} is a URL; name a local or mounted folder instead")


class LocalFolder:
    """A folder of this machine, which may be mounted from elsewhere."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.place = str(self._path)

    def url(self, path: str) -> str:
        return f"file://{self._path / path}"

    def names(self, path: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(os.listdir(self._path / path))
        return []

    def read(self, path: str) -> bytes:
        return (self._path / path).read_bytes()

    def create(self, path: str, content: bytes) -> None:
        target = self._path / path
        make_directory(target.parent)
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            write_all(file, content)
            os.fsync(file)
        finally:
            os.close(file)
        sync(target.parent)

    def keep(self, paths: Iterable[str]) -> None:
        files = [self._path / path for path in paths]
        for file in files:
            sync(file)
        for folder in {parent for file in files for parent in file.parents if self._path in parent.parents}:
            sync(folder)
        sync(self._path)

    def remove(self, path: str) -> None:
        target = self._path / path
        if target.is_dir():
            # A Spark worker that has outlived its killed driver may still be writing there.
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    def checksum(self, path: str) -> str:
        with (self._path / path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def fetch(self, path: str) -> Path:
        source = self._path / path
        if not source.exists():
            raise FileNotFoundError(source)
        return source

    def drop(self, path: str) -> None:
        pass

    @contextmanager
    def writing(self) -> Iterator[bool]:
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._path / "_lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigurationError(f"cannot write to {self.place}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise NotMaster(
                    f"another process is writing to {self.place}; wait until it has finished"
                ) from error
            yield True
        finally:
            os.close(lock)
