"""The messages in a journal's files, those that it only keeps, too, as a history that can be replayed."""

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
from jdbcstore.stores.journaled.operations import COMMIT, WRITE, decode_record
from jdbcstore.stores.shared.encoding import EncodedMessage
from jdbcstore.tools.replay import MARKS, Historic


class _Place(NamedTuple):
    """Of a message: where the replay ends that it is in, its record, and which of that record's it is."""

    last_journal: int
    last_record: int
    journal: int
    record: int
    at: int

    def is_behind(self, other: _Place | None) -> bool:
        """Of a journal that is not before that of the other."""
        return other is None or self.journal != other.journal or self[3:] > other[3:]


@dataclass(frozen=True, slots=True)
class _Segment:
    journal: int
    number: int
    first_record: int
    created: int
    path: Path


class JournalHistory:
    """Messages in the order in which they became durable; those of an XA transaction when it was committed.

    The journal may be written meanwhile, by this process or by another; what is added after a replay has
    begun is none of it. A message's time is its JMSTimestamp, or else when the broker took it, or else when
    the file that it is in was begun.

    :param archive: where the journal keeps files that it needs no more, if that is another directory
    :param destinations: patterns, of which one must match; none are all
    :param since_ms: messages whose time is this or later
    :param until_ms: messages whose time is before this
    :param on_damage: told of a file that is damaged or missing, whose rest is passed over; without it that
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
        self._meant: dict[str, bool] = {}

    @property
    def name(self) -> str:
        """
        :raises CorruptJournal: a file is none of a journal
        """
        segments = self._segments()
        journal = segments[-1].journal if segments else 0
        patterns = sorted(str(pattern.destination) for pattern in self._patterns)
        return json.dumps(["journal", journal, patterns, self._since_ms, self._until_ms])

    def messages(self, behind: str | None) -> Iterator[Historic]:
        """
        :raises CorruptJournal: a file is damaged, or one is missing between two others, and nobody is told
        :raises StoresDiffer: files that had not been read were removed meanwhile, their time being over
        """
        after = _Place(*json.loads(behind)) if behind else None
        segments = self._segments()
        if after is not None:
            last = (after.last_journal, after.last_record)
            self._check_is_there(segments, after)
            segments = segments[[one.journal for one in segments].index(after.journal) :]
        elif segments:
            last = (segments[-1].journal, self._last_record(segments[-1]))
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            for record in self._records(segment, following, last):
                place = _Place(*last, segment.journal, record.number, 0)
                messages = self._added(record, after, place)
                for index, message in enumerate(messages):
                    found = place._replace(at=index)
                    if found.is_behind(after) and self._matches(message.container):
                        decoded = _decoded(message, record.sequence + index)
                        if self._is_in_time(decoded, segment.created):
                            destination = Destination.parse(message.container)
                            yield Historic(json.dumps(found), destination, decoded, len(message.blob))
            if segment.journal == last[0] and (
                following is None or following.journal != segment.journal or following.first_record > last[1]
            ):
                return

    def _segments(self) -> list[_Segment]:
        """All files, of one journal after the other, each in their order."""
        found: dict[tuple[int, int], _Segment] = {}
        # Those that are needed come first: one that is let go of meanwhile is then found twice, and never
        # missed.
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
            f"files of the journal in {self._directory} are kept no longer that the replay had not come to;"
            f" to deliver what is left from its start, purge the queue {MARKS.name} and run it again"
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
                self._find(segment)  # unless it was damaged by being used again
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
        """Where it is now: the journal may have let go of it meanwhile."""
        for one in self._segments():
            if (one.journal, one.number) == (segment.journal, segment.number):
                return one
        raise self._gone()

    @staticmethod
    def _added(record: Record, after: _Place | None, place: _Place) -> list[EncodedMessage]:
        """The messages that are there since this record.

        The outcome of an XA transaction has all of its messages: what prepared it may be gone by then.
        """
        may_be_meant = place.is_behind(after and after._replace(at=-1))
        return decode_record(record)[1].adds if record.kind in (WRITE, COMMIT) and may_be_meant else []

    def _matches(self, container: str) -> bool:
        if container not in self._meant:
            destination = Destination.parse(container)
            self._meant[container] = not self._patterns or any(
                pattern.matches(destination) for pattern in self._patterns
            )
        return self._meant[container]

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
