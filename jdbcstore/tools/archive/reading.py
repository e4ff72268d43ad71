"""Reading an archive: removing archived messages from the store, restoring them, and replaying them."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from jdbcstore.abc import Progress
from jdbcstore.config import Configuration
from jdbcstore.database.connection import Connection
from jdbcstore.errors import CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.tools.archive.files import (
    Archive,
    ArchivedMessage,
    ArchivedName,
    File,
    Manifest,
    container_of,
    message_pages,
    messages,
    name_pages,
)
from jdbcstore.tools.archive.writing import Window
from jdbcstore.tools.replay import Historic
from jdbcstore.tools.transfer import MessageRow, Target

_DAY_MS = 86_400_000

Key = tuple[int, str, int]
"""Sort key of the messages of a destination: after a restore, two messages may have the same ID."""
_Files = list[tuple[Manifest, File]]


@dataclass(slots=True)
class Removed:
    """Result of removing archived messages from a store."""

    messages: int = 0
    changed: int = 0
    """Messages left in the store because they were changed after being archived."""


def remove(
    store: Configuration, folder: str | Path, window: Window, progress: Progress | None = None
) -> Removed:
    """Remove the messages of the window that are in the archive from the store.

    The checksum of a file is verified before any of its messages is removed. The transaction that removes a
    message, one of at most 1,000, verifies that it is the archived one byte for byte, and if the window
    requires it, that every durable subscription has acknowledged it.

    :param progress: called with numbers of messages of the archive
    :raises NotMaster: another process holds the lock of the store, or is writing to the archive
    :raises StoresDiffer: a file of the archive is missing or damaged; none of its messages was removed
    """
    archive, result = Archive(folder), Removed()
    with archive.writing(), Target(store) as target:
        remover = _Remover(target, window, result)
        for manifest in archive.manifests():
            if not archive.is_removed(manifest) and remover.remove(archive, manifest, progress):
                archive.note_removed(manifest)
    return result


class _Remover:
    def __init__(self, target: Target, window: Window, result: Removed) -> None:
        self._target = target
        self._window = window
        self._result = result

    def remove(self, archive: Archive, manifest: Manifest, progress: Progress | None) -> bool:
        """Remove messages of a batch; returns whether the store has nothing left of it."""
        gone = True
        for file in manifest.files:
            for page in name_pages(archive.check(manifest, file)):
                chosen = [row for row in page if self._window.includes(row.container, row.time_ms)]
                gone &= len(chosen) == len(page)
                for container, rows in groupby(chosen, lambda row: row.container):
                    gone &= self._remove_page(container, [*rows])
                if progress is not None:
                    progress(len(page))
        return gone

    def _remove_page(self, container: str, page: list[ArchivedName]) -> bool:
        with self._target.transaction() as connection:
            there = {row.id: row for row in self._there(connection, container, page)}
            same = [row.id for row in page if row.id in there and _is_same(there[row.id], row)]
            allowed = same
            if self._window.acknowledged:
                acknowledged = self._acknowledged(connection, container, page)
                allowed = [id_ for id_ in same if id_ in acknowledged]
            removed = connection.remove_messages([(container, id_) for id_ in allowed])
        self._result.messages += removed
        self._result.changed += len(there) - len(same)
        return removed == len(there)

    def _there(
        self, connection: Connection, container: str, page: list[ArchivedName]
    ) -> Iterator[MessageRow]:
        """The messages of a page that the store still has, changed or not."""
        archived = {row.name for row in page}
        for row in self._between(connection, self._target.rows.find_here, container, page):
            message = MessageRow(*row)
            if message.name in archived:
                yield message

    def _acknowledged(self, connection: Connection, container: str, page: list[ArchivedName]) -> set[int]:
        find = self._target.rows.find_acknowledged_here
        return {row[0] for row in self._between(connection, find, container, page)}

    @staticmethod
    def _between(
        connection: Connection, find: Any, container: str, page: list[ArchivedName]
    ) -> Iterator[Any]:
        after, up_to = page[0].id - 1, page[-1].id
        while after < up_to:
            found = connection.fetch(find, container=container, after=after, up_to=up_to, limit=len(page))
            yield from found
            after = found[-1][0] if len(found) == len(page) else up_to


def _is_same(stored: MessageRow, archived: ArchivedName) -> bool:
    return hashlib.sha256(stored.msg).hexdigest() == archived.msg_sha256


@dataclass(slots=True)
class Restored:
    """Result of restoring."""

    messages: int = 0
    present: int = 0
    """Messages that the store already had."""
    conflicts: int = 0
    """Messages skipped because another message has the ID."""


def restore(
    folder: str | Path,
    store: Configuration,
    *,
    destinations: Iterable[Destination] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Restore archived messages exactly, with their IDs, into a store in any database.

    Messages that the store already has are skipped, so an interrupted call can be repeated. Durable
    subscriptions do not receive messages below their marks again.

    :param destinations: only these; empty for all
    :param since_ms: only messages whose time is this or later
    :param until_ms: only messages whose time is before this
    :param progress: called with numbers of messages of the archive
    :raises NotMaster: another process holds the lock of the store
    :raises StoresDiffer: a file of the archive is missing or damaged
    """
    archive, result = Archive(folder), Restored()
    names = frozenset(destination.qualified_name for destination in destinations)

    def wanted(row: ArchivedMessage) -> bool:
        if names and row.container not in names:
            return False
        if since_ms is None and until_ms is None:
            return True
        time_ms = row.time_ms
        return (
            time_ms is not None
            and (since_ms is None or time_ms >= since_ms)
            and (until_ms is None or time_ms < until_ms)
        )

    with Target(store) as target:
        last = 0
        for page in _pages(archive):
            rows = [_stored(row) for row in page if wanted(row)]
            _restore(target, rows, result)
            last = max([last, *(row.id for row in rows)])
            if progress is not None:
                progress(len(page))
        with target.transaction() as connection:
            target.reserve(connection, last)
    return result


