"""The open transactions of one STOMP connection, by the names that the client gave them."""

from __future__ import annotations

import asyncio
from asyncio import Future
from dataclasses import dataclass, field
from functools import partial

from jdbcstore.broker.api import Broker, BrokerTransaction
from jdbcstore.broker.stomp.subscriptions import Acked, StompConsumer
from jdbcstore.errors import ProtocolError
from jdbcstore.message.message import Message

_MAX_OPEN = 1000


@dataclass(eq=False, repr=False)
class _Transaction:
    """The broker's transaction, and the deliveries that it has acknowledged."""

    broker: BrokerTransaction
    acknowledged: list[tuple[StompConsumer, Acked]] = field(default_factory=list)
    failure: BaseException | None = None
    """Why it can only be rolled back, as the broker's already has been."""

    def put_back(self) -> None:
        for consumer, acked in reversed(self.acknowledged):
            consumer.put_back(acked)


class Transactions:
    """Begins transactions, adds sends and acknowledgements to them, and commits or rolls them back.

    :raises ProtocolError: from each method: there is no transaction of that name, or there is one already
    """

    def __init__(self, broker: Broker, connection_id: str) -> None:
        self._broker = broker
        self._connection_id = connection_id
        self._open: dict[str, _Transaction] = {}

    def begin(self, name: str) -> None:
        if name in self._open:
            raise ProtocolError(f"The transaction was already started: {name[:80]}")
        if len(self._open) >= _MAX_OPEN:
            raise ProtocolError(f"the connection has {_MAX_OPEN} open transactions, the maximum; end some")
        self._open[name] = _Transaction(self._broker.begin(self._connection_id))

    def send(self, name: str, message: Message) -> Future[None]:
        transaction = self._find(name)
        if transaction.failure is not None:
            done: Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        done = transaction.broker.send(message)
        if not done.done():
            done.add_done_callback(partial(self._sent, transaction))
        else:
            self._sent(transaction, done)
        return done

    def _sent(self, transaction: _Transaction, done: Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None and transaction in self._open.values():
            self._fail(transaction, error)

    def acknowledge(self, name: str, consumer: StompConsumer, acked: Acked) -> None:
        transaction = self._find(name)
        consumer.acked_in(name, acked)
        transaction.acknowledged.append((consumer, acked))
        if transaction.failure is None:
            transaction.broker.acknowledge(consumer.subscription, [delivery for _, delivery in acked])

    def fail(self, name: str, error: BaseException) -> None:
        """Make a transaction, if there is one of this name, one that can only be rolled back."""
        transaction = self._open.get(name)
        if transaction is not None:
            self._fail(transaction, error)

    def _fail(self, transaction: _Transaction, error: BaseException) -> None:
        if transaction.failure is None:
            transaction.failure = error
            transaction.broker.rollback()

    def commit(self, name: str) -> Future[None]:
        """Done once it is durable.

        :raises ProtocolError: also if a part of it was refused; it is rolled back
        """
        transaction = self._find(name)
        del self._open[name]
        if transaction.failure is not None:
            transaction.put_back()
            raise ProtocolError(
                f"The transaction {name[:80]} is rolled back, because a part of it was refused:"
                f" {transaction.failure}"
            )
        for consumer, acked in transaction.acknowledged:
            consumer.settle(acked)
        return transaction.broker.commit()

    def rollback(self, name: str) -> None:
        transaction = self._find(name)
        del self._open[name]
        if transaction.failure is None:
            transaction.broker.rollback()
        transaction.put_back()

    def rollback_all(self) -> None:
        for name in [*self._open]:
            self.rollback(name)

    def check(self, name: str) -> None:
        """Only check that there is such a transaction."""
        self._find(name)

    def _find(self, name: str) -> _Transaction:
        try:
            return self._open[name]
        except KeyError:
            raise ProtocolError(f"Invalid transaction id: {name[:80]}; BEGIN it first") from None
