"""XA transactions in memory: prepared transactions live as long as their store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jdbcstore.abc import PreparedTransaction, PreparedWrites
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.memory.shelf import Shelf, Subscription
from jdbcstore.stores.memory.state import Held, State, Write
from jdbcstore.stores.shared.transaction import (
    BufferedStore,
    BufferedXATransaction,
    check_xid,
    not_prepared,
    prepared_transactions,
)


class MemoryXAResource:
    """See :class:`jdbcstore.abc.XAResource`."""

    def __init__(self, store: BufferedStore[list[Write]], state: State) -> None:
        self._store = store
        self._state = state

    def start(self, xid: XATransactionId) -> BufferedXATransaction[list[Write]]:
        state = self._state
        check_xid(xid, state.lengths)
        return BufferedXATransaction(
            self._store, [], state.write, state.write_async, xid=xid, prepare=state.prepare
        )

    def recover(self) -> list[PreparedTransaction]:
        with self._state.entered():
            return prepared_transactions(
                (xid, one.what) for xid, held in self._state.prepared.items() for one in held
            )

    def commit(self, xid: XATransactionId) -> None:
        with self._state.entered():
            for held in self._taken(xid):
                held.commit()

    def rollback(self, xid: XATransactionId) -> None:
        with self._state.entered():
            for held in self._taken(xid):
                held.rollback()

    def _taken(self, xid: XATransactionId) -> list[Held]:
        held = self._state.prepared.pop(xid, None)
        if held is None:
            raise not_prepared(xid)
        return held


def hold_added(state: State, shelf: Shelf, name: tuple[str, int], store: Callable[[], object]) -> Held:
    """Hold a message that the commit stores; the lock is held."""
    shelf.in_doubt[name] += 1

    def commit() -> None:
        shelf.in_doubt[name] -= 1
        store()

    def rollback() -> None:
        shelf.in_doubt[name] -= 1
        if state.audit is not None:
            state.audit.forget(*name)

    return Held(PreparedWrites(shelf.destination, added=1), commit, rollback)


def hold_taken(shelf: Shelf, sequences: Sequence[int]) -> Held | None:
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
    return Held(what, lambda: shelf.in_doubt.subtract(names), rollback) if taken else None


def hold_acknowledged(subscription: Subscription, sequences: Sequence[int]) -> Held | None:
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
    return Held(what, commit, rollback) if held else None
