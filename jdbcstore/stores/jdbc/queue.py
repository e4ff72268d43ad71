"""A queue in the database: the rows of ACTIVEMQ_MSGS that belong to one destination.

Reads run in the caller's thread on the session's pool, each in a transaction of its own. Writes go to the
store's one writer, which gives each message its sequence (the ID column) and commits them in that order.
Topics share all of this, and add durable subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any

from jdbcstore.abc import Cursor, Page, Progress, Reference, Statistics
from jdbcstore.config.store import NameLengths
from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.connection import Connection, RemovalReason
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.builder import Statement
from jdbcstore.database.statements.store import LISTED
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.stores.jdbc.checkpoint import ReferencedBodies
from jdbcstore.stores.jdbc.writer.units import Execution, WriteUnit, update_of
from jdbcstore.stores.jdbc.writer.writer import UnitWriter
from jdbcstore.stores.shared.checks import MAX_SEQUENCE, message_not_found, name_of
from jdbcstore.stores.shared.encoding import MessageEncoder, encode_each, nothing, only
from jdbcstore.stores.shared.paging import (
    PRIORITIES,
    Complete,
    FetchLane,
    RowChanged,
    counted,
    id_pages,
    read_page,
)
from jdbcstore.stores.shared.rows import fits
from jdbcstore.stores.shared.writing import UnitWrites
from jdbcstore.util.clock import Clock

_SAMPLE = 1_000
"""Rows whose priorities decide whether a destination is prioritised."""


class JdbcMessageStore(UnitWrites[WriteUnit]):
    """One destination; see :class:`jdbcstore.abc.MessageStore` for its promises. Thread-safe.

    Without ``prioritized`` the rows that are stored decide: by priority if any has one above 0.
    """

    def __init__(
        self,
        destination: Destination,
        prioritized: bool | None,
        *,
        session: DatabaseSession,
        writer: UnitWriter,
        encoder: MessageEncoder,
        clock: Clock,
        lengths: NameLengths,
        bodies: ReferencedBodies,
    ) -> None:
        self._session = session
        self._sql = session.statements
        self._writer = writer
        self._clock = clock
        self._lengths = lengths
        self._bodies = bodies
        self.destination = destination
        self._container = destination.qualified_name
        self.prioritized = self._looks_prioritized() if prioritized is None else prioritized
        self.execute, self.submit = writer.execute, writer.submit
        self.encode, self.encode_all = encoder.of(destination, prioritized=self.prioritized)

    def _looks_prioritized(self) -> bool:
        rows = self._fetch(self._sql.find_priorities, limit=_SAMPLE)
        return any(priority for (priority,) in rows)

    def unit_of_add(self, message: Message) -> WriteUnit:
        return WriteUnit(only, adds=[self.encode(message)])

    def unit_of_adds(self, messages: Iterable[Message]) -> WriteUnit:
        return WriteUnit(adds=self.encode_all(messages))

    def unit_of_each(self, messages: Iterable[Message]) -> WriteUnit:
        adds, outcomes = encode_each(messages, self.encode)
        return WriteUnit(outcomes, adds=adds, apart=True)

    def unit_of_removes(self, messages: Sequence[Reference]) -> WriteUnit:
        unit = WriteUnit(nothing)
        self.acknowledge_in(unit, messages)
        return unit

    def unit_of_update(self, message: Message) -> WriteUnit:
        return WriteUnit(nothing, updates=[self._encode_update(message)])

    def get_message(self, message: MessageId | int) -> Message:
        for id_, _ in self.resolve(message):
            for sequence, blob in self._fetch(self._sql.find_message_by_id, id_=id_):
                complete = self.complete
                if complete is not None and openwire.is_reference(blob):
                    try:
                        blob = complete(sequence, blob)
                    except RowChanged:
                        return self.get_message(sequence)
                return openwire.decode(blob, sequence=sequence, container=self._container)
        raise message_not_found(message, self.destination)

    @property
    def complete(self) -> Complete | None:
        """Replaces a reference in MSG by the message body in the journal; None if no row has one."""
        return self._bodies.complete(self._container)

    def add_in(self, writes: WriteUnit, message: Message) -> None:
        writes.adds.append(self.encode(message))

    def acknowledge_in(self, writes: WriteUnit, messages: Sequence[Reference]) -> None:
        container, removes, singly = self._container, writes.removes, self._sql.removes_singly
        for name in messages:
            if type(name) is int and 0 <= name <= MAX_SEQUENCE and not singly:  # as resolve, for most
                removes.append((container, name))
            else:
                removes += [(container, id_) for id_, _ in self.resolve(name)]

    def update_in(self, writes: WriteUnit, message: Message) -> None:
        writes.updates.append(self._encode_update(message))

    def _encode_update(self, message: Message) -> Execution:
        for id_, _ in self.resolve(message):
            for _, blob in self._fetch(self._sql.find_message_by_id, id_=id_):
                if message.message_id is None:
                    stored = openwire.decode(blob, sequence=id_, container=self._container)
                    message = message.replace(message_id=stored.message_id)
                return update_of(self._session, self._sql, id_, self.encode(message).blob_for(id_))
        raise message_not_found(name_of(message), self.destination)

    def resolve(self, message: Reference, *, with_priority: bool = False) -> list[tuple[int, int]]:
        """(ID, priority) of every row that a reference identifies; the priority is 0 unless asked for.

        A sequence is not looked up unless the priority is needed: removing a row that is gone has no effect.
        """
        name = name_of(message)
        if isinstance(name, int):
            if not 0 <= name <= MAX_SEQUENCE:
                return []
            # The user's own statement removes any row with this ID, even of a prepared transaction.
            known = not self._sql.removes_singly
            if known and isinstance(message, Message) and message.destination == self.destination:
                return [(name, message.priority)]
            if known and not (with_priority or isinstance(message, Message)):
                return [(name, 0)]
            numbers = self._fetch(self._sql.find_priority_by_id, id_=name)
            return [(id_, priority or 0) for id_, priority in numbers]
        if name.producer_id is None or not fits(str(name.producer_id), self._lengths.message_id):
            return []
        rows = self._fetch(
            self._sql.find_message_sequence_id,
            msgid_prod=str(name.producer_id),
            msgid_seq=name.producer_sequence,
        )
        return [(id_, priority or 0) for id_, priority in rows]

    def present(self, sequences: Sequence[int]) -> dict[int, int]:
        sizes: dict[int, int] = {}
        for start in range(0, len(sequences), LISTED):
            ids = list(islice(cycle(sequences[start : start + LISTED]), LISTED))
            rows = self._fetch(self._sql.find_sizes_by_ids, **{f"id_{n}": id_ for n, id_ in enumerate(ids)})
            sizes.update((id_, int(size)) for id_, size in rows)
        return sizes

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        def fetch(priority: int | None, behind: int, count: int) -> list[Row]:
            if priority is None:
                return self._fetch(self._sql.find_next_messages, after=behind, limit=count)
            query = self._sql.find_next_messages_by_priority.of(priority)
            return self._fetch(query, priority=priority, after=behind, limit=count)

        marks = [-1] * (PRIORITIES if self.prioritized else 1)
        return read_page(fetch, self._container, limit, after, marks, self.complete)

    def recover_expired(self, limit: int = 500, after: Cursor | None = None) -> Page:
        lane = self._lane(self._sql.find_expired_messages, now_ms=self._clock.now_ms())
        return read_page(lane, self._container, limit, after, [-1], self.complete)

    def recover_in_doubt(self, limit: int = 500, after: Cursor | None = None) -> Page:
        """Messages, by sequence, that a prepared XA transaction will add or remove."""
        lane = self._lane(self._sql.find_in_doubt_messages)
        return read_page(lane, self._container, limit, after, [-1])

    def _lane(self, query: Statement, **values: Any) -> FetchLane:
        """Return the rows of a query in the order of IDs, regardless of priority."""
        return lambda _, behind, count: self._fetch(query, after=behind, limit=count, **values)

    def message_count(self) -> int:
        count: int = self._fetch(self._sql.destination_message_count)[0][0]
        return count

    def statistics(self) -> Statistics:
        [(count, size)] = self._fetch(self._sql.destination_statistics)
        lane = self._lane(self._sql.find_next_messages)
        first = [*read_page(lane, self._container, 1, None, [-1], self.complete)]
        oldest = first[0].timestamp_ms if first else None
        return Statistics(int(count), int(size), oldest)

    def remove_all_messages(self, progress: Progress | None = None) -> int:
        return self._remove_found(self._sql.find_ids, RemovalReason.PURGED, progress)

    def remove_expired(self, progress: Progress | None = None) -> int:
        now_ms = self._clock.now_ms()
        return self._remove_found(self._sql.find_expired_ids, RemovalReason.EXPIRED, progress, now_ms=now_ms)

    def _remove_found(
        self, find: Sql, outcome: RemovalReason, progress: Progress | None, **values: Any
    ) -> int:
        """Remove the rows stored now that a paged query finds, each page in a transaction of its own."""
        last: int = self._session.fetch(self._sql.find_last_sequence_id_in_msgs)[0][0] or 0
        every = id_pages(lambda **place: self._fetch(find, **place, **values), last)
        call, remove = self._writer.call, partial(self.remove_rows, outcome=outcome)
        return counted((call(partial(remove, ids=ids), removes=len(ids)) for ids in every), progress)

    def remove_rows(self, connection: Connection, ids: Sequence[int], outcome: RemovalReason) -> int:
        """Delete rows on the writer's connection; returns how many."""
        return connection.remove_messages([(self._container, id_) for id_ in ids], outcome)

    def _fetch(self, sql: Statement, **values: Any) -> list[Row]:
        return self._session.fetch(sql, container=self._container, **values)
