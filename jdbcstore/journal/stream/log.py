"""StreamLog: the log of a journal in a stream. A quorum of servers has every acknowledged record."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from nats.js.api import StreamState as Described

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import CorruptJournal, JournalInUse, LockLost, StoreError, StoreUnavailable
from jdbcstore.journal._records_cy import frame
from jdbcstore.journal.abc import LogMoved, Span, Torn, WriteBatch
from jdbcstore.journal.layout import JournalEntry, Record, Stamp
from jdbcstore.journal.stream.aside import StreamAside
from jdbcstore.journal.stream.health import health
from jdbcstore.journal.stream.pieces import (
    CLEAN_END,
    HEAD,
    OPENING,
    RECORDS,
    PieceHead,
    Unit,
    damaged,
    head_at,
    units,
)
from jdbcstore.journal.stream.server import StreamServer, StreamState, gaps_of
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.stream_health import StreamHealth

log = logging.getLogger(__name__)

_ANY_SIZE = 1 << 62
_CACHED = 4
"""Units that are kept for the next read."""
_PER_MESSAGE = 256
"""Bytes that the servers take for a message besides it, and some more."""
_MOST_RESERVED = 64 * 1024
_WATCH = 2.0
"""Seconds between checks that the stream still has all acknowledged records."""
_LEAST_SPANS = 8
"""Spans into which a full stream is divided at least: the last one is never released."""


@dataclass(frozen=True, slots=True)
class StreamContents:
    """Contents of a stream, as :class:`jdbcstore.journal.abc.Contents` says; a position is a unit's."""

    server: StreamServer
    first: int = 1
    """The stream's sequence of the first message."""
    last: int = 0
    """The stream's sequence of the last message; 0 if there never was one."""
    size: int = 0
    """Bytes of all messages."""
    gaps: int = 0
    """Messages that were deleted between the first and the last one."""
    beginning: PieceHead | None = None
    """The header of the first message."""
    ending: PieceHead | None = None
    """The header of the last complete unit, or of the unit that ended where the first incomplete one begins;
    None if there is no journal yet."""
    torn: Torn | None = None
    ended: int = 0
    """The stream's sequence of the message that has ``ending``."""
    claimer: Callable[[int], None] | None = None

    @property
    def journal(self) -> int:
        return 0 if self.ending is None else self.ending.journal

    @property
    def store(self) -> int:
        return 0 if self.ending is None else self.ending.store

    @property
    def first_number(self) -> int:
        head = self.beginning
        if head is None:
            return 1
        return head.first_number if head.piece == 0 else head.last_number + 1

    @property
    def first_sequence(self) -> int:
        """The first sequence that these records may have assigned."""
        return 1 if self.beginning is None else self.beginning.first_sequence

    @property
    def last_number(self) -> int:
        return 0 if self.ending is None else self.ending.last_number

    @property
    def last_sequence(self) -> int:
        return 0 if self.ending is None else self.ending.last_sequence

    @property
    def clean(self) -> bool:
        return self.ending is None or (self.ending.kind == CLEAN_END and self.torn is None)

    @property
    def end(self) -> tuple[int, int]:
        return self.last, 0

    def size_after(self, number: int) -> int:
        """Return about how many bytes the records after a number have: messages are counted, not measured."""
        if number >= self.last_number:
            return 0
        at = self._unit_with(max(number, self.first_number - 1) + 1)
        return self.size * (self.last + 1 - at) // max(self.last + 1 - self.first, 1)

    def writer_of(self, number: int) -> int | None:
        """Return the number of the process that wrote a record; None if that is released, or not there."""
        if not self.first_number <= number <= self.last_number:
            return None
        at = self._unit_with(number)
        message = self.server.message(at)
        head = None if message is None else head_at(at, message)
        return None if head is None else head.writer

    def is_still_there(self, now: StreamContents) -> bool:
        """Return whether the stream still has the last message that was found here, or has released it."""
        if now.last < self.last:
            return False
        if self.ending is None or self.torn is not None:
            return True
        message = self.server.message(self.ended)
        return message is None or head_at(self.ended, message) == self.ending

    def claim(self, store: int) -> None:
        if self.claimer is not None:
            self.claimer(store)

    def is_current(self) -> bool:
        return not self.server.exists or not self.server.goes_on(self.last)

    def records(self, after: int, *, ignore_missing: bool = False, applied: int = 0) -> Iterator[Record]:
        expected, last, needed = after + 1, self.last_number, max(after, applied) + 1
        if expected > last:
            return
        if self.first_number > needed and not ignore_missing:
            raise damaged(
                f"record {needed} is missing: the stream begins with record {self.first_number}, so it was"
                " purged",
                self.first,
            )
        messages = self.server.messages(self._unit_with(expected), self.last)
        for unit in units(messages):
            head = unit.head
            if head.first_number > max(expected, needed) and not ignore_missing:
                raise damaged(f"record {max(expected, needed)} is missing", unit.at)
            if head.kind == RECORDS and head.last_number >= expected:
                yield from unit.records(expected - 1)
                expected = head.last_number + 1
                if expected > last:
                    return
        if max(expected, needed) <= last and not ignore_missing:
            raise damaged(f"record {max(expected, needed)} is missing", self.last)

    def aside(self, folder: str) -> StreamAside:
        return StreamAside(self.server, folder)

    def skip(self, last_sequence: int) -> None:
        """Do nothing: the process that writes the stream gives out sequences."""

    def release(self, up_to: int) -> None:
        """Do nothing: the process that writes the stream releases records."""

    def _unit_with(self, number: int) -> int:
        """Return the stream's sequence of the last unit that begins up to a record, by halving."""
        piece, low, high = self.first, self.first, self.last
        while low <= high:
            middle = (low + high) // 2
            at, head = self.head_upto(middle, low)
            if head is None:
                low = middle + 1
            elif head.first_number <= number:
                piece, low = at - head.piece, middle + 1
            else:
                high = at - 1
        return max(piece, self.first)

    def head_upto(self, at: int, first: int) -> tuple[int, PieceHead | None]:
        """Return the last piece from one sequence back to another: messages may be deleted, or foreign."""
        while at >= first:
            message = self.server.message(at)
            head = None if message is None else head_at(at, message)
            if head is not None:
                return at, head
            at -= 1
        return at, None


