"""The contract between a broker and its store.

A :class:`Store` hands out one :class:`MessageStore` per queue, one :class:`TopicMessageStore` per
topic, and transactions over any of them. Every implementation keeps every promise written here,
and one conformance suite proves it of each.

**Durability.** When a blocking method returns, or a future completes, the change is committed.
When it raises, nothing of the call was written, except for
:class:`~jdbcstore.errors.OutcomeUnknown`, which says that this could not be found out.

**Order.** Messages get their store sequence (the ID column) in the order in which they commit. A
reader that has seen a sequence has seen every lower one that will ever be committed.

**Threads.** Every object here may be used from any number of threads. Futures complete on a thread
of the store's; a callback on one must not block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Protocol, Self, overload, runtime_checkable

from jdbcstore.errors import CorruptMessage, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId, XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture

Progress = Callable[[int], None]
"""Called now and then with the number of messages done since the last call."""


class MessageReference(NamedTuple):
    """Where a stored message is: its place in the store, and the name its producer gave it."""

    sequence: int
    message_id: MessageId


Outcome = MessageReference | StoreError
"""Of a message that was to be stored: where it is, or why it is not."""

Reference = Message | MessageReference | MessageId | int
"""What names a stored message: the message itself, what adding it returned, its id, or its sequence."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place between two messages in delivery order: the last sequence seen, one per priority.

    One position where the destination is not prioritised, else ten (index = priority).
    """

    positions: tuple[int, ...]


class Page(Sequence[Message]):
    """Some messages in delivery order, and where the next page starts.

    ``corrupt`` holds the rows between them that did not decode: they stay stored, and the page goes
    on behind them. ``at_end`` says that nothing more was stored when the page was read.
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
    """What a destination holds now. ``oldest_timestamp_ms`` is the JMS timestamp of its first message."""

    message_count: int
    message_bytes: int
    oldest_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """A durable subscription. ``subscribed_destination`` is the pattern behind a wildcard subscription.

    An empty selector is none, as JMS has it; Oracle could not tell them apart.
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
    """Whatever is read in pages: a queue, a topic, a durable subscription."""

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        """Up to ``limit`` unacknowledged messages in delivery order behind ``after``.

        Delivery order is by sequence, or by priority (9 first) and then sequence where the
        destination is prioritised. Recovering hides nothing: the same page comes again until its
        messages are acknowledged. Messages of prepared XA transactions are left out.
        """
        ...


def pages(source: Recoverable, limit: int = 500, after: Cursor | None = None) -> Iterator[Page]:
    """Every page of ``source``, one at a time in bounded memory, up to the end as it then is."""
    while True:
        page = source.recover(limit, after)
        yield page
        if page.at_end:
            return
        after = page.cursor


class MessageWriter(Protocol):
    """The writes that a destination takes, inside a transaction and outside."""

    @property
    def destination(self) -> Destination: ...

    def acknowledge(self, *messages: Reference) -> None:
        """Remove messages. One that is already gone is no error: acknowledging is idempotent."""
        ...

    def update_message(self, message: Message) -> None:
        """Store a message anew under its id, in its place; :class:`MessageNotFound` if it is gone."""
        ...


class MessageStore(MessageWriter, Recoverable, Protocol):
    """The messages of one destination."""

    @property
    def prioritized(self) -> bool:
        """Whether messages are delivered by priority; fixed when the destination is first used."""
        ...

    def add_message(self, message: Message) -> MessageReference:
        """Store a message durably; the message gets an id, this destination and a timestamp if it has none.

        With ``enable_audit``, a message id seen before is not stored again, and the reference has
        the sequence -1.

        :raises InvalidMessage: it cannot be stored (a name too long, beyond the packet limit)
        :raises StoreUnavailable: the database does not answer
        """
        ...

    def add_message_async(self, message: Message) -> StoreFuture[MessageReference]:
        """As :meth:`add_message`; blocks only while the store's queue of waiting work is full.

        The future, as that of every ``..._async``, can be cancelled until the write has begun. When its
        ``cancel`` returns True, nothing was written, and nothing will be. A task may await it.
        """
        ...

    def add_messages(self, messages: Iterable[Message]) -> list[MessageReference]:
        """Store many messages, all or none, with consecutive sequences."""
        ...

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        """As :meth:`acknowledge`, without waiting for the commit."""
        ...

    def get_message(self, message: MessageId | int) -> Message:
        """One message by its id or sequence; :class:`MessageNotFound` if it is not here."""
        ...

    def message_count(self) -> int:
        """How many messages a consumer could still get."""
        ...

    def statistics(self) -> Statistics: ...

    def remove_all_messages(self, progress: Progress | None = None) -> int:
        """Purge: remove every message, in bounded transactions; subscriptions stay. Returns how many.

        Messages added meanwhile stay.
        """
        ...

    def recover_expired(self, limit: int = 500, after: Cursor | None = None) -> Page:
        """Messages whose expiration has passed, by sequence, for a broker that handles them itself."""
        ...

    def remove_expired(self, progress: Progress | None = None) -> int:
        """Remove messages whose expiration has passed, in bounded transactions. Returns how many."""
        ...


class DurableSubscription(Recoverable, Protocol):
    """One durable subscription's view of its topic; acknowledges like a queue, in any order."""

    @property
    def info(self) -> SubscriptionInfo: ...

    def acknowledge(self, *messages: Reference) -> None:
        """This subscription has consumed the messages; idempotent, in any order."""
        ...

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        """As :meth:`acknowledge`, without waiting for the commit."""
        ...

    def message_count(self) -> int:
        """How many messages this subscription has not acknowledged; its selector is not applied."""
        ...


