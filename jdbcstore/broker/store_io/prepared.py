"""Prepared XA transactions of a broker: of its own connections, and earlier ones in the store."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from jdbcstore.abc import PreparedTransaction, PreparedWrites, Store
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.store_io.transaction import EngineTransaction, SendTarget, commit_in_store
from jdbcstore.errors import TransactionNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import XATransactionId

log = logging.getLogger(__name__)


class PreparedTransactions:
    """Completes prepared transactions by id, from any connection or broker."""

    def __init__(self, loop: BrokerLoop, store: Store, find: Callable[[Destination], SendTarget]) -> None:
        self._loop = loop
        self._store = store
        self._find = find
        self._own: dict[XATransactionId, EngineTransaction] = {}
        """Transactions prepared by this broker, whose deliveries are in its memory."""
        self._preparing: dict[XATransactionId, list[Future[None]]] = {}
        """Transactions that are being prepared: a future for each, which completes at the end of that. A
        client that connects again may send the same one again."""

    def begin(self, xid: XATransactionId) -> None:
        """Note that a transaction is being prepared: another connection that completes it waits until
        :meth:`end`, because a transaction that is prepared after it was not found would stay in doubt."""
        self._preparing.setdefault(xid, []).append(self._loop.create_future())

    def end(self, xid: XATransactionId, transaction: EngineTransaction | None) -> None:
        """Keep a prepared transaction; None if it is not prepared."""
        if transaction is not None:
            self._own[xid] = transaction
        preparing = self._preparing[xid]
        preparing.pop().set_result(None)
        if not preparing:
            del self._preparing[xid]

    async def ids(self) -> list[XATransactionId]:
        """Return the ids of all prepared transactions, in order.

        :raises StoreError: the store cannot be read
        """
        stored = [branch.xid for branch in await self._loop.run(self._store.xa.recover)]
        return [*stored, *(xid for xid in self._own if xid not in stored)]

    async def commit(self, xid: XATransactionId) -> None:
        """Commit a prepared transaction: phase two.

        :raises TransactionNotFound: it is not prepared
        """
        own = await self._take(xid)
        if own is not None:
            await self._keeping(xid, own, own.commit_prepared)
            return
        writes = await self._writes(xid)
        after = await self._loop.run(partial(commit_in_store, self._store, xid))
        for target in self._targets([written for written in writes if written.added]):
            target.read_from(after)

    async def rollback(self, xid: XATransactionId) -> None:
        """Drop its messages, and redeliver messages that it acknowledged.

        :raises TransactionNotFound: it is not prepared
        """
        own = await self._take(xid)
        if own is not None:
            await self._keeping(xid, own, own.rollback_prepared)
            return
        writes = await self._writes(xid)
        await self._loop.run(partial(self._store.xa.rollback, xid))
        for target in self._targets([written for written in writes if written.acknowledged]):
            target.read_from(None)

    async def _take(self, xid: XATransactionId) -> EngineTransaction | None:
        while preparing := self._preparing.get(xid):
            await asyncio.wait([*preparing])
        return self._own.pop(xid, None)

    async def _keeping(
        self, xid: XATransactionId, own: EngineTransaction, end: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await end()
        except TransactionNotFound:
            raise
        except BaseException:
            self._own[xid] = own
            raise

    async def _writes(self, xid: XATransactionId) -> Sequence[PreparedWrites]:
        branches: list[PreparedTransaction] = await self._loop.run(self._store.xa.recover)
        for branch in branches:
            if branch.xid == xid:
                return branch.writes
        raise TransactionNotFound(f"{xid} is not prepared; it was completed, or never begun")

    def _targets(self, writes: Sequence[PreparedWrites]) -> list[SendTarget]:
        return [self._find(name) for name in dict.fromkeys(written.destination for written in writes)]
