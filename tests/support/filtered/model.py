"""One store in memory that does what several are to do as one: the model of a FilteredStore."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jdbcstore import (
    Clock,
    Destination,
    MemoryStore,
    Message,
    MessageReference,
    StoreConfig,
    StoreFuture,
)
from jdbcstore.abc import Reference
from jdbcstore.errors import TransactionError
from jdbcstore.stores.memory.destinations import MemoryMessageStore, MemoryTopicMessageStore
from jdbcstore.stores.memory.shelf import Shelf
from jdbcstore.stores.memory.state import MemoryUnit, MemoryWrite, State
from jdbcstore.stores.shared.transaction import (
    BufferedTransaction,
    BufferedTransactionQueue,
    BufferedTransactionTopic,
)
from jdbcstore.testing.machine import TWO_PHASES


class Model(MemoryStore):
    """With the differences that are told of: the sequences of each store are its own, and a transaction
    over several takes no update, and of a topic no acknowledgement for all.

    ``stores`` names the store of each destination.
    """

    def __init__(self, stores: Mapping[Destination, str], config: StoreConfig, clock: Clock) -> None:
        super().__init__(config, clock=clock)
        self.stores = stores
        self.counting: dict[str, State] = {name: replace(self._state) for name in stores.values()}

    def _new_place(self, destination: Destination, prioritized: bool | None) -> MemoryMessageStore:
        kind = MemoryTopicMessageStore if destination.is_topic else MemoryMessageStore
        return kind(self.counting[self.stores[destination]], Shelf(destination, bool(prioritized)))

    def transaction(self) -> _Transaction:
        return _Transaction(self)

    def last_sequence(self) -> int:
        return max(state.last_sequence for state in self.counting.values())

    def lose(self, name: str) -> None:
        """All that the store of this name has."""
        for destination in [one for one, store in self.stores.items() if store == name]:
            self._state.places.pop(destination, None)
        prepared = self._state.prepared
        for xid, writes in [*prepared.items()]:
            writes[:] = [one for one in writes if self.stores[one.what.destination] != name]
            if not writes:
                del prepared[xid]
        if name in self.counting:
            self.counting[name].last_sequence = 0


class _Transaction(BufferedTransaction[MemoryUnit]):
    _store: Model

    def __init__(self, store: Model) -> None:
        super().__init__(store, MemoryUnit(), store._state)
        self._stores: set[str] = set()
        self._in_one_only = False
        self._marked: dict[int, MemoryWrite] = {}
        """By place in the order: the write with the id that its message has if there are several stores."""

    def queue(self, name: str | Destination) -> _Queue:
        return _Queue(self, self._store.queue(name))

    def topic(self, name: str | Destination) -> _Topic:
        return _Topic(self, self._store.topic(name))

    def writes_to(self, destination: Destination, *, in_one_only: bool = False) -> None:
        self._stores.add(self._store.stores[destination])
        self._in_one_only |= in_one_only

    def marks(self, write: MemoryWrite) -> None:
        self._marked[len(self.writes.writes) - 1] = write

    def commit(self) -> list[MessageReference]:
        self._mark()
        return super().commit()

    def commit_async(self) -> StoreFuture[list[MessageReference]]:
        self._mark()
        return super().commit_async()

    def _mark(self) -> None:
        """Give the messages of a transaction over several stores the id that they have then.

        :raises TransactionError: one of its writes is done in one store only
        """
        if len(self._stores) > 1:
            if self._in_one_only:
                self.rollback()
                raise TransactionError("this is done in one store only")
            for at, write in self._marked.items():
                self.writes.writes[at] = write


class _Queue(BufferedTransactionQueue[MemoryUnit]):
    _transaction: _Transaction
    _store: MemoryMessageStore

    def add_message(self, message: Message) -> None:
        super().add_message(message)
        self._transaction.marks(self._store.adding(message.replace(transaction_id=TWO_PHASES)))
        self._transaction.writes_to(self.destination)

    def acknowledge(self, *messages: Reference) -> None:
        super().acknowledge(*messages)
        self._transaction.writes_to(self.destination, in_one_only=self.destination.is_topic)

    def update_message(self, message: Message) -> None:
        super().update_message(message)
        self._transaction.writes_to(self.destination, in_one_only=True)


class _Topic(_Queue, BufferedTransactionTopic[MemoryUnit]):
    _store: MemoryTopicMessageStore

    def acknowledge_subscription(self, client_id: str, subscription_name: str, *messages: Reference) -> None:
        super().acknowledge_subscription(client_id, subscription_name, *messages)
        self._transaction.writes_to(self.destination)
