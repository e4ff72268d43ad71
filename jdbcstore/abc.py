"""The contract between a message broker and its store.

A :class:`Store` provides one :class:`MessageStore` per queue, one :class:`TopicMessageStore` per topic, and
transactions over any of them. Every implementation keeps every promise on this page; one contract test suite
runs against all of them.

**Durability.** When a blocking method returns, or a future completes, the change is committed. When it
raises, nothing was written; the only exception is :class:`~jdbcstore.errors.OutcomeUnknown`, after a commit
whose outcome could not be determined.

**Ordering.** Messages get their sequence (the ID column) in commit order: once a reader has seen a sequence,
no lower sequence will be committed later.

**Threads.** Any number of threads may use an object at the same time. A transaction is the exception: one
thread at a time. A future completes on a thread of the store or of another caller; its callbacks must not
block or wait for a write.

**Units.** Durations are seconds; times of messages are epoch milliseconds, with names that end in ``_ms``.

**Errors.** Every method may raise :class:`~jdbcstore.errors.StoreUnavailable` (nothing was written; retry),
:class:`~jdbcstore.errors.StoreClosed`, and in a store with a lock :class:`~jdbcstore.errors.LockLost` (open
    it again). Docstrings name the others. An ``..._async`` method raises errors of its arguments immediately;
    its future raises all others.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, overload, runtime_checkable

from jdbcstore.errors import CorruptMessage, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId, XATransactionId
from jdbcstore.message.inserted import InsertedMessage
from jdbcstore.message.message import Message
from jdbcstore.message.openwire.pieces import LargeBody
from jdbcstore.util.checkup import Checkup
from jdbcstore.util.futures import StoreFuture
from jdbcstore.util.stream_health import StreamHealth
from jdbcstore.util.timings import Timings

Progress = Callable[[int], None]
"""A callback that receives the number of messages processed since its last call."""


class MessageReference(NamedTuple):
    """The identity of a stored message."""

    sequence: int
    """Its position in the store, the ID column; -1 if it was a duplicate and not stored."""
    message_id: MessageId
    """JMSMessageID."""


Outcome = MessageReference | StoreError
"""The result of storing one message: its reference, or the error."""

Reference = Message | MessageReference | MessageId | int
"""A way to identify a stored message: the message, its reference, its message id, or its sequence."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position between two messages in delivery order."""

    positions: tuple[int, ...]
    """The last sequence read; with ``prioritized``, one for each priority from 0 to 9."""


class Page(Sequence[Message]):
    """Consecutive ``messages`` in delivery order.

    ``cursor`` is the start position of the next page. ``corrupt`` has an error for each row of the page that
    cannot be decoded; these rows are skipped, and stay stored. ``at_end`` is true if no more messages were
    stored when the page was read.
    """

    __slots__ = ("at_end", "corrupt", "cursor", "messages")

    def __init__(
        self,
        messages: Sequence[Message],
        cursor: Cursor,
        at_end: bool,
        corrupt: Sequence[CorruptMessage] = (),
    ) -> None:
        self.messages = tuple(messages)
        self.cursor = cursor
        self.at_end = at_end
        self.corrupt = tuple(corrupt)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self.messages[index]

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return f"<Page of {len(self)}, at_end={self.at_end}, corrupt={len(self.corrupt)}>"


@dataclass(frozen=True, slots=True)
class Statistics:
    """The size of a destination: ``message_count`` messages with ``message_bytes`` bytes in the MSG column.

    ``oldest_timestamp_ms`` is the JMSTimestamp of the first message, None if there is none.
    """

    message_count: int
    message_bytes: int
    oldest_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """A durable subscription, identified by ``client_id`` and ``subscription_name`` as in JMS.

    ``destination`` is its topic; ``subscribed_destination`` is the same topic, or the pattern of a wildcard
    subscription. An empty ``selector`` means none, as in JMS; Oracle cannot distinguish them.
    """

    client_id: str
    subscription_name: str
    destination: Destination
    subscribed_destination: Destination
    selector: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "selector", self.selector or None)


