"""Transactions of every store, local and XA: writes are checked as they come, and kept until the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Generic, Protocol, Self, TypeVar

from jdbcstore.abc import MessageReference, PreparedTransaction, PreparedWrites, Reference
from jdbcstore.config.store import NameLengths
from jdbcstore.errors import TransactionError, TransactionNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture

W = TypeVar("W")
W_contra = TypeVar("W_contra", contravariant=True)


class BufferedDestination(Protocol[W_contra]):
    """A destination that can check a write now and add it to the writes of a transaction."""

    @property
    def destination(self) -> Destination: ...
    def add_in(self, writes: W_contra, message: Message) -> None: ...
    def acknowledge_in(self, writes: W_contra, messages: Sequence[Reference]) -> None: ...
    def update_in(self, writes: W_contra, message: Message) -> None: ...


class BufferedTopic(BufferedDestination[W_contra], Protocol[W_contra]):
    def acknowledge_for_in(
        self, writes: W_contra, client_id: str, subscription_name: str, messages: Sequence[Reference]
    ) -> None: ...


class BufferedStore(Protocol[W_contra]):
    def queue(self, name: str | Destination) -> BufferedDestination[W_contra]: ...
    def topic(self, name: str | Destination) -> BufferedTopic[W_contra]: ...


class TransactionWriter(Protocol[W_contra]):
    """Commits the writes of transactions, and waits for the commit or does not."""

    def execute(self, writes: W_contra, /) -> list[MessageReference]: ...
    def submit(self, writes: W_contra, /) -> StoreFuture[list[MessageReference]]: ...


class BufferedTransaction(Generic[W]):
    """A local transaction; see :class:`jdbcstore.abc.Transaction`. For one thread at a time.

    ``writes`` collects the writes of the store's destinations; a rollback calls ``discard`` with it, if
    given.
    """

    def __init__(
        self,
        store: BufferedStore[W],
        writes: W,
        writer: TransactionWriter[W],
        *,
        discard: Callable[[W], None] | None = None,
    ) -> None:
        self._store = store
        self._writes: W | None = writes
        self._writer = writer
        self._discard = discard
        self._last: tuple[str | Destination, BufferedTransactionQueue[W]] | None = None
        """The queue that was used last, by its name: mostly it is the next one, too."""

    def queue(self, name: str | Destination) -> BufferedTransactionQueue[W]:
        if self._last is not None and self._last[0] is name:
            return self._last[1]
        queue = self._new_queue(self._store.queue(name))
        self._last = name, queue
        return queue

    def topic(self, name: str | Destination) -> BufferedTransactionTopic[W]:
        return self._new_topic(self._store.topic(name))

    def _new_queue(self, store: BufferedDestination[W]) -> BufferedTransactionQueue[W]:
        return BufferedTransactionQueue(self, store)

    def _new_topic(self, store: BufferedTopic[W]) -> BufferedTransactionTopic[W]:
        return BufferedTransactionTopic(self, store)

    @property
    def writes(self) -> W:
        """The writes so far; :class:`TransactionError` if the transaction has ended."""
        if self._writes is None:
            raise TransactionError("this transaction has ended; begin another one")
        return self._writes

    def commit(self) -> list[MessageReference]:
        return self._writer.execute(self._end())

    def commit_async(self) -> StoreFuture[list[MessageReference]]:
        return self._writer.submit(self._end())

    def rollback(self) -> None:
        writes = self._end()
        if self._discard is not None:
            self._discard(writes)

    def _end(self) -> W:
        writes, self._writes = self.writes, None
        self._last = None  # it refers to this, and neither would be freed at once
        return writes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: object = None, *_: object) -> None:
        if self._writes is None:
            return
        if exc_type is None:
            self.commit()
        else:
            self.rollback()


class BufferedTransactionQueue(Generic[W]):
    """A queue inside a transaction; see :class:`jdbcstore.abc.TransactionalStore`."""

    def __init__(self, transaction: BufferedTransaction[W], store: BufferedDestination[W]) -> None:
        self._transaction = transaction
        self._store = store
        self.destination = store.destination

    def add_message(self, message: Message) -> None:
        self._store.add_in(self._transaction.writes, message)

    def acknowledge(self, *messages: Reference) -> None:
        self._store.acknowledge_in(self._transaction.writes, messages)

    def update_message(self, message: Message) -> None:
        self._store.update_in(self._transaction.writes, message)


class BufferedTransactionTopic(BufferedTransactionQueue[W]):
    """A topic inside a transaction; see :class:`jdbcstore.abc.BufferedTransactionTopic`."""

    _store: BufferedTopic[W]

    def acknowledge_subscription(self, client_id: str, subscription_name: str, *messages: Reference) -> None:
        self._store.acknowledge_for_in(self._transaction.writes, client_id, subscription_name, messages)


class BufferedXATransaction(BufferedTransaction[W]):
    """A branch of a distributed transaction; see :class:`jdbcstore.abc.XATransaction`."""

    def __init__(
        self,
        store: BufferedStore[W],
        writes: W,
        writer: TransactionWriter[W],
        *,
        xid: XATransactionId,
        prepare: Callable[[XATransactionId, W], bool],
        discard: Callable[[W], None] | None = None,
    ) -> None:
        super().__init__(store, writes, writer, discard=discard)
        self.xid = xid
        self._prepare = prepare

    def _new_queue(self, store: BufferedDestination[W]) -> BufferedTransactionQueue[W]:
        return _XAQueue(self, store)

    def _new_topic(self, store: BufferedTopic[W]) -> BufferedTransactionTopic[W]:
        return _XATopic(self, store)

    def prepare(self) -> bool:
        return self._prepare(self.xid, self._end())


class _XAQueue(BufferedTransactionQueue[W]):
    _transaction: BufferedXATransaction[W]

    def add_message(self, message: Message) -> None:
        super().add_message(message.replace(transaction_id=self._transaction.xid))

    def update_message(self, message: Message) -> None:  # noqa: ARG002
        # It could not be kept until the outcome is known.
        raise TransactionError(
            "an XA transaction adds and acknowledges; update the message outside it, or in a local"
            " transaction"
        )


class _XATopic(_XAQueue[W], BufferedTransactionTopic[W]):
    def acknowledge(self, *messages: Reference) -> None:  # noqa: ARG002
        # A rollback could not return the message to all subscriptions.
        raise TransactionError(
            "an XA transaction acknowledges a topic's message for one subscription; use"
            " acknowledge_subscription"
        )


def check_xid(xid: XATransactionId, lengths: NameLengths) -> None:
    """Check that the XID columns can hold an XID.

    :raises TransactionError: they cannot, or it is not an XID
    """
    globally, branch = xid.global_transaction_id, xid.branch_qualifier
    if not (1 <= len(globally) <= 64 and len(branch) <= 64 and -(1 << 31) <= xid.format_id < 1 << 31):
        raise TransactionError(
            f"{xid} is not an XID: it has a format id of 32 bits, a global transaction id of 1 to 64 bytes"
            " and a branch qualifier of at most 64"
        )
    # Base64 of 16 bytes more.
    if 4 * ((16 + len(globally) + len(branch) + 2) // 3) > lengths.string_id:
        raise TransactionError(
            f"{xid} does not fit the XID columns, which hold {lengths.string_id} characters;"
            " choose shorter ids"
        )


def prepared_transactions(
    writes: Iterable[tuple[XATransactionId, PreparedWrites]],
) -> list[PreparedTransaction]:
    """Return the prepared transactions of these writes, ordered by XID, one entry for each place."""
    transactions: dict[XATransactionId, dict[tuple[bool, str, str, str], PreparedWrites]] = {}
    for xid, write in writes:
        places = transactions.setdefault(xid, {})
        client_id, name = write.client_id or "", write.subscription_name or ""
        place = bool(client_id), str(write.destination), client_id, name
        so_far = places.get(place)
        if so_far is not None:
            added, acknowledged = so_far.added + write.added, so_far.acknowledged + write.acknowledged
            write = replace(write, added=added, acknowledged=acknowledged)
        places[place] = write
    return [
        PreparedTransaction(xid, tuple(places[place] for place in sorted(places)))
        for xid, places in sorted(transactions.items())
    ]


def prepared_before(xid: XATransactionId) -> TransactionError:
    return TransactionError(f"{xid} is prepared already; commit it or roll it back")


def not_prepared(xid: XATransactionId) -> TransactionNotFound:
    return TransactionNotFound(
        f"{xid} is not prepared: it has been committed or rolled back, or it never was"
    )
