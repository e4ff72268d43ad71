"""The history of a store: a record of each message that is removed, in JDBCSTORE_HISTORY.

A record is written in the transaction that removes the message, so there is one if and only if the message is
gone. Cleanup deletes the records that are older than ``history_retention``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from jdbcstore.abc import RemovalRecord
from jdbcstore.database.adapters.sql import MSG, Key, Row
from jdbcstore.database.connection import Connection, RemovalReason, Runs
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.history import PAGES, HistoryStatements
from jdbcstore.errors import BodyInJournal, CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.stores.shared.paging import REMOVE_BATCH
from jdbcstore.util.clock import Clock

_CAUSE = "dlqDeliveryFailureCause"
"""The property of dead letters in which a broker says why."""
_MARK = _CAUSE.encode()
_LOOKED_AT = 20_000
"""Records that are looked at for those of one message."""

_Name = tuple[str, str]
"""The destination and the message id of a message."""


class RemovalHistory:
    """The recorder of one store, for the thread that writes.

    :raises SchemaError: the table cannot be created, or is not ours
    """

    def __init__(self, session: DatabaseSession, clock: Clock) -> None:
        session.prepare_history()
        self._sql = session.of(HistoryStatements)
        self._clock = clock
        self._retention = session.config.history_retention
        self._reason_length = session.config.name_lengths.string_id

    def record(
        self, connection: Runs, keys: Sequence[Key], outcome: RemovalReason, adds: Sequence[Row] = ()
    ) -> None:
        """Record the messages that are still stored, in the transaction that removes them.

        Those of which ``adds`` has a dead letter are dead, others that were removed after their expiration
        have expired, by whichever way they were removed.
        """
        dead, now_ms = dict(_dead_letters(adds)), self._clock.now_ms()
        wanted = set(keys)
        # Once each, and in the same order everywhere, so that concurrent removals cannot deadlock.
        ids = sorted({id_ for _, id_ in keys})
        for start in range(0, len(ids), PAGES[-1]):
            described = self._sql.find_removed(connection.fetch, ids[start : start + PAGES[-1]])
            removed = (row for row in described if (row[1], row[0]) in wanted)
            rows = [self._row(connection, row, outcome, dead, now_ms) for row in removed]
            connection.insert_rows(self._sql.add, rows)

    def _row(
        self, connection: Runs, row: Row, outcome: RemovalReason, dead: dict[_Name, str], now_ms: int
    ) -> Row:
        id_, container, producer, sequence, expiration_ms, size, blob = row
        if blob is None:
            [(blob,)] = connection.fetch(self._sql.find_body, id_=id_) or [(None,)]
        message, reason = None, None
        with suppress(CorruptMessage, BodyInJournal):
            message = openwire.decode(blob, sequence=id_, container=container)
            reason = dead.get((container, str(message.message_id))) if dead else None
        if reason is not None:
            outcome = RemovalReason.DEAD
        elif outcome is not RemovalReason.PURGED and 0 < (expiration_ms or 0) < now_ms:
            outcome = RemovalReason.EXPIRED
        return self._sql.add.row(
            removed=now_ms,
            id=id_,
            container=container,
            msgid_prod=producer,
            msgid_seq=sequence,
            outcome=str(outcome),
            produced=None if message is None else message.timestamp_ms,
            jms_priority=None if message is None else message.priority,
            msg_size=size,
            redeliveries=None if message is None else message.redelivery_counter,
            reason=None if reason is None else reason[: self._reason_length],
        )

    def clean(self, run: Callable[[Callable[[Connection], int]], int]) -> None:
        """Delete old records, a thousand in each transaction, which ``run`` carries out."""
        before = self._clock.now_ms() - round(self._retention * 1000)

        def remove(connection: Connection) -> int:
            rows = connection.fetch(self._sql.find_old, before=before, limit=REMOVE_BATCH)
            if rows:
                connection.execute(self._sql.remove_old, up_to=rows[-1][0])
            return len(rows)

        while run(remove) == REMOVE_BATCH:
            pass


def removals(session: DatabaseSession, message: MessageId, since_ms: int | None) -> list[RemovalRecord]:
    """Return the records of a message; see :meth:`jdbcstore.abc.Recorded.removals`."""
    if message.producer_id is None or not session.has_history:
        return []
    sql, producer = session.of(HistoryStatements), str(message.producer_id)
    name = {"producer": producer, "sequence": message.producer_sequence, "limit": _LOOKED_AT}
    if since_ms is None:
        rows = session.fetch(sql.find_last, **name)
    else:
        rows = session.fetch(sql.find_since, since=since_ms, **name)
    return [
        RemovalRecord(
            removed_ms=removed,
            destination=Destination.parse(container),
            outcome=outcome,
            redeliveries=redeliveries,
            reason=reason,
        )
        for removed, _, container, outcome, redeliveries, reason in rows
    ]


def _dead_letters(adds: Sequence[Row]) -> Iterator[tuple[_Name, str]]:
    """Yield the messages of which there is a dead letter among these rows, each with its reason."""
    for row in adds:
        if _MARK not in row[MSG]:
            continue
        with suppress(CorruptMessage, BodyInJournal):
            letter: Message = openwire.decode(row[MSG])
            reason = letter.properties.get(_CAUSE)
            if reason is not None and letter.original_destination is not None:
                yield (letter.original_destination.qualified_name, str(letter.message_id)), str(reason)