@runtime_checkable
class Recoverable(Protocol):
    """A source of messages to read in pages: a queue, a topic, a durable subscription."""

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        """Read up to ``limit`` unacknowledged messages in delivery order, after the cursor ``after``.

        Delivery order is by sequence, or by priority (9 first) and then sequence if the destination is
        prioritized. Reading does not hide messages: the same page is returned until its messages are
        acknowledged. Messages of prepared XA transactions are excluded.

        :raises ValueError: ``limit`` is not positive
        :raises SubscriptionNotFound: the durable subscription was deleted
        """


def pages(source: Recoverable, limit: int = 500, after: Cursor | None = None) -> Iterator[Page]:
    """Read ``source`` page by page in bounded memory, up to its current end."""
    while True:
        page = source.recover(limit, after)
        yield page
        if page.at_end:
            return
        after = page.cursor


class MessageWriter(Protocol):
    """The writes of a destination that are possible inside and outside of a transaction."""

    @property
    def destination(self) -> Destination:
        """The queue or topic."""

    def acknowledge(self, *messages: Reference) -> None:
        """Remove messages. Idempotent: a message that was already removed is not an error.

        :raises InvalidMessage: a message has neither a sequence nor an id
        """

    def update_message(self, message: Message) -> None:
        """Replace the stored message with the same sequence or message id; the sequence stays.

        :raises MessageNotFound: it was acknowledged
        :raises InvalidMessage: it cannot be stored, or has neither a sequence nor an id
        """


class MessageStore(MessageWriter, Recoverable, Protocol):
    """The messages of one destination."""

    @property
    def prioritized(self) -> bool:
        """Whether messages are delivered by priority; set when the destination is first used."""

    def add_message(self, message: Message) -> MessageReference:
        """Store a message durably in this destination; a different destination becomes its
        ``original_destination``.

        A message without a message id or timestamp gets them. With ``enable_audit``, a message with a known
        id is not stored again, and its reference has the sequence -1.

        :raises InvalidMessage: it cannot be stored: a name is too long, the packet limit is exceeded
        """

    def add_message_async(self, message: Message) -> StoreFuture[MessageReference]:
        """Add like :meth:`add_message`, without waiting for the commit; block only while the store's queue is
        full.

        The future of every ``..._async`` method can be awaited, and cancelled until the write has begun: if
        ``cancel`` returns True, nothing was or will be written.
        """

    def add_messages(self, messages: Iterable[Message]) -> list[MessageReference]:
        """Store messages atomically, with consecutive sequences; return the references in the same order.

        :raises InvalidMessage: one of them cannot be stored, so none is
        """

    def add_messages_async(self, messages: Iterable[Message]) -> StoreFuture[list[MessageReference]]:
        """Add like :meth:`add_messages`, without waiting for the commit.

        For many messages this costs much less than a future for each. The batch is one write: it is queued,
        committed and cancelled as a whole.
        """

    def add_each_async(self, messages: Iterable[Message]) -> StoreFuture[list[Outcome]]:
        """Add like :meth:`add_messages_async`, but not atomically: each message has its own outcome.

        The result has the error of each rejected message. The others are stored, in their order and before
        any later write. The future itself fails only if all messages fail with the same error.
        """

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        """Acknowledge like :meth:`acknowledge`, without waiting for the commit. One call is one write."""

    def get_message(self, message: MessageId | int) -> Message:
        """Read one message by its message id or sequence; it stays stored.

        :raises MessageNotFound: this destination does not have it
        :raises CorruptMessage: it cannot be decoded
        """

    def message_count(self) -> int:
        """Return the number of stored messages, including expired ones, without messages of prepared XA
        transactions."""

    def statistics(self) -> Statistics:
        """Return the number and size of the messages that :meth:`message_count` counts."""

    def remove_all_messages(self, progress: Progress | None = None) -> int:
        """Purge the destination, in transactions of limited size; return the number of removed messages.

        Messages added in the meantime stay, and so do durable subscriptions.
        """

    def recover_expired(self, limit: int = 500, after: Cursor | None = None) -> Page:
        """Recover expired messages only, by sequence, like :meth:`recover`, for a broker's expiry
        handling."""

    def remove_expired(self, progress: Progress | None = None) -> int:
        """Remove expired messages, in transactions of limited size; return their number."""


