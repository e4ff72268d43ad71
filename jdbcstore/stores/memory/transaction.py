"""Local transactions in memory: checked writes, applied together."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from jdbcstore.abc import MessageReference, Reference
from jdbcstore.errors import TransactionError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.memory.destinations import MemoryMessageStore
from jdbcstore.stores.memory.shared import Shared, Write
from jdbcstore.stores.memory.topics import MemoryTopicMessageStore
from jdbcstore.util.futures import StoreFuture, done

if TYPE_CHECKING:
    from jdbcstore.stores.memory.store import MemoryStore


class MemoryTransaction:
    """See :class:`jdbcstore.abc.Transaction`. For one thread at a time."""

    def __init__(self, store: MemoryStore, shared: Shared) -> None:
        self._store = store
        self._shared = shared
        self._writes: list[Write] | None = []

    def queue(self, name: str | Destination) -> TransactionalQueue:
        return TransactionalQueue(self, self._store.queue(name))

    def topic(self, name: str | Destination) -> TransactionalTopicStore:
        return TransactionalTopicStore(self, self._store.topic(name))

    @property
    def writes(self) -> list[Write]:
        """The writes so far; :class:`TransactionError` once the transaction has ended."""
        if self._writes is None:
            raise TransactionError("this transaction has ended; begin another one")
        return self._writes

    def commit(self) -> list[MessageReference]:
        writes, self._writes = self.writes, None
        return self._shared.write(writes)

    def commit_async(self) -> StoreFuture[list[MessageReference]]:
        return done(self.commit())

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

    def __init__(self, transaction: MemoryTransaction, store: MemoryMessageStore) -> None:
        self._transaction = transaction
        self._store = store

    @property
    def destination(self) -> Destination:
        return self._store.destination

    def add_message(self, message: Message) -> None:
        self._transaction.writes.append(self._store.adding(message))

    def acknowledge(self, *messages: Reference) -> None:
        self._transaction.writes.append(self._store.acknowledging(messages))

    def update_message(self, message: Message) -> None:
        self._transaction.writes.append(self._store.updating(message))


class TransactionalTopicStore(TransactionalQueue):
    """See :class:`jdbcstore.abc.TransactionalTopic`."""

    def __init__(self, transaction: MemoryTransaction, store: MemoryTopicMessageStore) -> None:
        super().__init__(transaction, store)
        self._topic = store

    def acknowledge_subscription(self, client_id: str, subscription_name: str, *messages: Reference) -> None:
        write = self._topic.acknowledging_subscription(client_id, subscription_name, messages)
        self._transaction.writes.append(write)