def contents_of(
    server: StreamServer, *, ignore_missing: bool = False, settled: bool = False
) -> StreamContents:
    """Return the contents of a stream as it is now; or as it was a little before, unless ``settled``.

    :raises CorruptJournal: it was purged, or its last message was deleted
    :raises StoreUnavailable: the servers do not answer
    """
    state = server.state(settled=settled) if server.exists else None
    while state is not None and state.last:
        try:
            return _found(server, state, ignore_missing=ignore_missing)
        except CorruptJournal:
            before, state = state, server.state(settled=settled)
            if state.first != before.first:
                continue  # its writer, or an earlier one, has released the records meanwhile
            if ignore_missing and state.first > state.last:
                return StreamContents(server, state.last + 1, state.last)
            raise
    return StreamContents(server)


def _found(server: StreamServer, state: StreamState, *, ignore_missing: bool) -> StreamContents:
    start, first = _beginning(server, state)
    if first is None:
        return StreamContents(server, state.last + 1, state.last)
    torn, at = None, state.last
    while True:
        if torn is not None and torn.segment == start and first.piece == 0:
            # The units before the incomplete one are released; its header says where they ended.
            head = first._replace(last_number=first.first_number - 1, last_sequence=first.first_sequence - 1)
            break
        message = server.message(at) if at >= start else None
        answer = None if message is None else head_at(at, message)
        if answer is None and at > start and (message is not None or ignore_missing):
            at -= 1  # it is not a piece, and so not the journal's
            continue
        if answer is None:
            raise damaged(f"message {at} of the stream is missing", at)
        head = answer
        if head.is_last:
            break
        torn = Torn(at - head.piece, 0, head.first_number)
        at = torn.segment - 1
    return StreamContents(server, start, state.last, state.size, state.gaps, first, head, torn, at)


