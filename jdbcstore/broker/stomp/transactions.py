"""The transactions that one connection has open, under the client's names for them."""

from __future__ import annotations

import asyncio
from asyncio import Future
from functools import partial

from jdbcstore.broker.api import Broker, BrokerTransaction
from jdbcstore.broker.stomp.consumer import StompConsumer, Taken
from jdbcstore.errors import ProtocolError
from jdbcstore.message.message import Message

_MOST = 1000


class _Open:
    """A transaction, and what it has taken from consumers."""

    __slots__ = ("acknowledged", "broker", "doom")

    def __init__(self, broker: BrokerTransaction) -> None:
        self.broker = broker
        self.acknowledged: list[tuple[StompConsumer, Taken]] = []
        self.doom: BaseException | None = None
        """Why it cannot be committed any more: the broker's is rolled back already."""

    def put_back(self) -> None:
        for consumer, taken in reversed(self.acknowledged):
            consumer.put_back(taken)


class Transactions:
    """Begun, and ended in one way or the other.

    :raises ProtocolError: from each method, there is no such transaction, or there is one already
    """

    def __init__(self, broker: Broker, connection_id: str) -> None:
        self._broker = broker
        self._connection_id = connection_id
        self._open: dict[str, _Open] = {}

    def begin(self, name: str) -> None:
        if name in self._open:
            raise ProtocolError(f"The transaction was already started: {name[:80]}")
        if len(self._open) >= _MOST:
            raise ProtocolError(f"a connection has {_MOST} transactions open at most; end some")
        self._open[name] = _Open(self._broker.begin(self._connection_id))

    def send(self, name: str, message: Message) -> Future[None]:
        transaction = self._find(name)
        if transaction.doom is not None:
            done: Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        done = transaction.broker.send(message)
        if not done.done():
            done.add_done_callback(partial(self._sent, transaction))
        else:
            self._sent(transaction, done)
        return done

    def _sent(self, transaction: _Open, done: Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None and transaction in self._open.values():
            self._doom(transaction, error)

    def acknowledge(self, name: str, consumer: StompConsumer, taken: Taken) -> None:
        transaction = self._find(name)
        consumer.lend(taken, name)
        transaction.acknowledged.append((consumer, taken))
        if transaction.doom is None:
            transaction.broker.acknowledge(consumer.subscription, [delivery for _, delivery in taken])

    def doom(self, name: str, error: BaseException) -> None:
        """Something of a transaction, if there is one of this name, was refused: nothing of it happens."""
        transaction = self._open.get(name)
        if transaction is not None:
            self._doom(transaction, error)

    def _doom(self, transaction: _Open, error: BaseException) -> None:
        if transaction.doom is None:
            transaction.doom = error
            transaction.broker.rollback()

    def commit(self, name: str) -> Future[None]:
        """Done once it is durable.

        :raises ProtocolError: also if something of it was refused; it is rolled back
        """
        transaction = self._find(name)
        del self._open[name]
        if transaction.doom is not None:
            transaction.put_back()
            raise ProtocolError(
                f"The transaction {name[:80]} is rolled back, for a part of it was refused:"
                f" {transaction.doom}"
            )
        for consumer, taken in transaction.acknowledged:
            consumer.settle(taken)
        return transaction.broker.commit()

    def rollback(self, name: str) -> None:
        transaction = self._find(name)
        del self._open[name]
        if transaction.doom is None:
            transaction.broker.rollback()
        transaction.put_back()

    def rollback_all(self) -> None:
        for name in [*self._open]:
            self.rollback(name)

    def check(self, name: str) -> None:
        """Only make sure that it has begun."""
        self._find(name)

    def _find(self, name: str) -> _Open:
        try:
            return self._open[name]
        except KeyError:
            raise ProtocolError(f"Invalid transaction id: {name[:80]}; BEGIN it first") from None
