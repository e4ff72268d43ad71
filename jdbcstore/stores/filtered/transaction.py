"""Transactions over the stores of a filtered store: committed by the one they use, or in two phases.

One of the stores that take part in two phases is the coordinator. It prepares first, is the first to commit,
and the last to roll back. So if a branch is prepared elsewhere but not with its coordinator, the coordinator
has committed; if it is still prepared with the coordinator, it was not decided, and is rolled back. Nothing
else has to be recorded: after a crash the prepared branches alone show the outcome.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

from jdbcstore.abc import (
    Cursor,
    MessageReference,
    PreparedTransaction,
    Reference,
    Store,
    Transaction,
    TransactionalStore,
    TransactionalTopic,
    XATransaction,
    pages,
)
from jdbcstore.errors import LockLost, OutcomeUnknown, StoreError, TransactionNotFound
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId, XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.stores.filtered.routes import Routes, destination_named
from jdbcstore.stores.memory import MemoryStore
from jdbcstore.stores.shared.rows import MessageNamer
from jdbcstore.stores.shared.transaction import (
    BufferedTransaction,
    BufferedXATransaction,
    not_prepared,
    prepared_before,
    prepared_transactions,
)
from jdbcstore.util.futures import StoreFuture

log = logging.getLogger(__name__)

T = TypeVar("T")
D = TypeVar("D", bound=TransactionalStore)
_GONE = -1
"""The sequence of a message that was consumed before its reference was made."""
FORMAT = 0x4A4D4B44
"""The format id of XIDs made here: JMKD. Their branch qualifier names the coordinator."""

Fill = Callable[[XATransaction], None]
"""Does one store's part of the work, in a branch."""


class Outcomes:
    """Commits transactions over several stores. Thread-safe."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._changed = threading.Condition()
        self._committing = 0
        self._finishing = False
        self._unfinished = False

    def commit(self, work: Sequence[tuple[Store, Fill]]) -> XATransactionId:
        """Do all the work, or none of it; returns the transaction id that its messages carry.

        :raises OutcomeUnknown: all of it will be done, or none, as soon as every store answers again
        :raises StoreError: none of it was done
        """
        if self._unfinished:
            self.finish()
        with self._changed:
            self._changed.wait_for(lambda: not self._finishing)
            self._committing += 1
        try:
            prepared, xid = self._prepare(work)
            if prepared:
                self._commit(prepared, xid)
            return xid
        finally:
            with self._changed:
                self._committing -= 1
                self._changed.notify_all()

    def _prepare(self, work: Sequence[tuple[Store, Fill]]) -> tuple[list[Store], XATransactionId]:
        """Prepare each branch; returns the stores with something to decide, the coordinator first."""
        global_id = secrets.token_bytes(16)
        prepared: list[Store] = []
        # A store in memory ends with the process, so it must not be the coordinator.
        for store, fill in sorted(work, key=lambda pair: isinstance(pair[0], MemoryStore)):
            if not prepared:
                xid = XATransactionId(FORMAT, global_id, self._routes.name_of(store))
            try:
                branch = store.xa.start(xid)
                fill(branch)
                if branch.prepare():
                    prepared.append(store)
            except BaseException:
                # It may have been prepared all the same.
                self._roll_back([*prepared, store], xid)
                raise
        return prepared, xid

    def _commit(self, prepared: list[Store], xid: XATransactionId) -> None:
        coordinator, *others = prepared
        try:
            coordinator.xa.commit(xid)
        except StoreError as error:
            if isinstance(error, OutcomeUnknown) or (isinstance(error, LockLost) and error.in_doubt):
                self._unfinished = True
            else:
                self._roll_back(prepared, xid)
            raise
        except BaseException:
            self._unfinished = True
            raise
        late = [failure for store in others if (failure := self._decide(store.xa.commit, xid)) is not None]
        if late:
            raise OutcomeUnknown(
                "the transaction is committed, but one of its stores does not answer: its part is committed"
                " there as soon as it does; do not repeat it"
            ) from late[0]

    def _roll_back(self, prepared: Sequence[Store], xid: XATransactionId) -> None:
        """Roll back every branch, the coordinator's last and only after all others."""
        coordinator, *others = prepared
        late = [error for store in others if (error := self._decide(store.xa.rollback, xid)) is not None]
        if not late:
            self._decide(coordinator.xa.rollback, xid)

    def _decide(self, decide: Callable[[XATransactionId], None], xid: XATransactionId) -> StoreError | None:
        """Decide one branch; returns the error if that is left to :meth:`finish`."""
        try:
            decide(xid)
        except TransactionNotFound:
            return None
        except StoreError as error:
            log.warning("a transaction over several stores is not finished yet: %s", error)
            self._unfinished = True
            return error
        return None

    def finish(self) -> None:
        """Commit or roll back each transaction that was interrupted.

        :raises StoreError: a store does not answer; call this again
        """
        with self.alone():
            pass

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Finish every interrupted transaction, and let none commit inside the block.

        :raises StoreError: a store does not answer
        """
        with self._changed:
            # Otherwise a transaction that is being decided would look like an interrupted one.
            self._changed.wait_for(lambda: not self._finishing and not self._committing)
            self._finishing = True
        try:
            self._finish_all()
            yield
        finally:
            with self._changed:
                self._finishing = False
                self._changed.notify_all()

    def _finish_all(self) -> None:
        branches: dict[XATransactionId, list[Store]] = {}
        for store in self._routes.stores:
            for transaction in store.xa.recover():
                if is_ours(transaction.xid):
                    branches.setdefault(transaction.xid, []).append(store)
        self._unfinished = False
        for xid, stores in branches.items():
            coordinator = self._routes.by_name.get(xid.branch_qualifier)
            if coordinator is None:
                log.error(
                    "%s was left undecided, and none of these stores was its coordinator; add the route that"
                    " led there", xid,
                )  # fmt: skip
            elif coordinator in stores:
                log.info("%s was left undecided, and is rolled back", xid)
                self._roll_back([coordinator, *(store for store in stores if store is not coordinator)], xid)
            else:
                log.info("%s was left unfinished, and is committed", xid)
                for store in stores:
                    self._decide(store.xa.commit, xid)


def is_ours(xid: XATransactionId) -> bool:
    """Return whether it is of a transaction over several stores, not of a transaction manager."""
    return xid.format_id == FORMAT


class Run(Protocol):
    """Runs work in a thread of the store's."""

    def __call__(self, work: Callable[[], T], /) -> StoreFuture[T]: ...