def begin_after(server: StreamServer, of: tuple[int, int], number: int, sequence: int) -> None:
    """Let a stream go on behind a record and a sequence of a store, with nothing before.

    :param of: the number of the journal, and the identity of its store
    :raises LockLost: another process has appended meanwhile
    :raises StoreUnavailable: the servers do not answer
    """
    last = server.state(settled=True).last
    head = PieceHead(
        kind=OPENING,
        journal=of[0],
        store=of[1],
        writer=secrets.randbits(63) or 1,
        first_number=number + 1,
        first_sequence=sequence + 1,
        last_number=number,
        last_sequence=sequence,
        created=SystemClock().now_ms(),
        piece=0,
        pieces=1,
        size=0,
    )
    server.append(head.pack(), last)
    server.purge(last + 1)


def _beginning(server: StreamServer, state: StreamState) -> tuple[int, PieceHead | None]:
    """Return the first piece of a journal, and its sequence; none if a journal has never written there.

    :raises CorruptJournal: it is gone
    """
    is_new = state.first == 1
    for at in range(state.first, state.last + 1):
        message = server.message(at)
        head = None if message is None else head_at(at, message)
        if head is not None:
            return at, head
        is_new = is_new and message is not None
        if message is None and at == state.first:
            break
    if is_new and state.first <= state.last:
        return state.last + 1, None
    raise damaged(f"the stream is empty, and had messages up to {state.last}: it was purged", state.last)


@dataclass(slots=True)
class _Span:
    start: int
    """The stream's sequence of its first message."""
    first_number: int
    first_sequence: int
    last_number: int
    size: int = 0


def _spans_of(contents: StreamContents, count: int) -> list[_Span]:
    """Return the records as parts of about the same size, each of which is released as a whole."""
    spans = [_Span(contents.first, contents.first_number, contents.first_sequence, contents.last_number)]
    for part in range(1, count):
        place = contents.first + (contents.last + 1 - contents.first) * part // count
        at, head = contents.head_upto(place, spans[-1].start + 1)
        if (
            head is not None
            and at - head.piece > spans[-1].start
            and head.last_number <= contents.last_number
        ):
            spans[-1].last_number = head.first_number - 1
            start = at - head.piece
            spans.append(_Span(start, head.first_number, head.first_sequence, contents.last_number))
    for span, following in zip(spans, [*spans[1:], None], strict=True):
        end = contents.last + 1 if following is None else following.start
        span.size = contents.size * (end - span.start) // (contents.last + 1 - contents.first)
    return spans


@dataclass(frozen=True, slots=True)
class _Loss:
    """Messages that were removed from the stream, and not by its writer."""

    first: int
    """The stream's sequence of the first message since."""
    gaps: int
    """The messages that are missing behind it."""
    last_number: int
    """The last record then: once the database has it, nothing is missing."""


