"""The transactions of one OpenWire connection: local transactions, and branches of distributed ones."""

from __future__ import annotations

import asyncio
from asyncio import Future
from functools import partial
from typing import TypeVar

from jdbcstore.broker.engine import Engine
from jdbcstore.broker.loop import pass_on
from jdbcstore.broker.openwire.consumers import Numbered, OpenWireConsumer
from jdbcstore.broker.openwire.errors import BranchFailed, FromEarlierConnection
from jdbcstore.broker.transport.transactions import ClientTransaction, ClientTransactions, completed
from jdbcstore.errors import TransactionError, TransactionNotFound
from jdbcstore.message.ids import TransactionId, XATransactionId

_Result = TypeVar("_Result")


class OpenWireTransactions(ClientTransactions[TransactionId, OpenWireConsumer, Numbered]):
    """Begins transactions, adds sends and acknowledgements to them, and ends them.

    :raises TransactionError: from each method: there is no such transaction; the error of a branch has JTA's
        code
    """

    def __init__(self, broker: Engine, connection_id: str) -> None:
        super().__init__(broker, connection_id)
        self._prepared: dict[TransactionId, ClientTransaction[OpenWireConsumer, Numbered]] = {}
        """Transactions prepared by this connection; its consumers keep the deliveries until the end."""

    def begin(self, name: TransactionId) -> None:
        """Begin a transaction; do nothing if it is open, because a client repeats the command after a
        reconnect."""
        if name in self._open:
            return
        try:
            self._begin(name, name if isinstance(name, XATransactionId) else None)
        except TransactionError as error:
            raise _failure(name, error) from error

    def acknowledge(self, name: TransactionId, consumer: OpenWireConsumer, acked: Numbered) -> None:
        """Add an acknowledgement; the consumer keeps the deliveries until the commit."""
        self._acknowledge(name, consumer, acked, [*acked.values()])

    def commit(self, name: TransactionId) -> Future[None]:
        """Commit in one phase, or in the second one; return a future that completes when it is durable."""
        if name not in self._open and isinstance(name, XATransactionId):
            done = self._broker.commit_prepared(name)
            transaction = self._prepared.pop(name, None)
            if transaction is not None:
                done.add_done_callback(partial(_settle, transaction))
            return _translated(name, done)
        transaction = self._take(name)
        done = transaction.broker.commit()
        done.add_done_callback(partial(_settle, transaction))
        return _translated(name, done)

    def prepare(self, name: TransactionId) -> Future[bool]:
        """Prepare; return a future that completes when that is durable, with False if there was nothing to
        do."""
        transaction = self._take(name)
        done = transaction.broker.prepare()
        self._prepared[name] = transaction
        done.add_done_callback(partial(self._is_prepared, name))
        return _translated(name, done)

    def _is_prepared(self, name: TransactionId, done: Future[bool]) -> None:
        if done.cancelled() or done.exception() is not None or not done.result():
            self._prepared.pop(name, None)

    def _take(self, name: TransactionId) -> ClientTransaction[OpenWireConsumer, Numbered]:
        transaction = self._find(name)
        del self._open[name]
        if transaction.failure is not None:
            _check_connection(transaction.failure)
            refused = f"it is rolled back, because a part of it was rejected: {transaction.failure}"
            raise _failure(name, TransactionError(refused))
        return transaction

    def rollback(self, name: TransactionId) -> Future[None]:
        """Drop the sends. Acknowledged deliveries stay with the client, which consumes them again."""
        if name not in self._open and isinstance(name, XATransactionId):
            self._prepared.pop(name, None)
            return _translated(name, self._broker.rollback_prepared(name))
        transaction = self._find(name)
        del self._open[name]
        if transaction.failure is None:
            transaction.broker.rollback()
        else:
            _check_connection(transaction.failure)
        return completed()

    def _missing(self, name: TransactionId) -> TransactionError:
        error = TransactionNotFound(f"Transaction '{name}' has not been started; begin it first")
        return _failure(name, error)


def _settle(transaction: ClientTransaction[OpenWireConsumer, Numbered], done: Future[None]) -> None:
    if not done.cancelled() and done.exception() is None:
        for consumer, acked in transaction.acknowledged:
            consumer.settled(acked)


def _check_connection(failure: BaseException) -> None:
    """Raise a failure that ends the client's connection at the end of its transaction."""
    if isinstance(failure, FromEarlierConnection):
        raise failure


def _failure(name: TransactionId, error: TransactionError) -> TransactionError:
    return BranchFailed(name, error) if isinstance(name, XATransactionId) else error


def _translated(name: TransactionId, done: Future[_Result]) -> Future[_Result]:
    """Return the same future, with the errors of a branch in the form for JTA's clients."""
    if not isinstance(name, XATransactionId):
        return done
    result: Future[_Result] = asyncio.get_running_loop().create_future()

    def end(done: Future[_Result]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, TransactionError) and not result.cancelled():
            result.set_exception(BranchFailed(name, error))
        else:
            pass_on(result, done)

    done.add_done_callback(end)
    return result