@dataclass(slots=True)
class _Part:
    """The writes of a transaction in one store.

    They are checked by a transaction of that store, and done again in a branch if there is another part.
    """

    store: Store
    local: Transaction
    steps: list[Callable[[XATransaction], None]] = field(default_factory=list)

    def fill(self, branch: XATransaction) -> None:
        for step in self.steps:
            step(branch)


class Writes:
    """The writes of one transaction, by store. ``begin`` begins the transaction of one store."""

    def __init__(self, begin: Callable[[Store], Transaction]) -> None:
        self._begin = begin
        self._parts: dict[int, _Part] = {}
        self.added: list[tuple[Destination, MessageId]] = []

    def part(self, store: Store) -> _Part:
        part = self._parts.get(id(store))
        if part is None:
            part = self._parts[id(store)] = _Part(store, self._begin(store))
        return part

    @property
    def used(self) -> list[_Part]:
        """The parts with something to do."""
        return [part for part in self._parts.values() if part.steps]


class _Destination(Generic[D]):
    """A destination of one of the stores, as transactions write to it."""

    def __init__(
        self, store: Store, destination: Destination, enter: Callable[[Transaction], D], namer: MessageNamer
    ) -> None:
        self.destination = destination
        self._store = store
        self._enter = enter
        self._namer = namer

    def _do(self, writes: Writes, step: Callable[[D], None]) -> None:
        part = writes.part(self._store)
        step(self._enter(part.local))
        part.steps.append(lambda branch: step(self._enter(branch)))

    def add_in(self, writes: Writes, message: Message) -> None:
        # With the id by which its sequence is found after the commit.
        message, message_id = self._namer.named(message)
        if message.message_id is not message_id:
            message = message.replace(message_id=message_id)
        self._do(writes, lambda place: place.add_message(message))
        writes.added.append((self.destination, message_id))

    def acknowledge_in(self, writes: Writes, messages: Sequence[Reference]) -> None:
        self._do(writes, lambda place: place.acknowledge(*messages))

    def update_in(self, writes: Writes, message: Message) -> None:
        self._do(writes, lambda place: place.update_message(message))


class _Topic(_Destination[TransactionalTopic]):
    def acknowledge_for_in(
        self, writes: Writes, client_id: str, subscription_name: str, messages: Sequence[Reference]
    ) -> None:
        self._do(
            writes, lambda place: place.acknowledge_subscription(client_id, subscription_name, *messages)
        )