class TopicMessageStore(MessageStore, Protocol):
    """The messages of one topic, and its durable subscriptions.

    ``recover`` shows every stored message; ``acknowledge`` removes one for all subscriptions.
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
        """Create a durable subscription, or take up the existing one where it was left.

        A new one starts behind the last message stored, or with ``retroactive`` at the first one
        still stored. The selector is stored, not applied: that is the broker's part.

        :raises SubscriptionExists: it exists with another selector or destination
        """
        ...

    def subscription(self, client_id: str, subscription_name: str) -> DurableSubscription:
        """The existing subscription; :class:`SubscriptionNotFound` if there is none."""
        ...

    def subscriptions(self) -> list[SubscriptionInfo]: ...

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        """Delete the subscription and its acknowledgements; :class:`SubscriptionNotFound` if absent."""
        ...


class TransactionalStore(MessageWriter, Protocol):
    """A destination inside a transaction: writes are kept until the commit and checked as they come."""

    def add_message(self, message: Message) -> None:
        """Store this message when the transaction commits; its sequence is given then."""
        ...


class TransactionalTopic(TransactionalStore, Protocol):
    def acknowledge_subscription(self, client_id: str, subscription_name: str, *messages: Reference) -> None:
        """As :meth:`DurableSubscription.acknowledge`, when the transaction commits."""
        ...


class Transaction(Protocol):
    """A local transaction over any number of destinations: all of it commits, or nothing.

    As a context manager it commits at the end of the block, and rolls back when the block raises.
    """

    def queue(self, name: str | Destination) -> TransactionalStore: ...

    def topic(self, name: str | Destination) -> TransactionalTopic: ...

    def commit(self) -> list[MessageReference]:
        """Write everything in one database transaction; the added messages' references, in order."""
        ...

    def commit_async(self) -> StoreFuture[list[MessageReference]]:
        """As :meth:`commit`, without waiting."""
        ...

    def rollback(self) -> None:
        """Drop everything."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class PreparedWrites:
    """What a prepared XA transaction does in one place: to a destination, or for one subscription of it."""

    destination: Destination
    added: int = 0
    """Messages that its commit adds."""
    acknowledged: int = 0
    """Messages that its commit acknowledges."""
    client_id: str | None = None
    subscription_name: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """An XA transaction that is in doubt: prepared, and neither committed nor rolled back."""

    xid: XATransactionId
    writes: tuple[PreparedWrites, ...]


class XATransaction(Transaction, Protocol):
    """A branch of a distributed transaction that is not prepared yet; its messages carry its id.

    Its ``commit`` is JTA's in one phase. It takes no ``update_message``, and on a topic no
    ``acknowledge`` for all subscriptions: these are a :class:`TransactionError`.
    """

    @property
    def xid(self) -> XATransactionId: ...

    def prepare(self) -> bool:
        """The first phase: keep everything durably, and hide it until its outcome is known.

        Messages added are not seen; those acknowledged are not seen either, by nobody or by none of
        the subscription's consumers. The outcome is for :attr:`Store.xa`. False, JTA's XA_RDONLY:
        there was nothing to keep, and the transaction is over. When it raises, too.

        :raises TransactionError: a branch of this id is prepared already
        """
        ...


class XAResource(Protocol):
    """The part of a store in distributed transactions, under JTA's names.

    Prepared transactions are durable as messages are, and belong to nobody: any process may decide
    one, also of those that an ActiveMQ left in the tables. Until then nothing else touches what they
    hold: pages, counts, purges, expiry, cleanup and acknowledgements leave it out.
    """

    def start(self, xid: XATransactionId) -> XATransaction:
        """Begin a branch. Nothing is written before it is prepared or committed.

        :raises TransactionError: no column can hold this id
        """
        ...

    def recover(self) -> list[PreparedTransaction]:
        """Every transaction that is prepared, in the order of their ids."""
        ...

    def commit(self, xid: XATransactionId) -> None:
        """The second phase: do it all at once. Messages added get new sequences, behind all others.

        :raises TransactionNotFound: it is not prepared
        """
        ...

    def rollback(self, xid: XATransactionId) -> None:
        """Drop what was added, and give back what was acknowledged, in its place.

        :raises TransactionNotFound: it is not prepared
        """
        ...


class Store(Protocol):
    """Where a broker keeps its messages. A context manager that closes at the end of the block."""

    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> MessageStore:
        """The queue of this name; it need not exist yet.

        ``prioritized`` says whether messages are delivered by priority; without it, as the stored
        rows show, and else by sequence. It can be said only when the destination is first used.
        """
        ...

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> TopicMessageStore: ...

    def transaction(self) -> Transaction: ...

    @property
    def commits_in_order(self) -> bool:
        """Whether what is handed over behind a transaction's ``commit_async`` is written behind it."""
        ...

    def add_each_async(self, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
        """Store messages, each in its own destination and by itself, in their order; does not wait.

        They share commits, as those of many :meth:`MessageStore.add_message_async` do, at the cost of one.
        One that is refused fails alone, and what was handed over later does not overtake the others: the
        result has its error in its place. The future itself fails where the same befell all of them.
        """
        ...

    @property
    def xa(self) -> XAResource: ...

    def destinations(self) -> list[Destination]:
        """Every destination with a message or a durable subscription, sorted by qualified name."""
        ...

    def delete_destination(self, destination: Destination, progress: Progress | None = None) -> int:
        """Remove its messages, and for a topic its subscriptions. Returns how many messages went.

        What a prepared transaction holds stays, and so does a subscription for which it acknowledges.
        """
        ...

    def last_sequence(self) -> int:
        """The highest sequence given so far, 0 if none (ActiveMQ's last broker sequence id)."""
        ...

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int | None:
        """The highest producer sequence stored of this producer, for brokers that resume one."""
        ...

    def cleanup(self, progress: Progress | None = None) -> int:
        """Remove topic messages that every durable subscription has acknowledged. Returns how many.

        All priorities in one run, in bounded transactions between which other writers go on;
        a run that was interrupted is taken up by the next. Topics without a subscription are left.
        """
        ...

    def close(self, timeout: float | None = None) -> None:
        """Write what is waiting, then close. No operation is accepted any more.

        :raises StoreClosed: after ``timeout`` seconds; ``unwritten`` says how many operations were
            given up, and their futures have failed
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
