"""The state that the destinations of a memory store share: writes under its lock, and XA transactions.

Prepared transactions live as long as their store.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jdbcstore.abc import MessageReference, PreparedTransaction, PreparedWrites, Progress, SubscriptionInfo
from jdbcstore.config.store import NameLengths
from jdbcstore.errors import StoreClosed, TransactionError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.memory.shelf import MemorySubscription, Shelf, Total
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.checkpoint import FindBody, JournalMark
from jdbcstore.stores.shared.encoding import MessageEncoder, Result, everything
from jdbcstore.stores.shared.paging import REMOVE_BATCH, counted
from jdbcstore.stores.shared.transaction import (
    BufferedStore,
    BufferedXATransaction,
    check_xid,
    not_prepared,
    prepared_before,
    prepared_transactions,
)
from jdbcstore.util.clock import Clock
from jdbcstore.util.futures import StoreFuture, done


def _nothing() -> None:
    return None


class HeldWrite(NamedTuple):
    """A write of a prepared transaction, hidden from all others; both functions run under the lock."""

    what: PreparedWrites
    commit: Callable[[], object]
    rollback: Callable[[], object]


def _cannot_be_held() -> HeldWrite | None:
    raise TransactionError("this write cannot be prepared")


class MemoryWrite(NamedTuple):
    """A write that has been checked and encoded; all functions run under the store's lock."""

    apply: Callable[[], MessageReference | None]
    check: Callable[[], None] = _nothing
    """Raises if it can no longer be applied; called for all writes of a transaction before the first."""
    hold: Callable[[], HeldWrite | None] = _cannot_be_held
    """Prepares the write (XA) instead of applying it; None if there is nothing to prepare."""


@dataclass(slots=True)
class MemoryUnit:
    """Writes that are applied together or not at all; ``result`` makes its result of references."""

    result: Result = everything
    writes: list[MemoryWrite] = field(default_factory=list)


@dataclass(slots=True)
class State:
    """The lock, the sequence and the prepared transactions of one store."""

    encoder: MessageEncoder
    audit: DuplicateAudit | None
    clock: Clock
    lengths: NameLengths
    lock: threading.Lock
    places: MutableMapping[Destination, Any]
    last_sequence: int = 0
    mark: JournalMark | None = None
    left: dict[int, int] = field(default_factory=dict)
    """The last record applied of each journal that was detached."""
    find_body: FindBody | None = None
    total: Total = field(default_factory=Total)
    changed: Callable[[], None] | None = None
    """Called without the lock after the total has changed."""
    prepared: dict[XATransactionId, list[HeldWrite]] = field(default_factory=dict)
    closed: bool = False

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Hold the lock; :class:`StoreClosed` if the store is closed."""
        with self.lock:
            if self.closed:
                raise StoreClosed()
            before = self.total.size
            yield
        if self.changed is not None and self.total.size != before:
            self.changed()

    def execute(self, unit: MemoryUnit) -> Any:
        """Apply all or none; the result of the messages added."""
        with self.entered():
            for write in unit.writes:
                write.check()
            references = [reference for write in unit.writes if (reference := write.apply()) is not None]
        return unit.result(references)

    def submit(self, unit: MemoryUnit) -> StoreFuture[Any]:
        """As :meth:`execute`; the future is done when it is returned."""
        return done(self.execute(unit))

    def prepare(self, xid: XATransactionId, unit: MemoryUnit) -> bool:
        """Hold all or none; False if there is nothing to decide."""
        with self.entered():
            if xid in self.prepared:
                raise prepared_before(xid)
            for write in unit.writes:
                write.check()
            held = [held for write in unit.writes if (held := write.hold()) is not None]
            if held:
                self.prepared[xid] = held
            return bool(held)

    def unsubscribed(self, info: SubscriptionInfo) -> None:
        """Drop its acknowledgements from prepared transactions; the lock is held."""
        gone = (info.destination, info.client_id, info.subscription_name)
        for held in self.prepared.values():
            held[:] = [
                item for item in held
                if (item.what.destination, item.what.client_id, item.what.subscription_name) != gone
            ]  # fmt: skip

    def remove(
        self,
        shelf: Shelf,
        find: Callable[[], Iterable[int]],
        progress: Progress | None,
        still: Callable[[int], bool] = lambda _: True,
    ) -> int:
        """Remove what ``find`` finds and ``still`` accepts, in batches between which the lock is free.

        Returns how many messages were removed.
        """
        with self.entered():
            doomed = list(find())

        def remove(start: int) -> int:
            with self.entered():
                return sum(map(shelf.remove, filter(still, doomed[start : start + REMOVE_BATCH])))

        return counted(map(remove, range(0, len(doomed), REMOVE_BATCH)), progress)


class MemoryXAResource:
    """See :class:`jdbcstore.abc.XAResource`."""

    def __init__(self, store: BufferedStore[MemoryUnit], state: State) -> None:
        self._store = store
        self._state = state

    def start(self, xid: XATransactionId) -> BufferedXATransaction[MemoryUnit]:
        check_xid(xid, self._state.lengths)
        return BufferedXATransaction(
            self._store, MemoryUnit(), self._state, xid=xid, prepare=self._state.prepare
        )

    def recover(self) -> list[PreparedTransaction]:
        with self._state.entered():
            return prepared_transactions(
                (xid, item.what) for xid, held in self._state.prepared.items() for item in held
            )

    def commit(self, xid: XATransactionId) -> None:
        with self._state.entered():
            for held in self._taken(xid):
                held.commit()

    def rollback(self, xid: XATransactionId) -> None:
        with self._state.entered():
            for held in self._taken(xid):
                held.rollback()

    def _taken(self, xid: XATransactionId) -> list[HeldWrite]:
        held = self._state.prepared.pop(xid, None)
        if held is None:
            raise not_prepared(xid)
        return held


def hold_added(state: State, shelf: Shelf, name: tuple[str, int], store: Callable[[], object]) -> HeldWrite:
    """Hold a message that the commit stores; the lock is held."""
    shelf.in_doubt[name] += 1

    def commit() -> None:
        shelf.in_doubt[name] -= 1
        store()

    def rollback() -> None:
        shelf.in_doubt[name] -= 1
        if state.audit is not None:
            state.audit.forget(*name)

    return HeldWrite(PreparedWrites(shelf.destination, added=1), commit, rollback)


def hold_taken(shelf: Shelf, sequences: Sequence[int]) -> HeldWrite | None:
    """Hide messages of a queue that the commit removes; the lock is held."""
    taken = {number: shelf.stored[number] for number in sequences if number in shelf.stored}
    names = [stored.name for stored in taken.values()]
    for number in taken:
        shelf.remove(number)
    shelf.in_doubt.update(names)

    def rollback() -> None:
        shelf.in_doubt.subtract(names)
        for number, stored in taken.items():
            shelf.restore(number, stored)

    what = PreparedWrites(shelf.destination, acknowledged=len(taken))
    return HeldWrite(what, lambda: shelf.in_doubt.subtract(names), rollback) if taken else None


def hold_acknowledged(subscription: MemorySubscription, sequences: Sequence[int]) -> HeldWrite | None:
    """Hide messages from a subscription for which the commit acknowledges them; the lock is held."""
    held = [sequence for sequence in sequences if subscription.hold(sequence)]

    def commit() -> None:
        for sequence in held:
            subscription.in_doubt.pop(sequence, None)

    def rollback() -> None:
        for sequence in held:
            subscription.give_back(sequence)

    info = subscription.info
    what = PreparedWrites(info.destination, 0, len(held), info.client_id, info.subscription_name)
    return HeldWrite(what, commit, rollback) if held else None
