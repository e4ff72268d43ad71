"""Files of an archive: their layout on disk, atomic commits of batches, and the rows in them.

::

    archive/
      _lock                       locked by the writing process
      _manifest/000001.json       a batch: its files with sizes, IDs and checksums
      _manifest/000001.removed    the store has nothing left of that batch
      _staging/000002-6f0c.../    a batch that is being written
      folder=queue_orders-1b2c.../date=2026-11-21/part-....parquet

A batch belongs to the archive once its manifest exists; then its files are moved to their places. The next
writer moves the files that a killed process did not, and deletes those without a manifest. Reading needs
pyarrow but not Spark.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from jdbcstore.errors import ConfigurationError, NotMaster, StoresDiffer
from jdbcstore.tools.pages import PAGE, bounded
from jdbcstore.util.files import replace_file, sync

_FORMAT = 1
_READ_AT_ONCE = 16
"""Rows that are decompressed at once, which bounds the memory for large messages."""


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file of the archive."""

    path: str
    """Relative to the archive's folder."""
    messages: int
    bytes: int
    first_id: int
    last_id: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One batch of messages."""

    number: int
    staged: str
    """The folder below ``_staging`` that its files were written to."""
    written_ms: int
    files: tuple[File, ...]

    @property
    def messages(self) -> int:
        return sum(file.messages for file in self.files)


class Archive:
    """An archive in a folder. Reading needs no lock, because committed files never change."""

    def __init__(self, folder: str | Path) -> None:
        refuse_url(folder)
        self.folder = Path(folder).absolute()
        self._manifests = self.folder / "_manifest"
        self._staging = self.folder / "_staging"

    @staticmethod
    def is_one(folder: Path) -> bool:
        """Whether this folder contains an archive."""
        refuse_url(folder)
        return (folder / "_manifest").is_dir()

    def manifests(self) -> list[Manifest]:
        """The batches of the archive, oldest first.

        :raises ConfigurationError: a later version of jdbcstore wrote them
        """
        return [_read(path) for path in sorted(self._manifests.glob("*.json"))]

    def path_of(self, manifest: Manifest, file: File) -> Path:
        """The current location of a file.

        :raises StoresDiffer: the file is missing
        """
        for path in (self.folder / file.path, self._staging / manifest.staged / file.path):
            if path.exists():
                return path
        raise StoresDiffer(f"{self.folder / file.path} is in the manifest but missing; restore the file")

    def check(self, manifest: Manifest, file: File) -> Path:
        """The current location of a file, with its checksum verified.

        :raises StoresDiffer: the file is missing or damaged
        """
        path = self.path_of(manifest, file)
        if checksum(path) != file.sha256:
            raise StoresDiffer(f"{path} differs from what was written; restore the file from a backup")
        return path

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the archive for writing in this block, after completing the batches of a killed process.

        :raises NotMaster: another process is writing to the archive
        """
        try:
            self._manifests.mkdir(parents=True, exist_ok=True)
            self._staging.mkdir(exist_ok=True)
            lock = os.open(self.folder / "_lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigurationError(f"cannot write to {self.folder}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._finish()
            yield
        except BlockingIOError as error:
            raise NotMaster(
                f"another process is writing to {self.folder}; wait until it has finished"
            ) from error
        finally:
            os.close(lock)

    def _finish(self) -> None:
        manifests = {manifest.staged: manifest for manifest in self.manifests()}
        for folder in sorted(self._staging.iterdir()):
            if folder.name in manifests:
                self.publish(manifests[folder.name])
            else:
                # A Spark worker that has outlived its killed driver may still be writing there.
                shutil.rmtree(folder, ignore_errors=True)

    def stage(self) -> Path:
        """Choose a new folder for a batch: workers of an earlier process may still write to theirs."""
        return self._staging / uuid.uuid4().hex

    def commit(self, staged: Path, written: int) -> Manifest | None:
        """Add a batch to the archive, all of it or nothing; returns None if it has no messages.

        :raises ConfigurationError: the folder has fewer messages than Spark wrote
        """
        paths = [path for path in sorted(staged.rglob("*.parquet")) if not path.name.startswith((".", "_"))]
        files = tuple(file for file in (_described(staged, path) for path in paths) if file.messages)
        seen = sum(file.messages for file in files)
        if seen < written:
            shutil.rmtree(staged, ignore_errors=True)
            raise ConfigurationError(
                f"Spark wrote {written} messages to {self.folder}, but only {seen} of them are there: each"
                " worker has its own folder of that name; choose one that all machines share. Nothing was"
                " archived"
            )
        if not files:
            shutil.rmtree(staged)
            return None
        for folder in {path.parent for path in paths} | {staged}:
            sync(folder)
        numbers = [manifest.number for manifest in self.manifests()]
        written_ms = time.time_ns() // 1_000_000
        manifest = Manifest(max(numbers, default=0) + 1, staged.name, written_ms, files)
        self._write(f"{manifest.number:06}.json", {"format": _FORMAT, **asdict(manifest)})
        return manifest

    def publish(self, manifest: Manifest) -> None:
        """Move the files of a batch to their places, unless they are already there."""
        staged = self._staging / manifest.staged
        for file in manifest.files:
            source, target = staged / file.path, self.folder / file.path
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(source, target)
        for folder in {(self.folder / file.path).parent for file in manifest.files}:
            sync(folder)
            sync(folder.parent)
        sync(self.folder)
        shutil.rmtree(staged)

    def is_removed(self, manifest: Manifest) -> bool:
        """Whether the store has nothing left of this batch."""
        return (self._manifests / f"{manifest.number:06}.removed").exists()

    def note_removed(self, manifest: Manifest) -> None:
        """Record that the store has nothing left of this batch."""
        self._write(f"{manifest.number:06}.removed", {"removed_ms": time.time_ns() // 1_000_000})

    def _write(self, name: str, facts: dict[str, Any]) -> None:
        """Write a file of the manifest atomically."""
        replace_file(self._manifests / name, json.dumps(facts, indent=1).encode(), mode=0o644)


def refuse_url(folder: str | Path) -> None:
    """Refuse a URL, which as a path would be a strange folder below the working directory.

    :raises ConfigurationError: ``folder`` is a URL
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(folder)):
        raise ConfigurationError(f"{folder} is a URL; name a local or mounted folder instead")


def _read(path: Path) -> Manifest:
    facts = json.loads(path.read_text(encoding="utf-8"))
    if facts.pop("format", None) != _FORMAT:
        raise ConfigurationError(f"{path} was written by another version of jdbcstore; use that one")
    files = tuple(File(**file) for file in facts.pop("files"))
    return Manifest(**facts, files=files)


def _described(staged: Path, path: Path) -> File:
    sync(path)
    with pq.ParquetFile(path) as parquet:
        count = parquet.metadata.num_rows
        ids = parquet.read(columns=["id"])["id"]
    bounds = pc.min_max(ids).as_py()
    return File(
        path.relative_to(staged).as_posix(),
        count,
        path.stat().st_size,
        bounds["min"] or 0,
        bounds["max"] or 0,
        checksum(path),
    )


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class ArchivedName(NamedTuple):
    """The identity of an archived message, and the checksum of its bytes."""

    id: int
    container: str
    msgid_prod: str | None
    msgid_seq: int | None
    msg_sha256: str
    message_size: int
    time_ms: int | None

    @property
    def name(self) -> tuple[object, ...]:
        return self[:4]


class ArchivedMessage(NamedTuple):
    """An archived message, with the columns of its row in the store."""

    id: int
    container: str
    msgid_prod: str | None
    msgid_seq: int | None
    expiration: int | None
    msg: bytes
    priority: int | None
    time_ms: int | None
    message_size: int


def name_pages(path: Path) -> Iterator[list[ArchivedName]]:
    """The names in a file, ordered by ID, in pages of messages of bounded size."""
    with pq.ParquetFile(path) as file:
        rows = map(ArchivedName._make, _tuples(file, ArchivedName._fields, PAGE))
        yield from bounded(rows, lambda row: row.message_size)


def message_pages(path: Path) -> Iterator[list[ArchivedMessage]]:
    """The messages in a file, ordered by ID, in pages of bounded size."""
    return bounded(messages(path), lambda row: row.message_size)


def messages(path: Path) -> Iterator[ArchivedMessage]:
    """The messages in a file, ordered by ID."""
    with pq.ParquetFile(path) as file:
        yield from map(ArchivedMessage._make, _tuples(file, ArchivedMessage._fields, _READ_AT_ONCE))


def container_of(path: Path) -> str:
    """The destination of the messages in a file, which is the same for all of them."""
    with pq.ParquetFile(path) as file:
        batch = next(file.iter_batches(1, row_groups=[0], columns=["container"]))
    return str(batch.column("container")[0].as_py())


def _tuples(file: pq.ParquetFile, columns: Iterable[str], at_once: int) -> Iterator[tuple[Any, ...]]:
    for batch in file.iter_batches(at_once, columns=[*columns]):
        yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
