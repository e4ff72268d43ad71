"""Adding messages beside other processes: their IDs, and the guard that no master has begun."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jdbcstore.database.adapters.sql import Batch
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import EPOCH_ROW, SEQUENCE_ROW
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.builder import Fetch
from jdbcstore.database.statements.claims import NUMBERS, ClaimStatements
from jdbcstore.database.statements.flow import FlowStatements
from jdbcstore.database.statements.lock import LockStatements
from jdbcstore.database.statements.routing import RoutingStatements
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.stores.claims.keys import filed_rows
from jdbcstore.stores.claims.lease import Lease
from jdbcstore.stores.shared.rows import EncodedMessage

_LONGEST_DELAY = 1e12


def milliseconds(delay: float) -> int:
    """Return a delay in milliseconds.

    :raises ConfigurationError: it is not a number, or no column can hold it
    """
    if not abs(delay) <= _LONGEST_DELAY:
        raise ConfigurationError(
            f"delay={delay} must be a number of at most {_LONGEST_DELAY:,.0f} seconds", option="delay"
        )
    return round(delay * 1000)


class MessageAdder:
    """Adds rows to the queues of a database that processes share. Thread-safe."""

    def __init__(self, session: DatabaseSession, lease: Lease) -> None:
        self._session = session
        self._lease = lease
        self._sql = session.of(ClaimStatements)
        self._flow_sql = session.of(FlowStatements)
        self._routing_sql = session.of(RoutingStatements)

    def add_rows(
        self,
        connection: Connection,
        encoded: Sequence[EncodedMessage],
        delay_ms: int = 0,
        keyed: Collection[str] = (),
    ) -> list[int]:
        """Add messages in the caller's transaction, which is guarded; return their IDs.

        Messages in the queues ``keyed`` are filed under their keys by the same commit, so a message whose ID
        is lower than committed ones is not passed over.
        """
        ids = self.numbers(connection.fetch, len(encoded))
        connection.add_messages([message.row(id_) for message, id_ in zip(encoded, ids, strict=True)])
        connection.insert_rows(self._flow_sql.add_keyed, filed_rows(encoded, ids, keyed))
        if delay_ms > 0:
            for id_ in ids:
                connection.execute(self._sql.delay_message, id_=id_, delay_ms=delay_ms)
        return ids

    def add_alone(
        self,
        connection: Connection,
        encoded: Sequence[EncodedMessage],
        delay_ms: int = 0,
        keyed: Collection[str] = (),
    ) -> list[int]:
        """As :meth:`add_rows`, all or none, in a guarded transaction of their own.

        :raises LockLost: a later epoch has begun
        """
        if len(encoded) == 1 and delay_ms <= 0 and self._session.adapter.chains_writes:
            [message] = encoded
            sql = self._sql.add_numbered[message.container in keyed]
            ids_of_added = connection.fetch(sql, epoch=self._lease.epoch, **_values_of(message, keyed))
            if not ids_of_added:
                raise self._epoch_ended()
            return [row[0] for row in ids_of_added]
        if delay_ms > 0 or keyed or not self._session.adapter.series:
            with connection.transaction(epoch=self._lease.guard):
                return self.add_rows(connection, encoded, delay_ms, keyed)
        ids = self.numbers(connection.fetch, len(encoded))
        rows = [message.row(id_) for message, id_ in zip(encoded, ids, strict=True)]
        connection.write(Batch(rows, [], [], []), epoch=self._lease.guard)
        return ids

    def _epoch_ended(self) -> StoreError:
        return self._lease.guard.short.first[0].refusal()

    def add_routed(
        self,
        connection: Connection,
        encoded: Sequence[EncodedMessage],
        version: int,
        *,
        durable: bool,
        keyed: Collection[str],
    ) -> bool:
        """As :meth:`add_rows`, if this is the number of changes of what routes messages; whether it is.

        If not ``durable``, the commit does not wait for the disk or for a standby, where there is a choice.
        """
        chains = self._session.adapter.chains_writes
        if len(encoded) == 1 and chains:
            [message], epoch = encoded, self._lease.epoch
            add = self._sql.add_routed if durable else self._sql.add_transient
            sql = add[message.container in keyed]
            if connection.fetch(sql, version=version, epoch=epoch, **_values_of(message, keyed)):
                return True
            find_epoch = self._session.of(LockStatements).find_epoch
            if connection.fetch(find_epoch, epoch_row=EPOCH_ROW) != [(epoch,)]:
                raise self._epoch_ended()
            return False
        [(current,)] = connection.fetch(self._routing_sql.find_version)
        if current == version and encoded:
            with connection.transaction(epoch=self._lease.guard):
                if chains and not durable:
                    connection.fetch(self._sql.relax)
                self.add_rows(connection, encoded, keyed=keyed)
        return bool(current == version)

    def numbers(self, fetch: Fetch, count: int) -> list[int]:
        """Return IDs for so many messages, each the next that any process gets."""
        if not self._session.adapter.series:
            fetch(self._sql.take_ids, count=count)
            [(last,)] = fetch(self._session.statements.find_number, name_=SEQUENCE_ROW)
            return [*range(last - count + 1, last + 1)]
        ids: list[int] = []
        while len(ids) < count:
            ids += [row[0] for row in fetch(self._sql.next_ids, limit=min(NUMBERS, count - len(ids)))]
        return ids


def _values_of(encoded: EncodedMessage, keyed: Collection[str]) -> dict[str, Any]:
    """Return the parameters of a statement that adds a message with the next number, and may file it."""
    values = {
        "container": encoded.container,
        "msgid_prod": encoded.producer,
        "msgid_seq": encoded.producer_sequence,
        "expiration": encoded.expiration_ms,
        "head": encoded.blob[: encoded.slot],
        "tail": encoded.blob[encoded.slot + 8 :],
        "priority": encoded.priority,
    }
    if keyed:
        [(_, _, values["key_name"], values["lane"])] = filed_rows([encoded], [0], keyed)
    return values