def _pages(archive: Archive) -> Iterator[list[ArchivedMessage]]:
    for manifest in archive.manifests():
        for file in manifest.files:
            yield from message_pages(archive.check(manifest, file))


def _stored(row: ArchivedMessage) -> MessageRow:
    return MessageRow(*row[:7], xid=None)


def _restore(target: Target, rows: list[MessageRow], result: Restored) -> None:
    if not rows:
        return
    wanted = {row.id: row for row in rows}
    there: dict[int, bool] = {}
    for name in target.all_names(rows[0].id - 1, rows[-1].id):
        if name[0] in wanted:
            there[name[0]] = wanted[name[0]].name == tuple(name)
    target.add([row for row in rows if row.id not in there])
    result.messages += len(rows) - len(there)
    result.present += sum(there.values())
    result.conflicts += len(there) - sum(there.values())


class ArchiveHistory:
    """History of archived messages for a replay: destination by destination, each ordered by ID.

    Files are verified against the manifest when they are reached. Batches archived after the replay began
    are not part of it.

    :param destinations: patterns, one of which must match; empty for all destinations
    :param since_ms: only messages whose time is this or later
    :param until_ms: only messages whose time is before this
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        destinations: Iterable[DestinationPattern] = (),
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> None:
        self._archive = Archive(folder)
        self._patterns = tuple(destinations)
        self._since_ms = since_ms
        self._until_ms = until_ms
        self._manifests = self._archive.manifests()

    @property
    def name(self) -> str:
        # The staging folder of the first batch has a unique name, wherever the archive is mounted.
        first = self._manifests[0].staged if self._manifests else ""
        patterns = sorted(str(pattern.destination) for pattern in self._patterns)
        return json.dumps([first, patterns, self._since_ms, self._until_ms])

    def messages(self, after: str | None) -> Iterator[Historic]:
        """
        :raises StoresDiffer: a file of the archive is missing or damaged
        """
        last, container, *key = json.loads(after) if after else (self._last_number(), "")
        files = self._files(last)
        for name in sorted(files):
            if name >= container:
                start: Key | None = tuple(key) if key and name == container else None
                yield from self._of_destination(last, name, files[name], start)

    def _last_number(self) -> int:
        return max((manifest.number for manifest in self._manifests), default=0)

    def _files(self, last: int) -> dict[str, _Files]:
        """Files that may contain wanted messages, by destination."""
        containers: dict[str, str] = {}
        files = defaultdict(list)
        for manifest in self._manifests:
            for file in manifest.files if manifest.number <= last else ():
                folder = file.path.partition("/")[0]
                if folder not in containers:
                    containers[folder] = container_of(self._archive.path_of(manifest, file))
                container = containers[folder]
                if self._is_in_time(_day_of(file)) and self._matches(container):
                    files[container].append((manifest, file))
        return files

    def _matches(self, container: str) -> bool:
        destination = Destination.parse(container)
        return not self._patterns or any(pattern.matches(destination) for pattern in self._patterns)

    def _is_in_time(self, day: tuple[int, int] | None) -> bool:
        """Whether a half-open interval of times overlaps the wanted one; None for messages without a time."""
        if day is None:
            return True
        return (self._since_ms is None or self._since_ms < day[1]) and (
            self._until_ms is None or day[0] < self._until_ms
        )

    def _of_destination(
        self, last: int, container: str, files: _Files, after: Key | None
    ) -> Iterator[Historic]:
        destination = Destination.parse(container)
        for group in _overlapping(files):
            if after is not None and max(file.last_id for _, file in group) < after[0]:
                continue
            paths = [self._archive.check(manifest, file) for manifest, file in group]
            for row in heapq.merge(*map(messages, paths), key=_key):
                if (after is None or _key(row) > after) and self._is_wanted(row):
                    position = json.dumps([last, container, *_key(row)])
                    yield Historic(position, destination, _decoded(row), row.message_size)

    def _is_wanted(self, row: ArchivedMessage) -> bool:
        if self._since_ms is None and self._until_ms is None:
            return True
        return row.time_ms is not None and self._is_in_time((row.time_ms, row.time_ms + 1))


def _overlapping(files: _Files) -> Iterator[_Files]:
    """Groups of files with overlapping IDs, which must be merged, in the order of IDs."""
    group: _Files = []
    last = 0
    for manifest, file in sorted(files, key=lambda one: one[1].first_id):
        if group and file.first_id > last:
            yield group
            group = []
        group.append((manifest, file))
        last = max(last, file.last_id)
    if group:
        yield group


def _key(row: ArchivedMessage) -> Key:
    return row.id, row.msgid_prod or "", row.msgid_seq or 0


def _decoded(row: ArchivedMessage) -> Message | CorruptMessage:
    try:
        return openwire.decode(row.msg, sequence=row.id, container=row.container)
    except CorruptMessage as error:
        return error


def _day_of(file: File) -> tuple[int, int] | None:
    """The interval of times of the messages in a file; None if they have no time."""
    day = file.path.partition("/date=")[2].partition("/")[0]
    if day == "unknown":
        return None
    start = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    start_ms = round(start.timestamp() * 1000)
    return start_ms, start_ms + _DAY_MS
