"""Reading an archive: removing archived messages from the store, restoring them, and replaying them."""

from __future__ import annotations

import heapq
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

from jdbcstore.abc import Progress
from jdbcstore.config import Configuration
from jdbcstore.database.adapters.sql import Row
from jdbcstore.tools.archive.files import (
    Archive,
    ArchivedMessage,
    File,
    Manifest,
    containers,
    message_pages,
    messages,
)
from jdbcstore.tools.archive.writing import Window
from jdbcstore.tools.replay import EVERYTHING, Historic, ReplaySelection
from jdbcstore.tools.transfer import CopyTarget, MessageRow, between
from jdbcstore.util.closing import Closing

_DAY_MS = 86_400_000
_WRITERS = 4
"""Connections that a restore writes through: enough that the database works while the next page is read."""
_AT_ONCE = 10_000
"""Messages that one transaction restores, at most."""

Key = tuple[int, str, int]
"""Sort key of the messages of a destination: after a restore, two messages may have the same ID."""
_Files = list[File]


@dataclass(slots=True)
class Removed:
    """Result of removing archived messages from a store."""

    messages: int = 0
    """Messages that were removed."""
    changed: int = 0
    """Messages left in the store because they were changed after being archived."""


def remove(
    store: Configuration, where: str | Path, window: Window, progress: Progress | None = None
) -> Removed:
    """Remove the messages of the window that are in the archive from the store.

    The checksum of a file is verified before any of its messages is removed. The transaction that removes a
    message, one of at most 1,000, verifies that it is the archived one byte for byte, and if the window
    requires it, that every durable subscription has acknowledged it.

    :param progress: called with numbers of messages of the archive
    :raises NotMaster: another process holds the lock of the store, or is writing to the archive
    :raises StoresDiffer: a file of the archive is missing or damaged; none of its messages was removed
    """
    archive, result = Archive(where), Removed()
    window = window.now()
    with archive.writing(), CopyTarget(store) as target:
        remover = _Remover(target, window, result)
        for manifest in archive.manifests():
            if not archive.is_removed(manifest) and remover.remove(archive, manifest, progress):
                archive.note_removed(manifest)
    return result


class _Remover:
    def __init__(self, target: CopyTarget, window: Window, result: Removed) -> None:
        self._target = target
        self._window = window
        self._result = result

    def remove(self, archive: Archive, manifest: Manifest, progress: Progress | None) -> bool:
        """Remove messages of a batch; returns whether the store has nothing left of it."""
        gone = True
        for file in manifest.files:
            with archive.opened(file) as path:
                for page in message_pages(path):
                    chosen = [row for row in page if self._window.includes(row.container, row.time_ms)]
                    gone &= len(chosen) == len(page)
                    for container, rows in groupby(chosen, lambda row: row.container):
                        gone &= self._remove_page(container, [*rows])
                    if progress is not None:
                        progress(len(page))
        return gone

    def _remove_page(self, container: str, page: list[ArchivedMessage]) -> bool:
        rows, archived = self._target.rows, {row.name: row for row in page}
        with self._target.transaction() as connection:

            def find(query: Any) -> Iterator[Row]:
                fetch = partial(connection.fetch, query, container=container)
                return between(fetch, page[0].id - 1, page[-1].id, len(page))

            stored = [row for row in map(MessageRow._make, find(rows.find_here)) if row.name in archived]
            same = [row.id for row in stored if row.msg == archived[row.name].msg]
            allowed = same
            if self._window.acknowledged:
                acknowledged = {row[0] for row in find(rows.find_acknowledged_here)}
                allowed = [id_ for id_ in same if id_ in acknowledged]
            removed = connection.remove_messages([(container, id_) for id_ in allowed])
        self._result.messages += removed
        self._result.changed += len(stored) - len(same)
        return removed == len(stored)


@dataclass(slots=True)
class Restored:
    """Result of restoring."""

    messages: int = 0
    """Messages that were added to the store."""
    present: int = 0
    """Messages that the store already had."""
    conflicts: int = 0
    """Messages skipped because another message has the ID."""


def restore(
    where: str | Path,
    store: Configuration,
    selection: ReplaySelection = EVERYTHING,
    *,
    progress: Progress | None = None,
) -> Restored:
    """Restore archived messages exactly, with their IDs, into a store in any database.

    Messages that the store already has are skipped, so an interrupted call can be repeated. Durable
    subscriptions do not receive messages below their marks again.

    :param progress: called with numbers of messages of the archive
    :raises NotMaster: another process holds the lock of the store
    :raises StoresDiffer: a file of the archive is missing or damaged
    """
    archive, result = Archive(where), Restored()
    has_destination = cache(selection.has_destination)
    last = 0
    with CopyTarget(store) as target, _Inserting(target, store) as inserting:
        for file in _files_of(archive.manifests(), selection):
            with archive.opened(file) as path:
                there = _Present(target, file)
                for page in message_pages(path, _AT_ONCE):
                    rows = [
                        MessageRow(*row[:7], xid=None)
                        for row in page
                        if has_destination(row.container) and selection.has_time(row.time_ms)
                    ]
                    inserting.add(there.sift(rows, result))
                    last = max([last, *(row.id for row in rows)])
                    if progress is not None:
                        progress(len(page))
            # Another file may have a message with the same ID.
            inserting.wait()
        with target.transaction() as connection:
            target.reserve(connection, last)
    return result


