"""Local transactions: kept in memory, committed as one unit of the writer's."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from jdbcstore.abc import MessageReference, Reference
from jdbcstore.errors import TransactionError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.jdbc.queue import JdbcMessageStore
from jdbcstore.stores.jdbc.topic import JdbcTopicMessageStore
from jdbcstore.stores.jdbc.writer.units import Unit
from jdbcstore.stores.jdbc.writer.writer import Writer
from jdbcstore.util.futures import StoreFuture

if TYPE_CHECKING:
    from jdbcstore.stores.jdbc.store import JdbcStore


class JdbcTransaction:
    """See :class:`jdbcstore.abc.Transaction`. For one thread at a time."""

    def __init__(self, store: JdbcStore, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._unit: Unit | None = Unit()

    def queue(self, name: str | Destination) -> TransactionalQueue:
        return TransactionalQueue(self, self._store.queue(name))

    def topic(self, name: str | Destination) -> TransactionalTopicStore:
        return TransactionalTopicStore(self, self._store.topic(name))

    @property
    def unit(self) -> Unit:
        """The writes so far; :class:`TransactionError` once the transaction has ended."""
        if self._unit is None:
            raise TransactionError("this transaction has ended; begin another one")
        return self._unit

    def commit(self) -> list[MessageReference]:
        references: list[MessageReference] = self._writer.execute(self._end())
        return references

    def commit_async(self) -> StoreFuture[list[MessageReference]]:
        return self._writer.submit(self._end())

    def _end(self) -> Unit:
        unit, self._unit = self.unit, None
        return unit

    def rollback(self) -> None:
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._unit is None:
            return
        if exc is None:
            self.commit()
        else:
            self.rollback()


class TransactionalQueue:
    """See :class:`jdbcstore.abc.TransactionalStore`. Bad messages are refused at once, not at commit."""

    def __init__(self, transaction: JdbcTransaction, store: JdbcMessageStore) -> None:
        self._transaction = transaction
        self._store = store

    @property
    def destination(self) -> Destination:
        return self._store.destination

    def add_message(self, message: Message) -> None:
        self._transaction.unit.adds.append(self._store.encode(message))

    def acknowledge(self, *messages: Reference) -> None:
        self._store.remove_in(self._transaction.unit, messages)

    def update_message(self, message: Message) -> None:
        self._transaction.unit.updates.append(self._store.encode_update(message))


class TransactionalTopicStore(TransactionalQueue):
    """See :class:`jdbcstore.abc.TransactionalTopic`."""

    def __init__(self, transaction: JdbcTransaction, store: JdbcTopicMessageStore) -> None:
        super().__init__(transaction, store)
        self._topic = store

    def acknowledge_subscription(self, client_id: str, subscription_name: str, *messages: Reference) -> None:
        acknowledgement = self._topic.acknowledgement(client_id, subscription_name, messages)
        self._transaction.unit.acknowledgements.append(acknowledgement)
