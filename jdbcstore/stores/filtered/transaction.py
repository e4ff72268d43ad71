"""Local transactions over destinations of any of the stores."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jdbcstore.abc import (
    Cursor,
    MessageReference,
    Reference,
    Store,
    Transaction,
    TransactionalStore,
    TransactionalTopic,
    XATransaction,
    pages,
)
from jdbcstore.errors import StoreError, TransactionError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId, XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture

if TYPE_CHECKING:
    from jdbcstore.stores.filtered.store import FilteredStore

log = logging.getLogger(__name__)

_GONE = -1


@dataclass(slots=True)
class _Part:
    """What a transaction does in one store: checked in a transaction of that store's, and to be done again
    in a branch if there is another part."""

    store: Store
    local: Transaction
    steps: list[Callable[[XATransaction], None]] = field(default_factory=list)

    def fill(self, branch: XATransaction) -> None:
        for step in self.steps:
            step(branch)


class FilteredTransaction:
    """See :class:`jdbcstore.abc.Transaction`. For one thread at a time.

    In one store it is that store's own transaction. In several it is committed in two phases, takes no
    ``update_message`` and on a topic no ``acknowledge`` for all subscriptions, which its commit refuses.
    """

    def __init__(self, store: FilteredStore) -> None:
        self._store = store
        self._parts: dict[int, _Part] | None = {}
        self._added: list[tuple[Destination, MessageId]] = []

    def queue(self, name: str | Destination) -> FilteredQueue:
        destination = destination_named(name, DestinationKind.QUEUE)
        return FilteredQueue(self, self._part(destination), destination)

    def topic(self, name: str | Destination) -> FilteredTopic:
        destination = destination_named(name, DestinationKind.TOPIC)
        return FilteredTopic(self, self._part(destination), destination)

    def _part(self, destination: Destination) -> _Part:
        store = self._store.routes.store_of(destination)
        parts = self.parts
        if id(store) not in parts:
            parts[id(store)] = _Part(store, self._begin(store))
        return parts[id(store)]

    def _begin(self, store: Store) -> Transaction:
        return store.transaction()

    @property
    def parts(self) -> dict[int, _Part]:
        """By store; :class:`TransactionError` once the transaction has ended."""
        if self._parts is None:
            raise TransactionError("this transaction has ended; begin another one")
        return self._parts

    def name(self, message: Message, destination: Destination) -> Message:
        """The message with the id by which it will be found once it is stored."""
        message, message_id = self._store.namer.named(message)
        self._added.append((destination, message_id))
        return message if message.message_id is message_id else message.replace(message_id=message_id)

    def commit(self) -> list[MessageReference]:
        used = self._end()
        if len(used) > 1:
            return self._commit_all(used)
        return [reference for part in used for reference in part.local.commit()]

    def commit_async(self) -> StoreFuture[list[MessageReference]]:
        used = self._end()
        if len(used) == 1:
            return used[0].local.commit_async()
        return self._store.run(partial(self._commit_all, used))

    def _commit_all(self, used: list[_Part]) -> list[MessageReference]:
        for part in used:
            part.local.rollback()
        if not used:
            return []
        before = {id(part.store): part.store.last_sequence() for part in used}
        xid = self._store.outcomes.commit([(part.store, part.fill) for part in used])
        found = self._find_added(before, xid)
        return [
            MessageReference(next(found[added], _GONE), message_id)
            for added in self._added for _, message_id in [added]
        ]  # fmt: skip

    def _find_added(
        self, before: dict[int, int], xid: XATransactionId
    ) -> dict[tuple[Destination, MessageId], Iterator[int]]:
        """Sequences are given in the second phase; a message that has been consumed since has none.

        An id does not name one message: a producer may send it again. What is behind the last sequence
        of ``before`` and has the transaction's id is meant.
        """
        found: dict[tuple[Destination, MessageId], list[int]] = {added: [] for added in self._added}
        for destination, count in Counter(destination for destination, _ in self._added).items():
            store = self._store.routes.store_of(destination)
            try:
                place = store.topic(destination) if destination.is_topic else store.queue(destination)
                for page in pages(place, after=Cursor((before[id(store)],))):
                    mine = [message for message in page if message.transaction_id == xid]
                    for message in mine:
                        if message.message_id is not None and message.sequence is not None:
                            found[destination, message.message_id].append(message.sequence)
                    count -= len(mine)
                    if not count:
                        break
            except StoreError as error:
                # It is committed, and must not look as if it were not.
                log.warning("messages of a transaction over several stores were not found: %s", error)
        return {added: iter(sorted(sequences)) for added, sequences in found.items()}

    def rollback(self) -> None:
        for part in self._end():
            part.local.rollback()

    def _end(self) -> list[_Part]:
        """The parts with something to do."""
        parts, self._parts = self.parts, None
        return [part for part in parts.values() if part.steps]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._parts is None:
            return
        if exc is None:
            self.commit()
        else:
            self.rollback()


class FilteredQueue:
    """See :class:`jdbcstore.abc.TransactionalStore`."""

    def __init__(self, transaction: FilteredTransaction, part: _Part, destination: Destination) -> None:
        self._transaction = transaction
        self._part = part
        self._destination = destination
        self._local = self._in(part.local)

    def _in(self, transaction: Transaction) -> TransactionalStore:
        return transaction.queue(self._destination)

    @property
    def destination(self) -> Destination:
        return self._local.destination

    def add_message(self, message: Message) -> None:
        self._check()
        message = self._transaction.name(message, self._destination)
        self._local.add_message(message)
        self._part.steps.append(lambda branch: self._in(branch).add_message(message))

    def acknowledge(self, *messages: Reference) -> None:
        self._check()
        self._local.acknowledge(*messages)
        self._part.steps.append(lambda branch: self._in(branch).acknowledge(*messages))

    def update_message(self, message: Message) -> None:
        self._check()
        self._local.update_message(message)
        self._part.steps.append(lambda branch: self._in(branch).update_message(message))

    def _check(self) -> None:
        _ = self._transaction.parts


class FilteredTopic(FilteredQueue):
    """See :class:`jdbcstore.abc.TransactionalTopic`."""

    def _in(self, transaction: Transaction) -> TransactionalTopic:
        return transaction.topic(self._destination)

    def acknowledge_subscription(self, client_id: str, subscription_name: str, *messages: Reference) -> None:
        self._check()
        self._in(self._part.local).acknowledge_subscription(client_id, subscription_name, *messages)
        self._part.steps.append(
            lambda branch: self._in(branch).acknowledge_subscription(client_id, subscription_name, *messages)
        )


def destination_named(name: str | Destination, kind: DestinationKind) -> Destination:
    """The destination to be routed. Whether it is of the kind is for its store to say."""
    return name if isinstance(name, Destination) else Destination.named(name, kind)