class FilteredTransactions:
    """Begins and commits transactions over the stores; see :class:`jdbcstore.abc.XAResource`.

    In one store it is that store's own transaction. In several it is committed in two phases, and takes no
    ``update_message`` and on a topic no ``acknowledge`` for all subscriptions: its commit refuses them.

    In an XA transaction, each store has a branch of the same XID. The second phase goes through the stores
    one after the other. If it was interrupted, the next call completes it.
    """

    def __init__(self, routes: Routes, outcomes: Outcomes, namer: MessageNamer, run: Run) -> None:
        self._routes = routes
        self._outcomes = outcomes
        self._namer = namer
        self._run = run

    def begin(self) -> BufferedTransaction[Writes]:
        writes = Writes(lambda store: store.transaction())
        return BufferedTransaction(self, writes, self, discard=self._roll_back)

    def start(self, xid: XATransactionId) -> BufferedXATransaction[Writes]:
        for store in self._routes.stores:
            store.xa.start(xid)  # only checks the id
        return BufferedXATransaction(
            self,
            Writes(lambda store: store.xa.start(xid)),
            self,
            discard=self._roll_back,
            xid=xid,
            prepare=self._prepare,
        )

    def queue(self, name: str | Destination) -> _Destination[TransactionalStore]:
        destination = destination_named(name, DestinationKind.QUEUE)
        store = self._routes.store_of(destination)
        store.queue(destination)  # or this is not a queue
        return _Destination(store, destination, lambda local: local.queue(destination), self._namer)

    def topic(self, name: str | Destination) -> _Topic:
        destination = destination_named(name, DestinationKind.TOPIC)
        store = self._routes.store_of(destination)
        store.topic(destination)  # or this is not a topic
        return _Topic(store, destination, lambda local: local.topic(destination), self._namer)

    def execute(self, writes: Writes) -> list[MessageReference]:
        if len(writes.used) == 1:
            return writes.used[0].local.commit()
        return self._commit_all(writes)

    def submit(self, writes: Writes) -> StoreFuture[list[MessageReference]]:
        if len(writes.used) == 1:
            return writes.used[0].local.commit_async()
        return self._run(partial(self._commit_all, writes))

    def _commit_all(self, writes: Writes) -> list[MessageReference]:
        used = writes.used
        self._roll_back(writes)
        if not used:
            return []
        before = {id(part.store): part.store.last_sequence() for part in used}
        xid = self._outcomes.commit([(part.store, part.fill) for part in used])
        sequences_of = self._find_added(writes.added, before, xid)
        return [
            MessageReference(next(sequences_of[added], _GONE), message_id)
            for added in writes.added for _, message_id in [added]
        ]  # fmt: skip

    def _find_added(
        self, added: Sequence[tuple[Destination, MessageId]], before: dict[int, int], xid: XATransactionId
    ) -> dict[tuple[Destination, MessageId], Iterator[int]]:
        """Return the sequences given in the second phase; a message that has been consumed since has none.

        An id is not unique: a producer may send it again. So only messages behind the last sequence of
        ``before`` that carry the transaction's id count.
        """
        numbers: dict[tuple[Destination, MessageId], list[int]] = {key: [] for key in added}
        for destination, count in Counter(destination for destination, _ in added).items():
            store = self._routes.store_of(destination)
            try:
                place = store.topic(destination) if destination.is_topic else store.queue(destination)
                for page in pages(place, after=Cursor((before[id(store)],))):
                    mine = [message for message in page if message.transaction_id == xid]
                    for message in mine:
                        if message.message_id is not None and message.sequence is not None:
                            numbers[destination, message.message_id].append(message.sequence)
                    count -= len(mine)
                    if not count:
                        break
            except StoreError as error:
                # It is committed, and an error must not deny that.
                log.warning("messages of a transaction over several stores were not found: %s", error)
        return {key: iter(sorted(sequences)) for key, sequences in numbers.items()}

    @staticmethod
    def _roll_back(writes: Writes) -> None:
        for part in writes.used:
            part.local.rollback()

    def _prepare(self, xid: XATransactionId, writes: Writes) -> bool:
        # Each store would check this itself, but perhaps after another has prepared.
        if any(transaction.xid == xid for store in self._routes.stores for transaction in store.xa.recover()):
            raise prepared_before(xid)
        prepared: list[Store] = []
        for part in writes.used:
            try:
                if cast(XATransaction, part.local).prepare():
                    prepared.append(part.store)
            except BaseException:
                self._roll_back_prepared(prepared, xid)
                raise
        return bool(prepared)

    @staticmethod
    def _roll_back_prepared(prepared: Sequence[Store], xid: XATransactionId) -> None:
        """Branches that cannot be rolled back now stay in doubt, and are the transaction manager's."""
        for store in prepared:
            try:
                store.xa.rollback(xid)
            except StoreError as error:
                log.warning("%s stays in doubt in one store: %s", xid, error)

    def recover(self) -> list[PreparedTransaction]:
        return prepared_transactions(
            (transaction.xid, writes)
            for store in self._routes.stores
            for transaction in store.xa.recover()
            if not is_ours(transaction.xid)
            for writes in transaction.writes
        )

    def commit(self, xid: XATransactionId) -> None:
        self._decide(xid, lambda store: store.xa.commit(xid))

    def rollback(self, xid: XATransactionId) -> None:
        self._decide(xid, lambda store: store.xa.rollback(xid))

    def _decide(self, xid: XATransactionId, decide: Callable[[Store], None]) -> None:
        done = 0
        for store in self._routes.stores:
            try:
                decide(store)
            except TransactionNotFound:
                continue
            done += 1
        if not done:
            raise not_prepared(xid)
