"""The transactions of one OpenWire connection: local ones, and branches of distributed ones."""

from __future__ import annotations

import asyncio
from asyncio import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from jdbcstore.broker.api import Broker, BrokerTransaction
from jdbcstore.broker.openwire.consumers import Numbered, OpenWireConsumer
from jdbcstore.broker.openwire.errors import BranchFailed
from jdbcstore.errors import ProtocolError, TransactionError, TransactionNotFound
from jdbcstore.message.ids import TransactionId, XATransactionId
from jdbcstore.message.message import Message

_Result = TypeVar("_Result")

_MAX_OPEN = 1000


@dataclass(eq=False, repr=False)
class _Open:
    """The broker's transaction, and the deliveries that it has acknowledged."""

    broker: BrokerTransaction
    acknowledged: list[tuple[OpenWireConsumer, Numbered]] = field(default_factory=list)
    failure: BaseException | None = None
    """Why it can only be rolled back, as the broker's already has been."""

    def settle(self) -> None:
        for consumer, keys in self.acknowledged:
            consumer.settled(keys)


class Transactions:
    """Begins transactions, adds sends and acknowledgements to them, and ends them.

    :raises TransactionError: from each method: there is no such transaction; a branch's has JTA's code
    """

    def __init__(self, broker: Broker, connection_id: str) -> None:
        self._broker = broker
        self._connection_id = connection_id
        self._open: dict[TransactionId, _Open] = {}
        self._prepared: dict[TransactionId, _Open] = {}
        """Those that this connection has prepared: its consumers keep the deliveries until the end."""

    def begin(self, name: TransactionId) -> None:
        """Begin it; does nothing if it is open, since a client that has reconnected repeats itself."""
        if name in self._open:
            return
        if len(self._open) >= _MAX_OPEN:
            raise ProtocolError(f"the connection has {_MAX_OPEN} open transactions, the maximum; end some")
        xid = name if isinstance(name, XATransactionId) else None
        try:
            self._open[name] = _Open(self._broker.begin(self._connection_id, xid))
        except TransactionError as error:
            raise _failure(name, error) from error

    def send(self, name: TransactionId, message: Message) -> Future[None]:
        """Completes when the connection may send more."""
        transaction = self._find(name)
        if transaction.failure is not None:
            return _done()
        done = transaction.broker.send(message)
        if not done.done() or done.exception() is not None:
            done.add_done_callback(partial(self._sent, transaction))
        return done

    def _sent(self, transaction: _Open, done: Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None and transaction in self._open.values():
            self._fail(transaction, error)

    def acknowledge(self, name: TransactionId, consumer: OpenWireConsumer, keys: Numbered) -> None:
        """Add an acknowledgement; the consumer keeps the deliveries until the commit."""
        transaction = self._find(name)
        transaction.acknowledged.append((consumer, keys))
        if transaction.failure is None:
            transaction.broker.acknowledge(consumer.subscription, [*keys.values()])

    def fail(self, name: TransactionId, error: BaseException) -> None:
        """Make a transaction, if it is open, one that can only be rolled back."""
        transaction = self._open.get(name)
        if transaction is not None:
            self._fail(transaction, error)

    def _fail(self, transaction: _Open, error: BaseException) -> None:
        if transaction.failure is None:
            transaction.failure = error
            transaction.broker.rollback()

    def commit(self, name: TransactionId) -> Future[None]:
        """Completes once it is durable, in one phase or as the second one."""
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
        """Completes once it is prepared; False if there was nothing to do."""
        transaction = self._take(name)
        done = transaction.broker.prepare()
        self._prepared[name] = transaction
        done.add_done_callback(partial(self._is_prepared, name))
        return _translated(name, done)

    def _is_prepared(self, name: TransactionId, done: Future[bool]) -> None:
        if done.cancelled() or done.exception() is not None or not done.result():
            self._prepared.pop(name, None)

    def _take(self, name: TransactionId) -> _Open:
        transaction = self._find(name)
        del self._open[name]
        if transaction.failure is not None:
            refused = f"it is rolled back, because a part of it was refused: {transaction.failure}"
            raise _failure(name, TransactionError(refused))
        return transaction

    def rollback(self, name: TransactionId) -> Future[None]:
        """The deliveries that it has acknowledged stay with the client, which consumes them again."""
        if name not in self._open and isinstance(name, XATransactionId):
            self._prepared.pop(name, None)
            return _translated(name, self._broker.rollback_prepared(name))
        transaction = self._find(name)
        del self._open[name]
        if transaction.failure is None:
            transaction.broker.rollback()
        return _done()

    def prepared(self) -> Future[list[XATransactionId]]:
        """The ids of all prepared transactions of the broker."""
        return self._broker.prepared()

    def rollback_all(self) -> None:
        for name in [*self._open]:
            self.rollback(name)

    def _find(self, name: TransactionId) -> _Open:
        try:
            return self._open[name]
        except KeyError:
            error = TransactionNotFound(f"Transaction '{name}' has not been started; begin it first")
            raise _failure(name, error) from None


def _done() -> Future[None]:
    done: Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


def _settle(transaction: _Open, done: Future[None]) -> None:
    if not done.cancelled() and done.exception() is None:
        transaction.settle()


def _failure(name: TransactionId, error: TransactionError) -> TransactionError:
    return BranchFailed(name, error) if isinstance(name, XATransactionId) else error


def _translated(name: TransactionId, done: Future[_Result]) -> Future[_Result]:
    """The same, with the errors of a branch as JTA's clients read them."""
    if not isinstance(name, XATransactionId):
        return done
    result: Future[_Result] = asyncio.get_running_loop().create_future()

    def end(done: Future[_Result]) -> None:
        if result.cancelled():
            return
        if done.cancelled():
            result.cancel()
            return
        error = done.exception()
        if isinstance(error, TransactionError):
            result.set_exception(BranchFailed(name, error))
        elif error is not None:
            result.set_exception(error)
        else:
            result.set_result(done.result())

    done.add_done_callback(end)
    return result