class DurableSubscription(Recoverable, Protocol):
    """The messages of a topic for one durable subscription.

    After its deletion every method raises :class:`~jdbcstore.errors.SubscriptionNotFound`.
    """

    @property
    def info(self) -> SubscriptionInfo:
        """Its names, topic and selector when it was opened."""

    def acknowledge(self, *messages: Reference) -> None:
        """Mark messages as consumed by this subscription. Idempotent, in any order.

        :raises InvalidMessage: a message has neither a sequence nor an id
        """

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        """Acknowledge like :meth:`acknowledge`, without waiting for the commit."""

    def message_count(self) -> int:
        """Return the number of unacknowledged messages, without applying the selector."""


class TopicMessageStore(MessageStore, Protocol):
    """The messages of one topic, and its durable subscriptions.

    ``recover`` reads every stored message, and ``acknowledge`` removes a message for all subscriptions.
    Messages that every subscription has acknowledged are removed by :meth:`Store.cleanup`.
    """

    def subscribe(
        self,
        client_id: str,
        subscription_name: str,
        *,
        selector: str | None = None,
        retroactive: bool = False,
        subscribed_destination: Destination | None = None,
    ) -> DurableSubscription:
        """Create a durable subscription, or resume the existing one where it was left.

        A new subscription starts after the last stored message, or with ``retroactive`` at the first message
        that is still stored. The selector is only stored; the broker applies it.

        :raises SubscriptionExists: it exists with another selector or destination
        :raises InvalidSubscription: the tables cannot hold a name or the selector
        :raises InvalidDestination: the tables cannot hold ``subscribed_destination``
        """

    def subscription(self, client_id: str, subscription_name: str) -> DurableSubscription:
        """Return the existing subscription.

        :raises SubscriptionNotFound: no subscription has these names
        """

    def subscriptions(self) -> list[SubscriptionInfo]:
        """Return every durable subscription of this topic."""

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        """Delete the subscription and its acknowledgements.

        :raises SubscriptionNotFound: no subscription has these names
        """


class TransactionalStore(MessageWriter, Protocol):
    """A destination inside a transaction: writes are validated immediately, and kept until the commit."""

    def add_message(self, message: Message) -> None:
        """Store the message when the transaction commits, which sets its sequence.

        :raises InvalidMessage: it cannot be stored
        """


class TransactionalTopic(TransactionalStore, Protocol):
    """A topic inside a transaction."""

    def acknowledge_subscription(self, client_id: str, subscription_name: str, *messages: Reference) -> None:
        """Acknowledge like :meth:`DurableSubscription.acknowledge`, when the transaction commits.

        :raises SubscriptionNotFound: no subscription has these names; also from the commit, if it was deleted
        """


class Transaction(Protocol):
    """A local transaction over any number of destinations, committed atomically; for one thread at a time.

    As a context manager it commits at the end of the block, and rolls back if the block raises. After its
    end, writes, ``commit`` and ``rollback`` raise :class:`~jdbcstore.errors.TransactionError`.
    """

    def queue(self, name: str | Destination) -> TransactionalStore:
        """Return the queue of this name, for writes in this transaction.

        :raises InvalidDestination: like :meth:`Store.queue`
        """

    def topic(self, name: str | Destination) -> TransactionalTopic:
        """Return the topic of this name, like :meth:`queue`."""

    def commit(self) -> list[MessageReference]:
        """Write everything in one database transaction; return the references of the added messages, in
        order.

        Whether this returns or raises, the transaction has ended.

        :raises TransactionError: it had ended before
        :raises SubscriptionNotFound: a subscription that it acknowledges for was deleted
        """

    def commit_async(self) -> StoreFuture[list[MessageReference]]:
        """Commit like :meth:`commit`, without waiting for it."""

    def rollback(self) -> None:
        """Discard all writes of the transaction.

        :raises TransactionError: it had ended before
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class PreparedWrites:
    """The writes of a prepared XA transaction to ``destination``, or for one durable subscription of it.

    ``client_id`` and ``subscription_name`` name the subscription; they are None for the destination itself.
    """

    destination: Destination
    added: int = 0
    """Number of messages that the commit adds."""
    acknowledged: int = 0
    """Number of messages that the commit acknowledges."""
    client_id: str | None = None
    subscription_name: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A prepared XA transaction: ``xid`` is neither committed nor rolled back yet.

    ``writes`` has one entry for each destination and subscription.
    """

    xid: XATransactionId
    writes: tuple[PreparedWrites, ...]


