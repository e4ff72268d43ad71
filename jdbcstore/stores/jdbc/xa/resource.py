"""The part of a JdbcStore in distributed transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jdbcstore.abc import PreparedTransaction, Reference
from jdbcstore.database.session import Session
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message, XATransactionId
from jdbcstore.stores.jdbc.transaction import JdbcTransaction, TransactionalQueue, TransactionalTopicStore
from jdbcstore.stores.jdbc.writer.writer import Writer
from jdbcstore.stores.jdbc.xa.found import find_prepared
from jdbcstore.stores.jdbc.xa.phases import Commit, Prepare, Rollback
from jdbcstore.stores.shared.checks import check_xid, refuse_removal, refuse_update, xid_order

if TYPE_CHECKING:
    from jdbcstore.stores.jdbc.store import JdbcStore


class JdbcXAResource:
    """See :class:`jdbcstore.abc.XAResource`."""

    def __init__(self, store: JdbcStore, session: Session, writer: Writer) -> None:
        self._store = store
        self._session = session
        self._writer = writer

    def start(self, xid: XATransactionId) -> JdbcXATransaction:
        check_xid(xid, self._session.config.name_lengths)
        return JdbcXATransaction(self._store, self._session, self._writer, xid)

    def recover(self) -> list[PreparedTransaction]:
        branches = find_prepared(self._session, self._session.fetch).branches
        return [branches[xid].described() for xid in sorted(branches, key=xid_order)]

    def commit(self, xid: XATransactionId) -> None:
        commit = Commit(self._session, xid, self._store.forget_acknowledgements)
        self._writer.call_numbered(commit.count, commit.run)

    def rollback(self, xid: XATransactionId) -> None:
        rollback = Rollback(self._session, xid, self._store.forget_acknowledgements)
        self._writer.call_numbered(rollback.count, rollback.run, removed=lambda: rollback.names)


class JdbcXATransaction(JdbcTransaction):
    """See :class:`jdbcstore.abc.XATransaction`. For one thread at a time."""

    def __init__(self, store: JdbcStore, session: Session, writer: Writer, xid: XATransactionId) -> None:
        super().__init__(store, writer)
        self._session = session
        self._xid = xid

    @property
    def xid(self) -> XATransactionId:
        return self._xid

    def queue(self, name: str | Destination) -> TransactionalQueue:
        return _Queue(self, self._store.queue(name))

    def topic(self, name: str | Destination) -> TransactionalTopicStore:
        return _Topic(self, self._store.topic(name))

    def prepare(self) -> bool:
        unit = self._end()
        prepare = Prepare(self._session, self._xid, unit)
        prepared: bool = self._writer.call_numbered(prepare.count, prepare.run, adding=unit)
        return prepared


class _Queue(TransactionalQueue):
    _transaction: JdbcXATransaction

    def add_message(self, message: Message) -> None:
        super().add_message(message.replace(transaction_id=self._transaction.xid))

    def update_message(self, message: Message) -> None:  # noqa: ARG002
        refuse_update()


class _Topic(_Queue, TransactionalTopicStore):
    def acknowledge(self, *messages: Reference) -> None:  # noqa: ARG002
        refuse_removal()
