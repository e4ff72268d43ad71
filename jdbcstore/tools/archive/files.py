"""Files of an archive: their layout, atomic commits of batches without a rename, and the rows in them.

::

    archive/
      _lock                                  locked by the writing process, in a folder of this machine
      _manifest/000001.json                  a batch: its files with sizes, IDs and checksums
      _manifest/000001.removed               the store has nothing left of that batch
      batch=000001-6f0c.../_manifest.json    the same manifest, complete before the first is begun
      batch=000001-6f0c.../date=2026-11-21/part-....parquet

A batch belongs to the archive once its manifest in ``_manifest`` exists. Files are neither renamed nor
overwritten. If a process is killed while it writes that manifest, the copy in the folder of the batch has the
rest. A folder that no manifest names, and whose number another batch has, is left over: the next commit
removes it. Reading needs pyarrow, and Spark only if the folder is a URL.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from jdbcstore.errors import ConfigurationError, NotMaster, StoresDiffer
from jdbcstore.tools.archive.folders import folder_at
from jdbcstore.tools.pages import bounded

_FORMAT = 2
_BYTES = 8 * 1024 * 1024
_FEWEST_ROWS, _MOST_ROWS = 16, 1024
"""Rows that are decompressed at once."""
_MANIFEST = "_manifest.json"


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file of the archive, ordered by destination and ID."""

    path: str
    """Relative to the archive's folder."""
    messages: int
    bytes: int
    first_id: int
    last_id: int
    first_container: str
    last_container: str
    sha256: str

    @property
    def day(self) -> str:
        """The day (UTC) of its messages, ``2026-11-21``, or ``unknown``."""
        return self.path.partition("/date=")[2].partition("/")[0]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One batch of messages."""

    number: int
    folder: str
    """Folder of its files, a name that no other batch of any archive has."""
    written_ms: int
    files: tuple[File, ...]

    @property
    def messages(self) -> int:
        return sum(file.messages for file in self.files)


class Archive:
    """An archive at a path or URL. Reading needs no lock, because committed files never change."""

    def __init__(self, where: str | Path) -> None:
        self.folder = folder_at(where)
        """The root of the archive, on its file system."""
        self._known: dict[str, Manifest] = {}
        self._checked: set[str] = set()

    @staticmethod
    def is_one(where: str | Path) -> bool:
        """Return whether there is an archive."""
        return "_manifest" in folder_at(where).names("")

    def manifests(self) -> list[Manifest]:
        """Return the batches of the archive, oldest first.

        :raises ConfigurationError: another version of jdbcstore wrote them
        :raises StoresDiffer: a manifest is damaged
        """
        names = [name for name in self.folder.names("_manifest") if name.endswith(".json")]
        for name in names:
            if name not in self._known:
                self._known[name] = self._read(name)
        return [self._known[name] for name in names]

    def _read(self, name: str) -> Manifest:
        place = f"_manifest/{name}"
        content = self.folder.read(place)
        text = _unsealed(content) or self._completed(name, content) or _unsealed_first(content)
        facts = None if text is None else _facts(text)
        damaged = StoresDiffer(f"{self.folder.place}/{place} is damaged; restore the file from a backup")
        if facts is None:
            raise damaged
        if facts.pop("format", None) != _FORMAT:
            raise ConfigurationError(
                f"{self.folder.place}/{place} was written by another version of jdbcstore; use that one"
            )
        try:
            files = tuple(File(**file) for file in facts.pop("files"))
            return Manifest(**facts, files=files)
        except (KeyError, TypeError) as error:
            raise damaged from error

    def _completed(self, name: str, begun: bytes) -> bytes | None:
        """Return the manifest of which a killed process wrote only the beginning."""
        prefix = f"batch={name.removesuffix('.json')}-"
        for folder in reversed([name for name in self.folder.names("") if name.startswith(prefix)]):
            if _MANIFEST in self.folder.names(folder):
                content = self.folder.read(f"{folder}/{_MANIFEST}")
                if content.startswith(begun) and (text := _unsealed(content)) is not None:
                    return text
        return None

    @contextmanager
    def opened(self, file: File) -> Iterator[Path]:
        """Yield a file on this machine, with its checksum verified.

        :raises StoresDiffer: the file is missing or damaged
        """
        try:
            yield self.check(file)
        finally:
            self.folder.drop(file.path)

    def check(self, file: File) -> Path:
        """Return a file on this machine for as long as this process runs, with its checksum verified."""
        self.check_sum(file)
        return self.folder.fetch(file.path)

    def check_sum(self, file: File) -> None:
        """Verify the checksum of a file, once in this process; threads may do so at the same time.

        :raises StoresDiffer: the file is missing or damaged
        """
        if file.path in self._checked:
            return
        place = f"{self.folder.place}/{file.path}"
        try:
            checksum = self.folder.checksum(file.path)
        except FileNotFoundError as error:
            raise StoresDiffer(f"{place} is in the manifest but missing; restore the file") from error
        if checksum != file.sha256:
            raise StoresDiffer(f"{place} has changed since it was written; restore the file from a backup")
        self._checked.add(file.path)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write to the archive in this block, after removing what killed processes have left.

        :raises NotMaster: another process is writing to the archive
        """
        with self.folder.writing() as alone:
            self._clean(all_=alone)
            yield

    def _clean(self, *, all_: bool = False) -> None:
        manifests = self.manifests()
        named = {manifest.folder for manifest in manifests}
        # Where there is no lock, another process may be writing the batch after the last one.
        end = _name(manifests[-1].number + 1 if manifests else 1)
        for name in self.folder.names(""):
            if name.startswith("batch=") and name not in named and (all_ or name < f"batch={end}"):
                self.folder.remove(name)

    def begin(self) -> str:
        """Choose the folder of a new batch: workers of an earlier process may still write to theirs."""
        number = max((manifest.number for manifest in self.manifests()), default=0) + 1
        return f"batch={_name(number)}-{uuid.uuid4().hex}"

    def commit(self, folder: str, files: Iterable[File], written: int) -> Manifest | None:
        """Add a batch to the archive, all of it or nothing; returns None if it has no messages.

        :param files: those found in the folder, without checksums
        :param written: the number of messages that Spark wrote to it
        :raises ConfigurationError: the folder has fewer messages
        :raises NotMaster: another process has written to the archive since the batch was begun
        """
        files = list(files)
        seen = sum(file.messages for file in files)
        if seen < written:
            self.folder.remove(folder)
            raise ConfigurationError(
                f"Spark wrote {written} messages to {self.folder.place}, but only {seen} of them are there:"
                " each worker has its own folder of that name; choose one that all machines share. Nothing"
                " was archived"
            )
        if not files:
            self.folder.remove(folder)
            return None
        self.folder.keep(file.path for file in files)
        checked = tuple(replace(file, sha256=self.folder.checksum(file.path)) for file in files)
        number = int(folder.partition("=")[2].partition("-")[0])
        manifest = Manifest(number, folder, time.time_ns() // 1_000_000, checked)
        content = _sealed({"format": _FORMAT, **asdict(manifest)})
        self.folder.create(f"{folder}/{_MANIFEST}", content)
        try:
            self.folder.create(f"_manifest/{_name(number)}.json", content)
        except FileExistsError as error:
            raise NotMaster(
                f"another process has written to {self.folder.place} at the same time; nothing of this batch"
                " was archived, run the command again"
            ) from error
        self._clean()
        return manifest

    def is_removed(self, manifest: Manifest) -> bool:
        """Return whether all messages of this batch were removed from the store."""
        return f"{_name(manifest.number)}.removed" in self.folder.names("_manifest")

    def note_removed(self, manifest: Manifest) -> None:
        """Record that the store has nothing left of this batch."""
        facts = {"removed_ms": time.time_ns() // 1_000_000}
        self.folder.create(f"_manifest/{_name(manifest.number)}.removed", json.dumps(facts).encode())


def _name(number: int) -> str:
    return f"{number:06}"


def _sealed(facts: dict[str, Any]) -> bytes:
    """Return the text of a manifest; its last line is a checksum of the others."""
    text = json.dumps(facts, indent=1).encode()
    return text + b"\n" + hashlib.sha256(text).hexdigest().encode() + b"\n"


def _unsealed(content: bytes) -> bytes | None:
    """Return the text of a manifest if it is complete."""
    text, _, seal = content.removesuffix(b"\n").rpartition(b"\n")
    return text if hashlib.sha256(text).hexdigest().encode() == seal else None


def _unsealed_first(content: bytes) -> bytes | None:
    """Return the text of a manifest of the first format, which had no checksum."""
    facts = _facts(content)
    return content if facts is not None and facts.get("format") == 1 else None


def _facts(text: bytes) -> dict[str, Any] | None:
    """Return the object of this JSON; None if it is not one."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


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

    @property
    def name(self) -> tuple[object, ...]:
        return self[:4]

    @property
    def size(self) -> int:
        return len(self.msg or b"")


def message_pages(path: Path, most: int | None = None) -> Iterator[list[ArchivedMessage]]:
    """Return the messages in a file, ordered by destination and ID, in pages of bounded size."""
    return bounded(messages(path), lambda row: row.size, most)


def messages(path: Path, container: str | None = None) -> Iterator[ArchivedMessage]:
    """Yield the messages in a file, or those of one destination, ordered by destination and ID."""
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            if container is None or _may_have(file, group, container):
                for row in _rows(file, group):
                    if container is None or row.container == container:
                        yield row


def containers(path: Path) -> list[str]:
    """Return the destinations in a file, in order."""
    with pq.ParquetFile(path) as file:
        return sorted(file.read(columns=["container"])["container"].unique().to_pylist())


def _rows(file: pq.ParquetFile, group: int) -> Iterator[ArchivedMessage]:
    names = ArchivedMessage._fields
    for batch in file.iter_batches(_at_once(file, group), row_groups=[group], columns=[*names]):
        columns = (batch.column(name).to_pylist() for name in names)
        yield from map(ArchivedMessage._make, zip(*columns, strict=True))


def _at_once(file: pq.ParquetFile, group: int) -> int:
    """Return the number of rows to decompress at once, which bounds the memory for large messages."""
    bounds = _statistics(file, group, "message_size")
    largest = bounds.max if bounds is not None else None
    return _MOST_ROWS if not largest else max(_FEWEST_ROWS, min(_MOST_ROWS, _BYTES // largest))


def _may_have(file: pq.ParquetFile, group: int, container: str) -> bool:
    bounds = _statistics(file, group, "container")
    return bounds is None or not bounds.has_min_max or bounds.min <= container <= bounds.max


def _statistics(file: pq.ParquetFile, group: int, column: str) -> Any:
    place = file.schema_arrow.get_field_index(column)
    return file.metadata.row_group(group).column(place).statistics