class XATransaction(Transaction, Protocol):
    """A branch of a distributed transaction, not prepared yet; its messages carry the branch's id.

    ``commit`` is JTA's one-phase commit. ``update_message``, and on a topic ``acknowledge`` for all
    subscriptions, raise :class:`~jdbcstore.errors.TransactionError`.
    """

    @property
    def xid(self) -> XATransactionId:
        """The id of the branch."""

    def prepare(self) -> bool:
        """Store the writes durably, phase one: hidden until the transaction is committed or rolled back.

        Neither added nor acknowledged messages are visible until then; messages acknowledged for a durable
        subscription are hidden from that subscription only. Complete the transaction with :attr:`Store.xa`.
        False is JTA's XA_RDONLY: there was nothing to write. In this case, or if this raises, the branch has
        ended.

        :raises TransactionError: a branch with this id is already prepared, or this one has ended
        :raises SubscriptionNotFound: a subscription that it acknowledges for was deleted
        """


class XAResource(Protocol):
    """A store as a resource manager of distributed transactions, with JTA's names.

    Prepared transactions are as durable as messages. Any process may complete one, also a transaction that
    ActiveMQ left in the tables. Until then pages, counts, purges, expiry, cleanup and acknowledgements
    exclude their messages.
    """

    def start(self, xid: XATransactionId) -> XATransaction:
        """Begin a branch. Nothing is written until it is prepared or committed.

        :raises TransactionError: this is not a valid XID, or the tables cannot hold it
        """

    def recover(self) -> list[PreparedTransaction]:
        """Return every prepared transaction, sorted by id."""

    def commit(self, xid: XATransactionId) -> None:
        """Commit atomically, phase two. Added messages get new sequences, after all others.

        :raises TransactionNotFound: it is not prepared
        """

    def rollback(self, xid: XATransactionId) -> None:
        """Discard the added messages, and restore the acknowledged ones at their position.

        :raises TransactionNotFound: it is not prepared
        """


class MasterAddress(NamedTuple):
    """An address of the process that is the master."""

    kind: str
    """``management``, the scheme of a connector, or ``name`` for the name of the process."""
    url: str
    """The URL, or the name if the kind is ``name``."""
    since_ms: int
    """The time when it was announced."""


@runtime_checkable
class Announcing(Protocol):
    """A store whose master can be found by other processes, such as JdbcStore."""

    def announce(self, addresses: Iterable[tuple[str, str]]) -> None:
        """Replace the addresses of the master by these kinds and URLs; only the master may.

        Addresses that are too long for the table are omitted.

        :raises LockLost: another process is the master
        """

    def announced(self) -> list[MasterAddress]:
        """Return the addresses of the last master, which may have ended since; sorted."""


class PausedQueue(NamedTuple):
    """A queue whose deliveries an administrator has paused."""

    queue: Destination
    user: str
    """The login or address of the administrator."""
    since_ms: int
    """The time when it was paused."""


@runtime_checkable
class Pausing(Protocol):
    """A store that remembers paused queues for the next master, such as JdbcStore."""

    def pause_queue(self, queue: Destination, user: str) -> None:
        """Remember that a queue is paused.

        :raises LockLost: another process is the master
        :raises StoreError: it cannot be stored
        """

    def resume_queue(self, queue: Destination) -> None:
        """Undo :meth:`pause_queue`; do nothing if the queue is not paused.

        :raises LockLost: another process is the master
        """

    def paused_queues(self) -> list[PausedQueue]:
        """Return the paused queues, the earliest first."""


@runtime_checkable
class InMemory(Protocol):
    """A store whose messages take the memory of its process, such as MemoryStore."""

    @property
    def memory_size(self) -> int:
        """The approximate bytes of all stored messages."""

    def watch_memory(self, changed: Callable[[], None] | None) -> None:
        """Call ``changed`` after each change of :attr:`memory_size`, in the thread that made it; None ends
        the calls."""


@runtime_checkable
class Measured(Protocol):
    """A store that measures its writes, such as JdbcStore."""

    @property
    def timings(self) -> Mapping[str, Timings]:
        """``commit``: database transactions and their rows; ``journal``: journal writes and their records."""


