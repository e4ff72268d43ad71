"""History of the messages in the files of a journal, including retained files, for a replay."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jdbcstore.errors import CorruptJournal, StoresDiffer
from jdbcstore.journal.directory import kept_segments, live_segments
from jdbcstore.journal.layout import Record
from jdbcstore.journal.recovery import SegmentReader
from jdbcstore.message.message import Message
from jdbcstore.stores.journaled.records import COMMIT, WRITE, RecordedWrites, decode_record
from jdbcstore.tools.replay import EVERYTHING, MARKS, Historic, ReplaySelection


class _Place(NamedTuple):
    """Position of a message: the end of its replay, its record, and its index in the record."""

    last_journal: int
    last_record: int
    journal: int
    record: int
    at: int

    def is_after(self, other: _Place | None) -> bool:
        """Return whether this follows ``other``; its journal is known not to precede that of ``other``."""
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
    :param on_damage: called for a damaged or missing file, the rest of which is skipped; by default the error
        is raised
    """

    def __init__(
        self,
        directory: str | Path,
        selection: ReplaySelection = EVERYTHING,
        *,
        archive: str | Path | None = None,
        on_damage: Callable[[CorruptJournal], None] | None = None,
    ) -> None:
        self._directory = Path(directory)
        self._archive = Path(archive or directory)
        self._selection = selection
        self._on_damage = on_damage
        self._has_destination = cache(selection.has_destination)

    @property
    def name(self) -> str:
        """
        :raises CorruptJournal: a file does not belong to a journal
        """
        segments = self._segments()
        journal = segments[-1].journal if segments else 0
        return json.dumps(["journal", journal, *self._selection.facts])

    def messages(self, after: str | None) -> Iterator[Historic]:
        """Yield messages of the journal in the order of their records.

        :raises CorruptJournal: a file is damaged or missing, and there is no ``on_damage``
        :raises StoresDiffer: files that had not been read were removed in the meantime
        """
        start = _Place(*json.loads(after)) if after else None
        for segment, record, end in self._records_after(start):
            yield from self._of_record(record, start, end, segment.created)

    def writes(self) -> Iterator[tuple[int, RecordedWrites]]:
        """Yield the writes of each record, selected or not, and the sequence of its first message.

        :raises CorruptJournal: a file is damaged or missing, and there is no ``on_damage``
        :raises StoresDiffer: files that had not been read were removed in the meantime
        """
        for _, record, _ in self._records_after(None):
            if record.kind in (WRITE, COMMIT):
                yield record.sequence, decode_record(record)[1]

    def _records_after(self, start: _Place | None) -> Iterator[tuple[_Segment, Record, _Place]]:
        """Yield the records whose messages may be after a position, each with its file and its end."""
        segments = self._segments()
        if start is not None:
            last = (start.last_journal, start.last_record)
            self._check_is_there(segments, start)
            segments = segments[[segment.journal for segment in segments].index(start.journal) :]
        elif segments:
            last = (segments[-1].journal, self._last_record(segments[-1]))
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            for record in self._records(segment, following, last):
                end = _Place(*last, segment.journal, record.number, sys.maxsize)
                if end.is_after(start):
                    yield segment, record, end
            if segment.journal == last[0] and (
                following is None or following.journal != segment.journal or following.first_record > last[1]
            ):
                return

    def _segments(self) -> list[_Segment]:
        """Return all files in order, journal by journal."""
        segments: dict[tuple[int, int], _Segment] = {}
        # Live files first: a file that is retired in the meantime is then found twice, but never missed.
        for number, path in live_segments(self._directory).items():
            try:
                with SegmentReader(path) as reader:
                    header = reader.header
            except FileNotFoundError:
                return self._segments()
            except ValueError as error:
                raise CorruptJournal(str(error), segment=number) from error
            segments[header.journal, number] = _Segment(
                header.journal, number, header.first_number, header.created, path
            )
        for kept in kept_segments(self._archive):
            if kept.last_number >= kept.first_number:
                segments[kept.journal, kept.number] = _Segment(
                    kept.journal, kept.number, kept.first_number, kept.first_time, kept.path
                )
        begun: dict[int, int] = {}
        for segment in segments.values():
            begun[segment.journal] = min(segment.created, begun.get(segment.journal, segment.created))
        return sorted(
            segments.values(), key=lambda segment: (begun[segment.journal], segment.journal, segment.number)
        )

    def _check_is_there(self, segments: list[_Segment], after: _Place) -> None:
        first = min(
            (segment.first_record for segment in segments if segment.journal == after.journal), default=None
        )
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
            reader.verify()
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
        """Find the current location of a file: the journal may have retired it in the meantime."""
        for candidate in self._segments():
            if (candidate.journal, candidate.number) == (segment.journal, segment.number):
                return candidate
        raise self._gone()

    def _of_record(
        self, record: Record, start: _Place | None, end: _Place, created: int
    ) -> Iterator[Historic]:
        """Yield the selected messages that this record makes durable.

        The commit record of an XA transaction has all of its messages, because the file of the prepare record
        may have been removed.
        """
        adds = decode_record(record)[1].adds if record.kind in (WRITE, COMMIT) else ()
        for index, message in enumerate(adds):
            place = end._replace(at=index)
            if place.is_after(start) and self._has_destination(message.container):
                sequence = record.sequence + index
                historic = Historic.read(json.dumps(place), message.container, sequence, message.blob)
                if self._selection.has_time(_time_of(historic.message, created)):
                    yield historic


def _time_of(message: object, created: int) -> int:
    """Return the time of a message; its file's time if it has none or cannot be decoded."""
    if isinstance(message, Message):
        return message.timestamp_ms or message.broker_in_time_ms or created
    return created
