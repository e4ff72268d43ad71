"""Local transactions: kept in memory, committed as one record."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from jdbcstore.abc import MessageReference, Reference
from jdbcstore.errors import TransactionError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.journaled.destinations import JournaledMessageStore
from jdbcstore.stores.journaled.operations import Writes
from jdbcstore.stores.journaled.parts import Parts
from jdbcstore.stores.journaled.topics import JournaledTopicMessageStore
from jdbcstore.stores.journaled.units import Unit
from jdbcstore.util.futures import StoreFuture

if TYPE_CHECKING:
    from jdbcstore.stores.journaled.store import JournaledStore


class JournaledTransaction:
    """See :class:`jdbcstore.abc.Transaction`. For one thread at a time."""

    def __init__(self, store: JournaledStore, parts: Parts) -> None:
        self._store = store
        self._parts = parts
        self._writes: Writes | None = Writes()

    def queue(self, name: str | Destination) -> TransactionalQueue:
        return TransactionalQueue(self, self._store.queue(name))

    def topic(self, name: str | Destination) -> TransactionalTopicStore:
        return TransactionalTopicStore(self, self._store.topic(name))

    @property
    def writes(self) -> Writes:
        """The writes so far; :class:`TransactionError` once the transaction has ended."""
        if self._writes is None:
            raise TransactionError("this transaction has ended; begin another one")
        return self._writes

    def commit(self) -> list[MessageReference]:
        references: list[MessageReference] = self._parts.writer.execute(Unit(self._end()))
        return references

    def commit_async(self) -> StoreFuture[list[MessageReference]]:
        return self._parts.writer.submit(Unit(self._end()))

    def _end(self) -> Writes:
        writes, self._writes = self.writes, None
        for key, _ in writes.acknowledgements:
            self._parts.subscriptions.check(key)
        return writes

    def rollback(self) -> None:
        _, self._writes = self.writes, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._writes is None:
            return
        if exc is None:
            self.commit()
        else:
            self.rollback()


class TransactionalQueue:
    """See :class:`jdbcstore.abc.TransactionalStore`. Bad messages are refused at once, not at commit."""

    def __init__(self, transaction: JournaledTransaction, store: JournaledMessageStore) -> None:
        self._transaction = transaction
        self._store = store

    @property
    def destination(self) -> Destination:
        return self._store.destination

    def add_message(self, message: Message) -> None:
        self._transaction.writes.adds.append(self._store.encode(message))

    def acknowledge(self, *messages: Reference) -> None:
        self._store.remove_in(self._transaction.writes, messages)

    def update_message(self, message: Message) -> None:
        self._transaction.writes.updates.append(self._store.updated(message))


class TransactionalTopicStore(TransactionalQueue):
    """See :class:`jdbcstore.abc.TransactionalTopic`."""

    def __init__(self, transaction: JournaledTransaction, store: JournaledTopicMessageStore) -> None:
        super().__init__(transaction, store)
        self._topic = store

    def acknowledge_subscription(self, client_id: str, subscription_name: str, *messages: Reference) -> None:
        self._topic.acknowledge_in(self._transaction.writes, client_id, subscription_name, messages)
