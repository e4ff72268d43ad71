"""An archive on disk: which files are in it, and how more get in whole or not at all.

::

    archive/
      _lock                       held by whoever writes
      _manifest/000001.json       a batch: its files, their sizes, IDs and checksums
      _manifest/000001.removed    of that batch nothing is left in the store
      _staging/000002-6f0c.../    a batch that is being written
      folder=queue_orders-1b2c.../date=2026-11-21/part-....parquet

A batch is in the archive from the moment its manifest is there. Its files are moved to their places
afterwards; whoever comes next moves what a killed process did not, and throws away what has no manifest.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from jdbcstore.errors import ConfigurationError, NotMaster, StoresDiffer
from jdbcstore.util.files import replace_file, sync

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file of the archive."""

    path: str
    """Below the archive's folder."""
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
    """The folder that its files were written to."""
    written_ms: int
    files: tuple[File, ...]

    @property
    def messages(self) -> int:
        return sum(file.messages for file in self.files)


class Archive:
    """The files of one folder. Reading needs no lock: what is read was complete when it was committed."""

    def __init__(self, folder: str | Path) -> None:
        refuse_url(folder)
        self.folder = Path(folder).absolute()
        self._manifests = self.folder / "_manifest"
        self._staging = self.folder / "_staging"

    @staticmethod
    def is_one(folder: Path) -> bool:
        """Whether there is an archive in this folder."""
        refuse_url(folder)
        return (folder / "_manifest").is_dir()

    def manifests(self) -> list[Manifest]:
        """The batches that are in the archive, the oldest first.

        :raises ConfigurationError: a later version wrote them
        """
        return [_read(path) for path in sorted(self._manifests.glob("*.json"))]

    def path_of(self, manifest: Manifest, file: File) -> Path:
        """Where the file is now.

        :raises StoresDiffer: it is gone
        """
        for path in (self.folder / file.path, self._staging / manifest.staged / file.path):
            if path.exists():
                return path
        raise StoresDiffer(f"{self.folder / file.path} is in the manifest and not there; restore the file")

    def check(self, manifest: Manifest, file: File) -> Path:
        """Where the file is, whose bytes are those that were written.

        :raises StoresDiffer: they are not
        """
        path = self.path_of(manifest, file)
        if checksum(path) != file.sha256:
            raise StoresDiffer(f"{path} is not what was written; restore the file from a backup")
        return path

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within the block nobody else writes here. What a killed process left is finished first.

        :raises NotMaster: another process writes here now
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
            raise NotMaster(f"another process writes to {self.folder}; wait until it has ended") from error
        finally:
            os.close(lock)

    def _finish(self) -> None:
        manifests = {manifest.staged: manifest for manifest in self.manifests()}
        for folder in sorted(self._staging.iterdir()):
            if folder.name in manifests:
                self.publish(manifests[folder.name])
            else:
                # A Spark that has outlived its killed driver may still be writing there.
                shutil.rmtree(folder, ignore_errors=True)

    def stage(self) -> Path:
        """A new folder to write a batch to."""
        # What an earlier process left running may still write to its own.
        return self._staging / uuid.uuid4().hex

    def commit(self, staged: Path, written: int) -> Manifest | None:
        """Take in what was written there, all of it or nothing; None if there are no messages.

        :raises ConfigurationError: it is fewer messages than were written
        """
        paths = [path for path in sorted(staged.rglob("*.parquet")) if not path.name.startswith((".", "_"))]
        files = tuple(file for file in (_described(staged, path) for path in paths) if file.messages)
        seen = sum(file.messages for file in files)
        if seen < written:
            shutil.rmtree(staged, ignore_errors=True)
            raise ConfigurationError(
                f"Spark wrote {written} messages to {self.folder}, and {seen} of them are there: its workers"
                " have folders of their own under that name; give one that all machines share. Nothing was"
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
        """Move the files of a batch to their places; those that are there already are left."""
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
        """Whether nothing of this batch is left in the store."""
        return (self._manifests / f"{manifest.number:06}.removed").exists()

    def note_removed(self, manifest: Manifest) -> None:
        """Nothing of this batch is left in the store."""
        self._write(f"{manifest.number:06}.removed", {"removed_ms": time.time_ns() // 1_000_000})

    def _write(self, name: str, facts: dict[str, Any]) -> None:
        """A file of the manifest: there with all that is in it, or not there."""
        replace_file(self._manifests / name, json.dumps(facts, indent=1).encode(), mode=0o644)


def refuse_url(folder: str | Path) -> None:
    """A URL as a path would be a folder of an odd name below the working directory.

    :raises ConfigurationError: it is one
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(folder)):
        raise ConfigurationError(
            f"{folder} is a URL, and files go to a folder of this machine, or one that it mounts; name that"
        )


def _read(path: Path) -> Manifest:
    facts = json.loads(path.read_text(encoding="utf-8"))
    if facts.pop("format", None) != _FORMAT:
        raise ConfigurationError(f"{path} is of another version of jdbcstore; use that one")
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
