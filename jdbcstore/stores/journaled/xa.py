"""XA transactions: prepared in the journal. Those that the store behind had before are its own to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jdbcstore.abc import PreparedTransaction, Reference
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.stores.journaled.holding import Claims, described
from jdbcstore.stores.journaled.operations import COMMIT, ROLLBACK
from jdbcstore.stores.journaled.parts import Parts
from jdbcstore.stores.journaled.transaction import (
    JournaledTransaction,
    TransactionalQueue,
    TransactionalTopicStore,
)
from jdbcstore.stores.journaled.units import Unit
from jdbcstore.stores.shared.encoding import nothing
from jdbcstore.stores.shared.transaction import (
    check_xid,
    not_prepared,
    refuse_removal,
    refuse_update,
    xid_order,
)

if TYPE_CHECKING:
    from jdbcstore.stores.journaled.store import JournaledStore


class JournaledXAResource:
    """See :class:`jdbcstore.abc.XAResource`.

    Once the journal has failed, what it holds of a transaction that was in doubt then is not known before the
    store is opened anew: nothing is said of it until then, and :class:`JournalFailed` raised.
    """

    def __init__(self, store: JournaledStore, parts: Parts, claims: Claims) -> None:
        self._store = store
        self._parts = parts
        self._claims = claims

    def start(self, xid: XATransactionId) -> JournaledXATransaction:
        check_xid(xid, self._parts.store.config.name_lengths)
        return JournaledXATransaction(self._store, self._parts, self._claims, xid)

    def recover(self) -> list[PreparedTransaction]:
        overlay = self._parts.overlay
        self._parts.writer.journal.check()
        with overlay.lock:
            found = [PreparedTransaction(xid, described(held)) for xid, held in overlay.prepared.items()]
        if self._parts.behind_prepared:
            found += self._parts.store.xa.recover()
        return sorted(found, key=lambda transaction: xid_order(transaction.xid))

    def commit(self, xid: XATransactionId) -> None:
        if xid in self._parts.behind_prepared:
            self._commit_behind(xid)
        else:
            self._decide(xid, COMMIT)

    def rollback(self, xid: XATransactionId) -> None:
        if xid in self._parts.behind_prepared:
            with self._parts.checkpointer.everything_behind():
                self._parts.store.xa.rollback(xid)
                self._decided_behind(xid)
        else:
            self._decide(xid, ROLLBACK)

    def _decide(self, xid: XATransactionId, kind: int) -> None:
        overlay, writer = self._parts.overlay, self._parts.writer
        with writer.entered():
            with overlay.lock:
                held = overlay.prepared.get(xid)
            if held is None:
                writer.journal.check()
                raise not_prepared(xid)
            with held.deciding:
                if overlay.prepared.get(xid) is not held:
                    raise not_prepared(xid)
                # With all of its writes: the record that prepared it may be released before this one.
                writer.decide(Unit(held.writes, nothing, kind=kind, xid=xid))

    def _commit_behind(self, xid: XATransactionId) -> None:
        """The store behind gives its messages sequences: the journal's own go on behind those."""
        checkpointer, writer = self._parts.checkpointer, self._parts.writer
        with checkpointer.everything_behind(), writer.paused():
            checkpointer.checkpoint()
            self._parts.store.xa.commit(xid)
            writer.pass_over(self._parts.store.last_sequence())
            self._decided_behind(xid)

    def _decided_behind(self, xid: XATransactionId) -> None:
        overlay = self._parts.overlay
        with overlay.lock:
            self._parts.behind_prepared.discard(xid)
            overlay.floors.clear()


class JournaledXATransaction(JournaledTransaction):
    """See :class:`jdbcstore.abc.XATransaction`. For one thread at a time."""

    def __init__(self, store: JournaledStore, parts: Parts, claims: Claims, xid: XATransactionId) -> None:
        super().__init__(store, parts)
        self._claims = claims
        self._xid = xid

    @property
    def xid(self) -> XATransactionId:
        return self._xid

    def queue(self, name: str | Destination) -> TransactionalQueue:
        return _Queue(self, self._store.queue(name))

    def topic(self, name: str | Destination) -> TransactionalTopicStore:
        return _Topic(self, self._store.topic(name))

    def prepare(self) -> bool:
        with self._claims.claimed(self._xid, self._end()) as writes:
            return self._parts.writer.prepare(writes, self._xid)


class _Queue(TransactionalQueue):
    _transaction: JournaledXATransaction

    def add_message(self, message: Message) -> None:
        super().add_message(message.replace(transaction_id=self._transaction.xid))

    def update_message(self, message: Message) -> None:  # noqa: ARG002
        refuse_update()


class _Topic(_Queue, TransactionalTopicStore):
    def acknowledge(self, *messages: Reference) -> None:  # noqa: ARG002
        refuse_removal()
