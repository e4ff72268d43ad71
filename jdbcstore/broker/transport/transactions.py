"""The open transactions of one connection in any protocol, by the client's names."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from jdbcstore.broker.api import BrokerTransaction, Delivery
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.transport.consumers import ClientConsumer
from jdbcstore.errors import ProtocolError
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.message import Message

_MAX_OPEN = 1000

_Name = TypeVar("_Name")
_Consumer = TypeVar("_Consumer", bound=ClientConsumer)
_Acked = TypeVar("_Acked")


@dataclass(eq=False, repr=False)
class ClientTransaction(Generic[_Consumer, _Acked]):
    """The broker's transaction, and its acknowledged deliveries."""

    broker: BrokerTransaction
    acknowledged: list[tuple[_Consumer, _Acked]] = field(default_factory=list)
    failure: BaseException | None = None
    """The reason why it can only be rolled back; the broker's transaction already has been."""

    def fail(self, error: BaseException) -> None:
        """Roll it back; the client gets the first error when it commits."""
        if self.failure is None:
            self.failure = error
            self.broker.rollback()


class ClientTransactions(Generic[_Name, _Consumer, _Acked]):
    """The open transactions of a client."""

    def __init__(self, broker: Engine, connection_id: str) -> None:
        self._broker = broker
        self._connection_id = connection_id
        self._open: dict[_Name, ClientTransaction[_Consumer, _Acked]] = {}

    def send(self, name: _Name, message: Message) -> Future[None]:
        """Add a message, and return a future that completes when the connection may send more."""
        transaction = self._find(name)
        if transaction.failure is not None:
            return completed()
        done = transaction.broker.send(message)
        if not done.done():
            done.add_done_callback(partial(self._sent, transaction))
        elif (error := done.exception()) is not None:
            transaction.fail(error)
        return done

    def fail(self, name: _Name, error: BaseException) -> None:
        """Mark an open transaction as failed, so that it can only be rolled back."""
        transaction = self._open.get(name)
        if transaction is not None:
            transaction.fail(error)

    def rollback_all(self) -> None:
        """Roll back every open transaction, because the connection has ended."""
        transactions, self._open = self._open, {}
        for transaction in transactions.values():
            if transaction.failure is None:
                transaction.broker.rollback()

    def _begin(self, name: _Name, xid: XATransactionId | None = None) -> None:
        if len(self._open) >= _MAX_OPEN:
            raise ProtocolError(f"the connection has {_MAX_OPEN} open transactions, the maximum; end some")
        self._open[name] = ClientTransaction(self._broker.begin(self._connection_id, xid))

    def _acknowledge(
        self, name: _Name, consumer: _Consumer, acked: _Acked, deliveries: Sequence[Delivery]
    ) -> None:
        transaction = self._find(name)
        transaction.acknowledged.append((consumer, acked))
        if transaction.failure is None:
            transaction.broker.acknowledge(consumer.subscription, deliveries)

    def _find(self, name: _Name) -> ClientTransaction[_Consumer, _Acked]:
        """Return the open transaction of a name.

        :raises StoreError: it does not exist
        """
        transaction = self._open.get(name)
        if transaction is None:
            raise self._missing(name)
        return transaction

    def _missing(self, name: _Name) -> Exception:
        """Return the client's error for a name without an open transaction."""
        raise NotImplementedError

    def _sent(self, transaction: ClientTransaction[_Consumer, _Acked], done: Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None and transaction in self._open.values():
            transaction.fail(error)


def completed() -> Future[None]:
    """Return a completed future."""
    done: Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