@runtime_checkable
class Examined(Protocol):
    """A store that can diagnose its database, such as JdbcStore."""

    def examine(self) -> Checkup:
        """Check the state of the database once, without writing a row.

        :raises StoreUnavailable: the database does not answer
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRecord:
    """A record of the removal of a message from its ``destination`` at ``removed_ms``."""

    removed_ms: int
    destination: Destination
    outcome: str
    """``acknowledged``, ``dead``, ``expired`` or ``purged``."""
    redeliveries: int | None
    """Its redeliveries; None if the message could not be decoded."""
    reason: str | None
    """The reason of a dead letter."""


@runtime_checkable
class Recorded(Protocol):
    """A store that may have records of removed messages, such as JdbcStore."""

    def removals(self, message: MessageId, since_ms: int | None = None) -> list[RemovalRecord]:
        """Return the recorded removals of a message, the earliest first.

        Records have no index for this, so only 20,000 are searched: the first since a time, or else the last.
        Records need ``history_retention``; without it the result is empty.

        :raises StoreUnavailable: the database does not answer
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """A journal, and its records that are not in the backing store yet."""

    directory: str
    first_record: int
    """The number of the first record in its files."""
    last_record: int
    applied: int
    """The number of the last record in the backing store."""
    segments: int
    """Its files."""
    pending_bytes: int
    """Bytes in memory that are not in the backing store yet."""
    memory_limit: int
    """The bytes at which writers wait for the backing store."""
    checkpoint_age: float
    """Seconds since the last checkpoint began."""
    failure: str | None
    """Reason of the last checkpoint's failure; None if it succeeded."""
    refused: int
    """Messages that the backing store rejected; they are kept in the journal's folder."""
    in_doubt: int
    """Prepared XA transactions in the journal."""


@runtime_checkable
class Checkpointed(Protocol):
    """A store with a journal in front of its backing store."""

    def checkpoint(self) -> None:
        """Write everything stored so far to the backing store.

        :raises StoreError: the backing store failed; the checkpoint is tried again in the background
        """

    def journal_state(self) -> JournalState:
        """Return the current state of the journal.

        :raises StoreError: its folder cannot be read
        """


@runtime_checkable
class Streamed(Protocol):
    """A store with journals that may be in streams."""

    def streams(self) -> list[StreamHealth]:
        """Return the current state of the streams from their servers; empty if there are no streams.

        It waits some seconds for servers that do not answer.

        :raises StoreClosed: the store is closed
        """


class LargeBodies(Protocol):
    """Bodies that a store keeps in pieces, so that no body is ever whole in memory. Thread-safe.

    Write a body first, then add a message with it to this store. The body is removed when no stored message
    and no reference in this process uses it any more.
    """

    def begin(self) -> LargeBody:
        """Return a new, empty body.

        :raises StoreError: its tables cannot be created
        """

    def add(self, body: LargeBody, piece: int, data: bytes) -> None:
        """Write a piece of a body; all pieces but the last have ``PIECE_SIZE`` bytes. Durable when this
        returns."""

    def read(self, body: LargeBody, piece: int) -> bytes:
        """Return a piece of a body.

        :raises LargeBodyMissing: this store does not have it
        """

    def pieces_of(self, message: Message) -> Iterator[bytes]:
        """Yield the pieces of a message's body as it was sent; nothing if the body is in the message itself.

        A string is its length in four bytes, then modified UTF-8, as in OpenWire.

        :raises LargeBodyMissing: this store does not have it
        """


@runtime_checkable
class KeepsLargeBodies(Protocol):
    """A store that can keep bodies in pieces, such as JdbcStore."""

    @property
    def large_bodies(self) -> LargeBodies:
        """The bodies that are kept in pieces."""


class WakeupSignal(Protocol):
    """A file descriptor that an event loop can read once there may be something new."""

    def fileno(self) -> int:
        """Return the file descriptor."""

    def clear(self) -> None:
        """Make it unreadable until the next signal."""


