"""The open transactions of one STOMP connection, by the client's names."""

from __future__ import annotations

from asyncio import Future

from jdbcstore.broker.stomp.subscriptions import Acked, StompConsumer
from jdbcstore.broker.transport.transactions import ClientTransaction, ClientTransactions
from jdbcstore.errors import ProtocolError


class StompTransactions(ClientTransactions[str, StompConsumer, Acked]):
    """Begins transactions, adds sends and acknowledgements to them, and commits or rolls them back.

    :raises ProtocolError: from each method: the transaction does not exist, or is already open
    """

    def begin(self, name: str) -> None:
        """Begin a transaction."""
        if name in self._open:
            raise ProtocolError(f"The transaction was already started: {name[:80]}")
        self._begin(name)

    def acknowledge(self, name: str, consumer: StompConsumer, acked: Acked) -> None:
        """Add an acknowledgement; a rollback makes the deliveries unacknowledged again."""
        consumer.acked_in(name, acked)
        self._acknowledge(name, consumer, acked, [delivery for _, delivery in acked])

    def commit(self, name: str) -> Future[None]:
        """Commit; return a future that completes when the transaction is durable.

        :raises ProtocolError: also if a part of it was rejected; it is rolled back
        """
        transaction = self._find(name)
        del self._open[name]
        if transaction.failure is not None:
            _put_back(transaction)
            raise ProtocolError(
                f"The transaction {name[:80]} is rolled back, because a part of it was rejected:"
                f" {transaction.failure}"
            )
        for consumer, acked in transaction.acknowledged:
            consumer.settle(acked)
        return transaction.broker.commit()

    def rollback(self, name: str) -> None:
        """Drop the sends; the client may acknowledge the deliveries again."""
        transaction = self._find(name)
        del self._open[name]
        if transaction.failure is None:
            transaction.broker.rollback()
        _put_back(transaction)

    def check(self, name: str) -> None:
        """Raise an error if the transaction does not exist."""
        self._find(name)

    def _missing(self, name: str) -> ProtocolError:
        return ProtocolError(f"Invalid transaction id: {name[:80]}; BEGIN it first")


def _put_back(transaction: ClientTransaction[StompConsumer, Acked]) -> None:
    for consumer, acked in reversed(transaction.acknowledged):
        consumer.put_back(acked)
