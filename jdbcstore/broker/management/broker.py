"""Operations on a broker: its connections, transactions and journal, and its mastership."""

from __future__ import annotations

from jdbcstore.abc import Checkpointed
from jdbcstore.broker.management.audit import Actor, Audit
from jdbcstore.broker.management.master import CurrentMaster, clients_of
from jdbcstore.broker.operations import OperationOutcome
from jdbcstore.errors import MessageNotFound
from jdbcstore.message.ids import XATransactionId


class BrokerOperations:
    """Operations on the broker as a whole, its connections and its transactions."""

    def __init__(self, *, audit: Audit, master: CurrentMaster) -> None:
        self._audit = audit
        self._master = master

    async def commit(self, actor: Actor, xid: str) -> None:
        """Commit a prepared XA transaction in place of its transaction manager.

        :raises TransactionError: this is not an XID
        :raises TransactionNotFound: it is not prepared
        :raises StoreError: it could not be completed, and stays prepared
        """
        with self._audit.operation(actor, "commit", xid=xid) as (engine, _):
            await engine.commit_prepared(XATransactionId.parse(xid))

    async def roll_back(self, actor: Actor, xid: str) -> None:
        """Roll back a prepared XA transaction; raises the errors of :meth:`commit`."""
        with self._audit.operation(actor, "roll_back", xid=xid) as (engine, _):
            await engine.rollback_prepared(XATransactionId.parse(xid))

    def drop(self, actor: Actor, connection_id: str) -> None:
        """Close a client's connection; its unacknowledged messages are delivered again.

        :raises MessageNotFound: no connection has this id
        """
        with self._audit.operation(actor, "drop_connection", connection=connection_id):
            served, _ = self._master.required()
            clients = [client for client in clients_of(served) if client.connection_id == connection_id]
            if not clients:
                raise MessageNotFound(
                    f"there is no connection {connection_id!r}; list the connections for their ids"
                )
            for client in clients:
                client.abort("an administrator closed the connection")

    async def cleanup(self, actor: Actor) -> OperationOutcome:
        """Remove topic messages that every durable subscription has acknowledged.

        :raises StoreError: some of them could not be removed
        """
        with self._audit.operation(actor, "cleanup") as (engine, line):
            line["count"] = count = await engine.loop.run(engine.store.cleanup)
        return OperationOutcome(count=count)

    async def checkpoint(self, actor: Actor) -> None:
        """Write the journal's contents to the database; do nothing without a journal.

        :raises StoreError: the backing store failed
        """
        with self._audit.operation(actor, "checkpoint") as (engine, _):
            if isinstance(engine.store, Checkpointed):
                await engine.loop.run(engine.store.checkpoint)

    def hand_over(self, actor: Actor) -> None:
        """Close all connections, release the lock and become a slave, so that another broker is the master.

        If no broker takes the lock within 15 seconds, this one becomes the master again.
        """
        with self._audit.operation(actor, "hand_over"):
            self._master.process.hand_over()
