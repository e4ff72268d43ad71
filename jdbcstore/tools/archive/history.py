"""The messages of an archive as a history that can be replayed."""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from jdbcstore.errors import CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.tools.archive.layout import Archive, File, Manifest
from jdbcstore.tools.archive.reading import ArchivedMessage, container_of, rows
from jdbcstore.tools.replay import Historic

_DAY_MS = 86_400_000

Key = tuple[int, str, int]
"""What a destination's messages are in the order of; an ID alone may be there twice."""
_Files = list[tuple[Manifest, File]]


class ArchiveHistory:
    """One destination after the other, each in the order of its IDs.

    Files are checked against the manifest as they are reached. Those of batches that are archived after
    a replay has begun are none of its.

    :param destinations: patterns, of which one must match; none are all
    :param since_ms: messages whose time is this or later
    :param until_ms: messages whose time is before this
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
        # The folder that the first batch was written to is like no other archive's, wherever it is mounted.
        first = self._manifests[0].staged if self._manifests else ""
        patterns = sorted(str(pattern.destination) for pattern in self._patterns)
        return json.dumps([first, patterns, self._since_ms, self._until_ms])

    def messages(self, behind: str | None) -> Iterator[Historic]:
        """
        :raises StoresDiffer: a file of the archive is gone or damaged
        """
        last, container, *key = json.loads(behind) if behind else (self._last_number(), "")
        files = self._files(last)
        for name in sorted(files):
            if name >= container:
                after: Key | None = tuple(key) if key and name == container else None
                yield from self._of_destination(last, name, files[name], after)

    def _last_number(self) -> int:
        return max((manifest.number for manifest in self._manifests), default=0)

    def _files(self, last: int) -> dict[str, _Files]:
        """Those that may have messages that are meant, by destination."""
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
        """Whether messages of these times, from the first up to before the last, may be meant."""
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
            for row in heapq.merge(*map(rows, paths), key=_key):
                if (after is None or _key(row) > after) and self._is_meant(row):
                    position = json.dumps([last, container, *_key(row)])
                    yield Historic(position, destination, _decoded(row), row.message_size)

    def _is_meant(self, row: ArchivedMessage) -> bool:
        if self._since_ms is None and self._until_ms is None:
            return True
        return row.time_ms is not None and self._is_in_time((row.time_ms, row.time_ms + 1))


def _overlapping(files: _Files) -> Iterator[_Files]:
    """Files whose IDs are mixed, which have to be read together; the groups by ID."""
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
    """The times that its messages may have; None where they have none."""
    day = file.path.partition("/date=")[2].partition("/")[0]
    if day == "unknown":
        return None
    start = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    start_ms = round(start.timestamp() * 1000)
    return start_ms, start_ms + _DAY_MS
