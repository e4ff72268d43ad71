"""XA transactions in memory: prepared, they live as long as their store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jdbcstore.abc import PreparedTransaction, PreparedWrites, Reference
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message, XATransactionId
from jdbcstore.stores.memory.shared import Held, Shared
from jdbcstore.stores.memory.transaction import MemoryTransaction, TransactionalQueue, TransactionalTopicStore
from jdbcstore.stores.shared.checks import check_xid, not_prepared, refuse_removal, refuse_update, xid_order

if TYPE_CHECKING:
    from jdbcstore.stores.memory.store import MemoryStore


class MemoryXAResource:
    """See :class:`jdbcstore.abc.XAResource`."""

    def __init__(self, store: MemoryStore, shared: Shared) -> None:
        self._store = store
        self._shared = shared

    def start(self, xid: XATransactionId) -> MemoryXATransaction:
        check_xid(xid, self._shared.lengths)
        return MemoryXATransaction(self._store, self._shared, xid)

    def recover(self) -> list[PreparedTransaction]:
        with self._shared.entered():
            prepared = dict(self._shared.prepared)
        return [PreparedTransaction(xid, _summed(prepared[xid])) for xid in sorted(prepared, key=xid_order)]

    def commit(self, xid: XATransactionId) -> None:
        with self._shared.entered():
            for held in self._taken(xid):
                held.commit()

    def rollback(self, xid: XATransactionId) -> None:
        with self._shared.entered():
            for held in self._taken(xid):
                held.rollback()

    def _taken(self, xid: XATransactionId) -> list[Held]:
        held = self._shared.prepared.pop(xid, None)
        if held is None:
            raise not_prepared(xid)
        return held


def _summed(writes: list[Held]) -> tuple[PreparedWrites, ...]:
    """One for each place."""
    places: dict[tuple[str, str, str], PreparedWrites] = {}
    for what in (held.what for held in writes):
        place = (str(what.destination), what.client_id or "", what.subscription_name or "")
        so_far = places.get(place, replace(what, added=0, acknowledged=0))
        places[place] = replace(
            so_far, added=so_far.added + what.added, acknowledged=so_far.acknowledged + what.acknowledged
        )
    return tuple(places[place] for place in sorted(places, key=lambda place: (bool(place[1]), *place)))


class MemoryXATransaction(MemoryTransaction):
    """See :class:`jdbcstore.abc.XATransaction`. For one thread at a time."""

    def __init__(self, store: MemoryStore, shared: Shared, xid: XATransactionId) -> None:
        super().__init__(store, shared)
        self._xid = xid

    @property
    def xid(self) -> XATransactionId:
        return self._xid

    def queue(self, name: str | Destination) -> TransactionalQueue:
        return _Queue(self, self._store.queue(name))

    def topic(self, name: str | Destination) -> TransactionalTopicStore:
        return _Topic(self, self._store.topic(name))

    def prepare(self) -> bool:
        writes, self._writes = self.writes, None
        return self._shared.prepare(self._xid, writes)


class _Queue(TransactionalQueue):
    _transaction: MemoryXATransaction

    def add_message(self, message: Message) -> None:
        super().add_message(message.replace(transaction_id=self._transaction.xid))

    def update_message(self, message: Message) -> None:  # noqa: ARG002
        refuse_update()


class _Topic(_Queue, TransactionalTopicStore):
    def acknowledge(self, *messages: Reference) -> None:  # noqa: ARG002
        refuse_removal()
