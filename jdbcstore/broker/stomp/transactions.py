"""The transactions that one connection has open, under the client's names for them."""

from __future__ import annotations

from asyncio import Future

from jdbcstore.broker.api import Broker, BrokerTransaction
from jdbcstore.broker.stomp.consumer import StompConsumer, Taken
from jdbcstore.errors import ProtocolError
from jdbcstore.message import Message

_MOST = 1000


class _Open:
    """A transaction, and what it has taken from consumers."""

    __slots__ = ("acknowledged", "broker")

    def __init__(self, broker: BrokerTransaction) -> None:
        self.broker = broker
        self.acknowledged: list[tuple[StompConsumer, Taken]] = []


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
        return self._find(name).broker.send(message)

    def acknowledge(self, name: str, consumer: StompConsumer, taken: Taken) -> None:
        transaction = self._find(name)
        transaction.broker.acknowledge(consumer.subscription, [delivery for _, delivery in taken])
        transaction.acknowledged.append((consumer, taken))

    def commit(self, name: str) -> Future[None]:
        """Done once it is durable."""
        transaction = self._find(name)
        del self._open[name]
        return transaction.broker.commit()

    def rollback(self, name: str) -> None:
        transaction = self._find(name)
        del self._open[name]
        transaction.broker.rollback()
        for consumer, taken in reversed(transaction.acknowledged):
            consumer.put_back(taken)

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