class _Inserting(Closing):
    """Connections that insert pages at the same time; one if the database has one writer at a time."""

    def __init__(self, target: CopyTarget, store: Configuration) -> None:
        self._mine: list[CopyTarget] = []
        self._ring = [target]
        self._pending: deque[Future[None]] = deque()
        self._pool: ThreadPoolExecutor | None = None
        try:
            if target.session.adapter.locks_rows:
                for _ in range(1, _WRITERS):
                    self._mine.append(target.beside(store))
                self._ring += self._mine
                self._pool = ThreadPoolExecutor(_WRITERS, "jdbcstore-restore")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        for target in self._mine:
            target.close()

    def add(self, rows: list[MessageRow]) -> None:
        """Insert rows in one transaction, now or by :meth:`wait`; raises the error of an earlier page."""
        if self._pool is None:
            self._ring[0].add(rows)
            return
        # The first page still pending has had its connection the longest: its place in the ring is next.
        if len(self._pending) == _WRITERS:
            self._pending.popleft().result()
        target = self._ring.pop(0)
        self._ring.append(target)
        self._pending.append(self._pool.submit(target.add, rows))

    def wait(self) -> None:
        """Wait until all rows are committed."""
        while self._pending:
            self._pending.popleft().result()


def _files_of(manifests: Iterable[Manifest], selection: ReplaySelection) -> Iterator[File]:
    """Yield the files that may have selected messages."""
    for manifest in manifests:
        for file in manifest.files:
            day = _day_of(file)
            if day is None or selection.overlaps(*day):
                yield file


class _Present:
    """The names of the messages that the target has among the IDs of a file."""

    def __init__(self, target: CopyTarget, file: File) -> None:
        fetch = partial(target.session.fetch, target.rows.find_names)
        rows = between(fetch, file.first_id - 1, file.last_id)
        self._names = {row[0]: tuple(row) for row in rows}

    def sift(self, rows: list[MessageRow], result: Restored) -> list[MessageRow]:
        """Return the rows whose IDs are free, and count them and the others."""
        free = [row for row in rows if row.id not in self._names]
        present = sum(self._names.get(row.id) == row.name for row in rows)
        result.messages += len(free)
        result.present += present
        result.conflicts += len(rows) - len(free) - present
        return free


class ArchiveHistory:
    """History of archived messages for a replay: destination by destination, each ordered by ID.

    Files are verified against the manifest when they are reached. Batches archived after the replay began
    are not part of it.
    """

    def __init__(self, where: str | Path, selection: ReplaySelection = EVERYTHING) -> None:
        self._archive = Archive(where)
        self._selection = selection
        self._manifests = self._archive.manifests()

    @property
    def name(self) -> str:
        """The archive and the selection, by which an interrupted replay is continued."""
        # The folder of the first batch has a unique name, wherever the archive is mounted.
        first = self._manifests[0].folder if self._manifests else ""
        return json.dumps([first, *self._selection.facts])

    def messages(self, after: str | None) -> Iterator[Historic]:
        """Yield messages of the archive, or those after a position from an earlier call.

        :raises StoresDiffer: a file of the archive is missing or damaged
        """
        newest = max((manifest.number for manifest in self._manifests), default=0)
        last, container, *key = json.loads(after) if after else (newest, "")
        files = self._files(last)
        for name in sorted(files):
            if name >= container:
                start: Key | None = tuple(key) if key and name == container else None
                yield from self._of_destination(last, name, files[name], start)

    def _files(self, last: int) -> dict[str, _Files]:
        """Return files that may contain wanted messages, by destination."""
        files = defaultdict(list)
        for file in _files_of(
            (manifest for manifest in self._manifests if manifest.number <= last), self._selection
        ):
            has_one_container = file.first_container == file.last_container
            for name in (
                [file.first_container] if has_one_container else containers(self._archive.check(file))
            ):
                if self._selection.has_destination(name):
                    files[name].append(file)
        return files

    def _of_destination(
        self, last: int, container: str, files: _Files, after: Key | None
    ) -> Iterator[Historic]:
        for group in _overlapping(files):
            if after is not None and max(file.last_id for file in group) < after[0]:
                continue
            of_each = (messages(self._archive.check(file), container) for file in group)
            for row in heapq.merge(*of_each, key=_key):
                if (after is None or _key(row) > after) and self._selection.has_time(row.time_ms):
                    position = json.dumps([last, container, *_key(row)])
                    yield Historic.read(position, container, row.id, row.msg)


def _overlapping(files: _Files) -> Iterator[_Files]:
    """Yield groups of files with overlapping IDs, which must be merged, in the order of IDs."""
    group: _Files = []
    last = 0
    for file in sorted(files, key=lambda file: file.first_id):
        if group and file.first_id > last:
            yield group
            group = []
        group.append(file)
        last = max(last, file.last_id)
    if group:
        yield group


def _key(row: ArchivedMessage) -> Key:
    return row.id, row.msgid_prod or "", row.msgid_seq or 0


def _day_of(file: File) -> tuple[int, int] | None:
    """Return the interval of times of the messages in a file; None if they have no time."""
    if file.day == "unknown":
        return None
    start = datetime.combine(date.fromisoformat(file.day), datetime.min.time(), UTC)
    start_ms = round(start.timestamp() * 1000)
    return start_ms, start_ms + _DAY_MS