class StreamLog:
    """The log of a journal in a stream, as :class:`jdbcstore.journal.abc.Log` says.

    It is claimed with the first message, which is written only if no other process has written since it was
    recovered. Each message is written only behind the one before it, so an earlier process is refused from
    then on. Written records are on a quorum; ``journal_log_file_size`` bytes of them are released together.

    :raises ConfigurationError: the stream or its servers contradict the configuration
    :raises StoreUnavailable: they do not answer
    """

    def __init__(self, config: JournalConfig, clock: Clock) -> None:
        self.journal = self.last_number = self.last_sequence = 0
        self._config = config
        self._clock = clock
        self._server = StreamServer(config)
        self._found = StreamContents(self._server)
        self._store = 0
        self._is_claimed = False
        self.writer = secrets.randbits(63) or 1
        self._last = 0
        """The stream's sequence of the last message."""
        self._spans: list[_Span] = []
        self._lock = threading.Lock()
        self._releasing = threading.Lock()
        self._cache: dict[int, bytes] = {}
        self._first = self._gaps = 0
        """The highest sequence before which messages were released, and the messages missing behind it."""
        self._loss: _Loss | None = None
        self._risk: str | None = None
        """The last known reason why the stream may lose acknowledged records."""

    @property
    def first_number(self) -> int:
        with self._lock:
            return self._spans[0].first_number

    def recover(self) -> StreamContents:
        contents = contents_of(
            self._server, ignore_missing=self._config.ignore_missing_journalfiles, settled=True
        )
        self._found = replace(contents, claimer=self._claim)
        self._store = contents.store
        return self._found

    def open(self, *, first_sequence: int, store: int) -> None:
        self._store = store
        self._claim(store)
        self.last_sequence = max(self.last_sequence, first_sequence - 1)

    def _claim(self, store: int) -> None:
        """Write the first message, if that is not done yet."""
        if self._is_claimed:
            return
        self._store = self._store or store
        contents = self._found
        self.journal = contents.journal or secrets.randbits(63) or 1
        self.last_number = contents.last_number
        self.last_sequence = contents.last_sequence
        self._last = contents.last
        if contents.ending is not None:
            self._spans = _spans_of(contents, min(_LEAST_SPANS, max(contents.size // self._span, 1)))
        try:
            self._mark(OPENING)
        except LockLost as error:
            raise JournalInUse(self._config.place) from error
        self._first, self._gaps = contents.first, contents.gaps
        self._is_claimed = True
        self._server.connection.start(self._watch)

    def skip(self, last_sequence: int) -> None:
        self.last_sequence = max(self.last_sequence, last_sequence)

    def frame(self, entries: Sequence[JournalEntry]) -> WriteBatch:
        at = self._last + 1
        stamp = Stamp.at(self.journal, at)
        first = self.last_number + 1, self.last_sequence + 1
        return frame(entries, stamp, *first, self.last_number, _ANY_SIZE, (at, 0))

    def write(self, batch: WriteBatch) -> None:
        self._check_room(len(batch.data))
        last = batch.written[-1].number
        self._append(RECORDS, batch.data, last, batch.last_sequence)
        with self._lock:
            self._spans[-1].last_number = last
        self.last_number, self.last_sequence = last, batch.last_sequence

    def _check_room(self, size: int) -> None:
        """Leave room for the marks of later processes: a process that cannot open the stream cannot release
        it.

        :raises StoreUnavailable: the stream's limit of bytes does not leave it
        """
        limit = self._server.max_bytes
        if not limit:
            return
        with self._lock:
            used = sum(span.size for span in self._spans)
        if used + size + _PER_MESSAGE > limit - min(_MOST_RESERVED, limit // 16):
            raise self._server.full()

    def _mark(self, kind: int) -> None:
        while True:
            with suppress(LogMoved):
                self._append(kind, b"", self.last_number, self.last_sequence)
                return

    @property
    def _span(self) -> int:
        """Bytes that are released at once."""
        span = self._config.journal_log_file_size
        return min(span, self._server.max_bytes // _LEAST_SPANS) if self._server.max_bytes else span

    def _append(self, kind: int, data: bytes, last_number: int, last_sequence: int) -> None:
        """Append a unit, in as many pieces as it takes."""
        first_number, first_sequence = self.last_number + 1, self.last_sequence + 1
        begins = not self._spans or self._spans[-1].size >= self._span
        room = max(self._server.room - HEAD, 1)
        count = max(-(-len(data) // room), 1)
        now, start = self._clock.now_ms(), self._last + 1
        for index in range(count):
            head = PieceHead(
                kind,
                self.journal,
                self._store,
                self.writer,
                first_number,
                first_sequence,
                last_number,
                last_sequence,
                now,
                index,
                count,
                len(data),
            )
            part = data[index * room : (index + 1) * room] if count > 1 else data
            try:
                self._server.append(head.pack() + part, self._last)
            except LogMoved:
                self._last += 1
                log.error(
                    "message %d of %s is not a journal's, and is left out: another program has published it;"
                    " let only this store publish to that subject",
                    self._last,
                    self._config.place,
                )
                raise
            self._last += 1
            with self._lock:
                if begins and index == count - 1:  # not before it is complete: those before may be released
                    self._spans.append(_Span(start, first_number, first_sequence, self.last_number))
                self._spans[-1].size += HEAD + len(part) + _PER_MESSAGE

    def reach(self) -> None:
        self._server.reach()

    def health(self) -> StreamHealth:
        return self._server.connection.run(self._health())

    async def _health(self) -> StreamHealth:
        last = self._last
        return await health(self._server.connection, self._config, lambda state: self._missing(state, last))

    def _missing(self, state: Described, last: int) -> str | None:
        """Return which of the messages that were acknowledged, up to a sequence, the stream lacks."""
        if not self._is_claimed:
            return None
        first, gaps = state.first_seq, gaps_of(state)
        with self._lock:
            if first <= self._first and gaps <= self._gaps:
                if state.last_seq >= last:
                    return None
                return (
                    f"it ends with message {state.last_seq}, and message {last} was acknowledged: its servers"
                    " have lost their end, or the answering server is behind the others"
                )
            if self._loss is None or (self._loss.first, self._loss.gaps) != (first, gaps):
                self._loss = _Loss(first, gaps, self.last_number)
        return (
            f"it begins with message {first}, and {gaps} are missing behind that: messages were removed that"
            f" this broker had not released (up to {self._first - 1}), by a purge, a deletion or a limit"
        )

    async def _watch(self) -> None:
        """Check regularly that the stream keeps acknowledged records, even if no caller asks."""
        while True:
            await asyncio.sleep(_WATCH)
            health = await self._health()
            if health.problem is not None and not health.is_unsafe:
                continue
            if health.problem is not None and self._risk != health.problem:
                log.error("%s may lose acknowledged messages: %s", self._config.place, health.problem)
            elif health.problem is None and self._risk is not None:
                log.warning("%s keeps acknowledged records again", self._config.place)
            self._risk = health.problem

    def is_at_risk(self, applied: int) -> bool:
        with self._lock:
            if self._loss is not None and applied >= self._loss.last_number:
                self._first, self._gaps, self._loss = self._loss.first, self._loss.gaps, None
        return self._risk is not None

    def sync(self) -> None:
        """Do nothing: acknowledged records are as durable as they get."""

    def spans(self) -> list[Span]:
        with self._lock:
            return [
                Span(span.start, span.first_sequence, span.last_number, span.size) for span in self._spans
            ]

    def records(self, after: int, *, applied: int = 0) -> Iterator[Record]:
        return self._records(after, applied, self._last)

    def _records(self, after: int, applied: int, last: int) -> Iterator[Record]:
        """Yield the records after a number; ``last`` is the stream's sequence of the last message.

        :raises CorruptJournal: one of them is damaged or missing
        :raises JournalInUse: another process has opened the journal meanwhile, and may have released them
        :raises StoreUnavailable: a server answers that is cut off from the others
        """
        missing = self._config.ignore_missing_journalfiles
        try:
            contents = contents_of(self._server, ignore_missing=missing, settled=True)
            if contents.last < last:
                # A server that led the others, and does not know yet that it is cut off from them.
                raise StoreUnavailable(
                    f"{self._config.place} answers with message {contents.last} as its last, and has a later"
                    " one: a server is cut off from the others; try again"
                )
            yield from contents.records(after, ignore_missing=missing, applied=applied)
        except CorruptJournal as error:
            if self._server.goes_on(last):
                raise JournalInUse(self._config.place) from error
            raise

    def read(self, segment: int, offset: int, size: int) -> bytes:
        with self._lock:
            data = self._cache.get(segment)
        if data is None:
            data = self._unit(segment).data
            with self._lock:
                while len(self._cache) >= _CACHED:
                    del self._cache[next(iter(self._cache))]
                self._cache[segment] = data
        return data[offset : offset + size]

    def _unit(self, at: int) -> Unit:
        message = self._server.message(at)
        if message is None:
            raise damaged("its message is missing in the stream", at)
        head = head_at(at, message)
        count = 1 if head is None else head.pieces
        messages = [(at, message), *self._server.messages(at + 1, at + count - 1)]
        unit = next(units(messages), None)
        if unit is None:
            raise damaged("it is incomplete", at)
        return unit

    def release(self, up_to: int) -> None:
        with self._releasing:
            with self._lock:
                obsolete = 0
                while obsolete < len(self._spans) - 1 and self._spans[obsolete].last_number <= up_to:
                    obsolete += 1
                start = self._spans[obsolete].start
            if not obsolete:
                return
            self._first = max(self._first, start)
            try:
                self._server.purge(start)
            except StoreError as error:
                log.warning("obsolete messages of the journal are left for now: %s", error)
                return
            with self._lock:
                del self._spans[:obsolete]

    def aside(self, folder: str) -> StreamAside:
        aside = StreamAside(self._server, folder)
        aside.make()
        return aside

    def end(self, *, clean: bool) -> None:
        try:
            if clean:
                self._mark(CLEAN_END)
        except StoreError as error:
            log.warning("the journal could not be marked as closed cleanly: %s", error)
        finally:
            self.close()

    def close(self) -> None:
        self._server.close()