class InsertedMessages(Protocol):
    """The messages that SQL statements have inserted into JDBCSTORE_OUTBOX, for one mover."""

    def read(self, most: int, *, after_failure: bool = False) -> Sequence[InsertedMessage]:
        """Return the first rows that are committed, in order, as many as fit into memory.

        :param after_failure: wait until a commit whose outcome is unknown can no longer take effect
        :raises StoreUnavailable: the database does not answer
        """

    def message(self, row: InsertedMessage) -> Message:
        """Return the message of a row, with its destination.

        :raises InvalidMessage: a column has a wrong value
        :raises InvalidDestination: it does not name a destination, or a forbidden one
        """

    def transaction(self, rows: Sequence[InsertedMessage]) -> Transaction:
        """Begin a transaction that removes rows, and to which their messages are added."""

    def refuse(self, row: InsertedMessage, reason: str) -> None:
        """Set the error of a row, which is not read again.

        :raises StoreError: it was not set
        """

    def watch(self) -> WakeupSignal | None:
        """Return a signal of new rows, until :meth:`unwatch`; None if the database cannot notify."""

    def unwatch(self) -> None:
        """Undo :meth:`watch`."""


@runtime_checkable
class KeepsOutbox(Protocol):
    """A store that can have an outbox, such as JdbcStore."""

    @property
    def outbox(self) -> InsertedMessages | None:
        """The messages that SQL statements have inserted; None without the option."""


class Store(Protocol):
    """The durable storage of a broker's messages. As a context manager it closes at the end of the block."""

    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> MessageStore:
        """Return the queue of this name, which is created by its first message.

        ``prioritized`` selects delivery by priority. By default the stored rows decide; without rows,
        delivery is by sequence.

        :raises InvalidDestination: it is a topic or a composite, or the tables cannot hold the name
        :raises SchemaError: the destination is already used with another value of ``prioritized``
        """

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> TopicMessageStore:
        """Return the topic of this name, like :meth:`queue`."""

    def transaction(self) -> Transaction:
        """Begin a local transaction. Nothing is written until it is committed."""

    @property
    def commits_in_order(self) -> bool:
        """Whether writes submitted after a transaction's ``commit_async`` are committed after it."""

    def add_each_async(self, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
        """Add like :meth:`MessageStore.add_each_async`, each message to its own destination.

        The messages share commits, as with many calls of :meth:`MessageStore.add_message_async`, at the cost
        of one call. A message without a destination is rejected.
        """

    def use_loop(self, loop: AbstractEventLoop | None) -> None:
        """Perform writes that are submitted in an event loop's thread on that loop, until called with None.

        Call this in the thread of the loop. With PostgreSQL the loop then sends and receives for the store,
        so no other thread is woken. A future of such a write completes only while the loop runs, or when the
        store is closed or a blocking call writes to it; after the loop is closed, within seconds.
        """

    @property
    def xa(self) -> XAResource:
        """The XA transactions of this store."""

    def destinations(self) -> list[Destination]:
        """Return every destination with a message or a durable subscription, and every recorded queue.

        Sorted by qualified name.
        """

    def record_queue(self, name: str | Destination) -> None:
        """Keep a queue among :meth:`destinations` even while it is empty, until it is deleted.

        A broker that sends copies to each queue of a virtual topic finds it again after a restart.

        :raises InvalidDestination: as :meth:`queue`
        """

    def drop_record(self, queue: Destination) -> None:
        """Undo :meth:`record_queue`; messages stay."""

    def delete_destination(self, destination: Destination, progress: Progress | None = None) -> int:
        """Remove its messages, and the subscriptions of a topic; return the number of removed messages.

        Messages of prepared transactions stay, and so do subscriptions for which these transactions
        acknowledge.
        """

    def last_sequence(self) -> int:
        """Return the highest sequence assigned so far, 0 if none (ActiveMQ's last broker sequence id)."""

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int | None:
        """Return the highest stored sequence of this producer, for a broker that resumes it, or None."""

    def cleanup(self, progress: Progress | None = None) -> int:
        """Remove topic messages that every durable subscription has acknowledged; return their number.

        One run covers all priorities, in transactions of limited size, between which other writers proceed.
        The next run continues an interrupted one. Topics without a durable subscription are skipped.
        """

    def close(self, timeout: float | None = None) -> None:
        """Write all pending operations, then close. New operations are rejected from now on.

        :raises StoreClosed: ``timeout`` seconds were not enough; ``unwritten`` is the number of cancelled
            operations, whose futures have failed
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
