"""History of the messages in the files of a journal, including retained files, for a replay."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jdbcstore.errors import CorruptJournal, CorruptMessage, StoresDiffer
from jdbcstore.journal import Record
from jdbcstore.journal.directory import kept_segments, live_segments
from jdbcstore.journal.recovery import SegmentReader
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.stores.journaled.records import COMMIT, WRITE, decode_record
from jdbcstore.stores.shared.encoding import EncodedMessage
from jdbcstore.tools.replay import MARKS, Historic


class _Place(NamedTuple):
    """Position of a message: the end of its replay, its record, and its index in the record."""

    last_journal: int
    last_record: int
    journal: int
    record: int
    at: int

    def is_after(self, other: _Place | None) -> bool:
        """Whether this follows ``other``; its journal is known not to precede that of ``other``."""
        return other is None or self.journal != other.journal or self[3:] > other[3:]


@dataclass(frozen=True, slots=True)
class _Segment:
    journal: int
    number: int
    first_record: int
    created: int
    path: Path


class JournalHistory:
    """Messages in the order in which they became durable; those of an XA transaction at its commit.

    The journal may be written concurrently, by this process or another; messages added after a replay began
    are not part of it. The time of a message is its JMSTimestamp, else the time when the broker received it,
    else the creation time of its file.

    :param archive: directory of retained files, if it is not that of the journal
    :param destinations: patterns, one of which must match; empty for all destinations
    :param since_ms: only messages whose time is this or later
    :param until_ms: only messages whose time is before this
    :param on_damage: called for a damaged or missing file, the rest of which is skipped; by default the error
        is raised
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        archive: str | Path | None = None,
        destinations: Iterable[DestinationPattern] = (),
        since_ms: int | None = None,
        until_ms: int | None = None,
        on_damage: Callable[[CorruptJournal], None] | None = None,
    ) -> None:
        self._directory = Path(directory)
        self._archive = Path(archive or directory)
        self._patterns = tuple(destinations)
        self._since_ms = since_ms
        self._until_ms = until_ms
        self._on_damage = on_damage
        self._matching: dict[str, bool] = {}

    @property
    def name(self) -> str:
        """
        :raises CorruptJournal: a file does not belong to a journal
        """
        segments = self._segments()
        journal = segments[-1].journal if segments else 0
        patterns = sorted(str(pattern.destination) for pattern in self._patterns)
        return json.dumps(["journal", journal, patterns, self._since_ms, self._until_ms])

    def messages(self, after: str | None) -> Iterator[Historic]:
        """
        :raises CorruptJournal: a file is damaged or missing, and there is no ``on_damage``
        :raises StoresDiffer: files that had not been read were removed in the meantime
        """
        start = _Place(*json.loads(after)) if after else None
        segments = self._segments()
        if start is not None:
            last = (start.last_journal, start.last_record)
            self._check_is_there(segments, start)
            segments = segments[[one.journal for one in segments].index(start.journal) :]
        elif segments:
            last = (segments[-1].journal, self._last_record(segments[-1]))
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            for record in self._records(segment, following, last):
                place = _Place(*last, segment.journal, record.number, 0)
                messages = self._added(record, start, place)
                for index, message in enumerate(messages):
                    found = place._replace(at=index)
                    if found.is_after(start) and self._matches(message.container):
                        decoded = _decoded(message, record.sequence + index)
                        if self._is_in_time(decoded, segment.created):
                            destination = Destination.parse(message.container)
                            yield Historic(json.dumps(found), destination, decoded, len(message.blob))
            if segment.journal == last[0] and (
                following is None or following.journal != segment.journal or following.first_record > last[1]
            ):
                return

    def _segments(self) -> list[_Segment]:
        """All files in order, journal by journal."""
        found: dict[tuple[int, int], _Segment] = {}
        # Live files first: a file that is retired in the meantime is then found twice, but never missed.
        for number, path in live_segments(self._directory).items():
            try:
                with SegmentReader(path) as reader:
                    header = reader.header
            except FileNotFoundError:
                return self._segments()
            except ValueError as error:
                raise CorruptJournal(str(error), segment=number) from error
            found[header.journal, number] = _Segment(
                header.journal, number, header.first_number, header.created, path
            )
        for kept in kept_segments(self._archive):
            if kept.last_number >= kept.first_number:
                found[kept.journal, kept.number] = _Segment(
                    kept.journal, kept.number, kept.first_number, kept.first_time, kept.path
                )
        begun: dict[int, int] = {}
        for segment in found.values():
            begun[segment.journal] = min(segment.created, begun.get(segment.journal, segment.created))
        return sorted(found.values(), key=lambda one: (begun[one.journal], one.journal, one.number))

    def _check_is_there(self, segments: list[_Segment], after: _Place) -> None:
        first = min((one.first_record for one in segments if one.journal == after.journal), default=None)
        if first is None or first > after.record + 1:
            raise self._gone()

    def _gone(self) -> StoresDiffer:
        return StoresDiffer(
            f"files of the journal in {self._directory} were removed before the replay reached them;"
            f" to replay the remaining messages, purge the queue {MARKS.name} and run it again"
        )

    @staticmethod
    def _last_record(segment: _Segment) -> int:
        with SegmentReader(segment.path) as reader:
            for _ in reader.records(bodies=False):
                pass
            return reader.number - 1

    def _records(
        self, segment: _Segment, following: _Segment | None, last: tuple[int, int]
    ) -> Iterator[Record]:
        up_to = last[1] if segment.journal == last[0] else None
        if following is not None and following.journal == segment.journal:
            if following.number != segment.number + 1:
                self._damaged("its file is missing", segment.number + 1)
                up_to = None
            elif up_to is None or following.first_record <= up_to:
                up_to = following.first_record - 1
        try:
            reader = self._open(segment)
        except ValueError as error:
            self._damaged(str(error), segment.number)
            return
        with reader:
            yield from reader.records(up_to)
            if up_to is not None and reader.number <= up_to:
                self._find(segment)  # fails unless the file is damaged because it was reused
                self._damaged(f"record {reader.number} is damaged", segment.number, reader.offset)

    def _damaged(self, reason: str, segment: int, offset: int = 0) -> None:
        error = CorruptJournal(reason, segment=segment, offset=offset)
        if self._on_damage is None:
            raise error
        self._on_damage(error)

    def _open(self, segment: _Segment) -> SegmentReader:
        try:
            return SegmentReader(segment.path)
        except (FileNotFoundError, ValueError):
            return SegmentReader(self._find(segment).path)

    def _find(self, segment: _Segment) -> _Segment:
        """Its current location: the journal may have retired it in the meantime."""
        for one in self._segments():
            if (one.journal, one.number) == (segment.journal, segment.number):
                return one
        raise self._gone()

    @staticmethod
    def _added(record: Record, after: _Place | None, place: _Place) -> list[EncodedMessage]:
        """The messages that this record makes durable.

        The commit record of an XA transaction has all of its messages, because the file of the prepare record
        may have been removed.
        """
        may_be_wanted = place.is_after(after and after._replace(at=-1))
        return decode_record(record)[1].adds if record.kind in (WRITE, COMMIT) and may_be_wanted else []

    def _matches(self, container: str) -> bool:
        if container not in self._matching:
            destination = Destination.parse(container)
            self._matching[container] = not self._patterns or any(
                pattern.matches(destination) for pattern in self._patterns
            )
        return self._matching[container]

    def _is_in_time(self, message: Message | CorruptMessage, created: int) -> bool:
        time_ms = created
        if isinstance(message, Message):
            time_ms = message.timestamp_ms or message.broker_in_time_ms or created
        return (self._since_ms is None or self._since_ms <= time_ms) and (
            self._until_ms is None or time_ms < self._until_ms
        )


def _decoded(message: EncodedMessage, sequence: int) -> Message | CorruptMessage:
    try:
        return openwire.decode(message.blob, sequence=sequence, container=message.container)
    except CorruptMessage as error:
        return error
