"""Entries: the messages in the broker's memory, the changes of their state, and their delivery order.

No other module changes an entry. The design has a diagram of its states. Only the cursor or consumer that has
an entry knows that it has it.
"""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import Any, Protocol

from jdbcstore.abc import MessageReference, Transaction
from jdbcstore.broker.api import MessageEventKind
from jdbcstore.broker.attempts import Key
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.events import MessageEvents
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture

MESSAGE_OVERHEAD = 1536
"""Approximate bytes of a message in memory in addition to its content."""
ENTRY_SIZE = 512
"""Approximate bytes of an entry without its message, including the state in its subscription."""
_sequence = attrgetter("sequence")


def size_of(message: Message) -> int:
    """Return the approximate bytes of a message in memory."""
    return message.memory_size + MESSAGE_OVERHEAD


class SharedMessage:
    """A message of many entries, whose memory is counted once while any of them is held.

    :param among: registry of stored messages in memory, by sequence
    """

    __slots__ = ("_among", "_references", "memory", "message", "sequence", "size")

    def __init__(
        self, message: Message, memory: MemoryUsage, sequence: int | None, among: dict[int, SharedMessage]
    ) -> None:
        self.message = message
        self.sequence = sequence
        self.size = size_of(message)
        self.memory = memory
        self._among = among
        self._references = 0

    def hold(self) -> None:
        self._references += 1
        if self._references == 1:
            self.memory.increase(self.size)
            if self.sequence is not None:
                self._among[self.sequence] = self

    def release(self) -> None:
        self._references -= 1
        if not self._references:
            if self.sequence is not None:
                self._among.pop(self.sequence, None)
            self.memory.decrease(self.size)


class EntrySource(Protocol):
    """The owner of entries: a queue, or one topic for one subscriber."""

    @property
    def destination(self) -> Destination:
        """The queue or topic, without wildcards."""

    @property
    def counters(self) -> Counters:
        """The counters of the queue or topic."""

    @property
    def counts_returned(self) -> bool:
        """Whether entries that return because a client disconnected count as rejected."""

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        """Remove consumed entries; completes when that is durable."""

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        """Add the acknowledgement to a store transaction; False if there is nothing to write."""

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        """Note that the staged acknowledgement has been committed."""

    def reject(self, entries: Sequence[Entry], cause: str | None) -> Future[None]:
        """Redeliver or dead-letter rejected entries."""

    def expire(self, entries: Sequence[Entry]) -> Future[None]:
        """Dead-letter or drop entries that expired with their consumer."""

    def retain(self, entries: Sequence[Entry]) -> None:
        """Deliver entries again after their acknowledgement, or their move to a dead letter queue, failed."""

    def give_back(self, entries: Sequence[Entry]) -> None:
        """Put entries without a consumer back in their places."""

    def delivered(self, entry: Entry) -> None:
        """Release the message from memory after a consumer has sent it on."""


@dataclass(eq=False, repr=False)
class PendingWrite:
    """The write of an entry that was dispatched before it was known to be stored."""

    done: Future[None]
    """Completes when ``stored`` and ``sequence`` of the entry are set; never fails."""
    _under_way: StoreFuture[MessageReference] | None = None
    _is_withdrawn: bool = False

    def withdraw(self) -> bool:
        """Cancel the write; False if it has begun."""
        if self._under_way is not None and not self._under_way.cancel():
            return False
        self._is_withdrawn = True
        return True

    def start(self, write: Callable[[], StoreFuture[MessageReference]]) -> StoreFuture[MessageReference]:
        if self._is_withdrawn:
            withdrawn: StoreFuture[MessageReference] = StoreFuture()
            withdrawn.cancel()
            return withdrawn
        self._under_way = write()
        return self._under_way


class Entry:
    """One message of one source; a :class:`jdbcstore.broker.api.Delivery`.

    ``sequence`` orders the entries of a cursor: the store's sequence if the entry is ``stored``, else a
    counter. ``shared`` is the message with its bytes if other entries have it too; ``returned`` is true if a
    consumer of this broker had it before. Only its methods change its attributes.
    """

    __slots__ = (
        *("is_marked", "is_unloaded", "message", "redelivered", "returned", "sequence"),
        *("shared", "size", "source", "stored", "writing"),
    )

    def __init__(
        self,
        message: Message,
        source: EntrySource,
        sequence: int,
        *,
        stored: bool,
        redelivered: bool = False,
        returned: bool = False,
        shared: SharedMessage | None = None,
    ) -> None:
        self.message = message
        self.source = source
        self.sequence = sequence
        self.stored = stored
        self.redelivered = redelivered
        self.returned = returned
        self.shared = shared
        self.size = size_of(message) if shared is None else ENTRY_SIZE
        self.is_unloaded = False
        """Whether the content was dropped from memory; a stored message is then only in the store."""
        self.is_marked = False
        """Whether it was marked as redelivered in the store since its delivery."""
        self.writing: PendingWrite | None = None
        """Its write to the store, if it was dispatched during that write."""

    @property
    def destination(self) -> Destination:
        return self.source.destination

    @property
    def key(self) -> Key:
        """The message among those whose failed attempts are known."""
        return self.source.destination, self.stored, self.sequence

    @property
    def whole_size(self) -> int:
        """Bytes of the entry with its message."""
        return self.size if self.shared is None else self.shared.size

    def unload(self, memory: MemoryUsage) -> None:
        """Drop the message from memory, except for the headers needed while a consumer has it."""
        memory.release([self])
        message = self.message
        self.message = Message(
            b"",
            destination=message.destination,
            priority=message.priority,
            persistent=message.persistent,
            expiration_ms=message.expiration_ms,
            redelivery_counter=message.redelivery_counter,
            sequence=message.sequence,
        )
        self.shared, self.size, self.is_unloaded = None, ENTRY_SIZE, True
        memory.hold(self)

    def reload(self, message: Message, memory: MemoryUsage) -> None:
        """Set the message, read from the store, after :meth:`unload`."""
        memory.release([self])
        self.message = message.replace(redelivery_counter=self.message.redelivery_counter)
        self.size, self.is_unloaded = size_of(self.message), False
        memory.hold(self)

    def begin_write(self, done: Future[None]) -> PendingWrite:
        """Record that its write has begun; ``done`` completes after :meth:`end_write`."""
        self.writing = PendingWrite(done)
        return self.writing

    def end_write(self, sequence: int | None) -> None:
        """Record the end of the write: the sequence in the store, or None if it is not stored."""
        self.writing = None
        if sequence is None:
            self.stored = False
        else:
            self.sequence = sequence

    def mark(self) -> None:
        """Record that it is marked as redelivered in the store, before it is delivered."""
        self.is_marked = True

    def begin_group(self) -> None:
        """Mark the message as the first of its group for a consumer."""
        self.message = self.message.replace(first_for_consumer=True)

    def return_unseen(self) -> None:
        """Record that a consumer had it, but did not look at it."""
        self.returned = True

    def redeliver(self, properties: Mapping[str, Any] | None = None) -> None:
        """Mark as redelivered, and count the redelivery.

        :param properties: added to the message, if it is in memory
        """
        message = self.message
        changes: dict[str, Any] = {"redelivery_counter": message.redelivery_counter + 1}
        if properties and not self.is_unloaded:
            changes["properties"] = {**message.properties, **properties}
        self.message = message.replace(**changes)
        self.redelivered = self.returned = True

    def move_to(self, source: EntrySource) -> None:
        """Move to another source of the same messages, for the subscription's next consumer."""
        self.source = source

    def __repr__(self) -> str:
        return f"<Entry {self.sequence} of {self.source.destination}>"


Wanted = Callable[[Entry], bool]
"""Returns whether an entry is wanted; called once for each, in order."""


@dataclass(eq=False, repr=False)
class TransientSource:
    """An :class:`EntrySource` of entries that are dropped when they are acknowledged, rejected or
    returned."""

    _loop: BrokerLoop
    destination: Destination
    memory: MemoryUsage
    counters: Counters

    @property
    def counts_returned(self) -> bool:
        return False

    def delivered(self, entry: Entry) -> None:
        entry.unload(self.memory)

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        self.acknowledged(entries)
        return self._loop.done()

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:  # noqa: ARG002
        return False

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        self.counters.dequeued += len(entries)
        self.memory.release(entries)

    def give_back(self, entries: Sequence[Entry]) -> None:
        self.memory.release(entries)

    def reject(self, entries: Sequence[Entry], cause: str | None) -> Future[None]:  # noqa: ARG002
        return self.acknowledge(entries)

    def expire(self, entries: Sequence[Entry]) -> Future[None]:
        self.counters.expired += len(entries)
        return self.acknowledge(entries)

    retain = give_back


def report_consumed(events: MessageEvents, source: EntrySource, entries: Sequence[Entry]) -> None:
    """Notify the observers of messages consumed from queues and by durable subscribers, as in ActiveMQ."""
    if not isinstance(source, TransientSource):
        messages = (entry.message for entry in entries)
        events.happened(MessageEventKind.CONSUMED, source.destination, messages)


class PriorityLanes:
    """Entries in delivery order: ten lanes, one per priority, or a single one; by sequence within a lane.

    Deques instead of a sorted list, because entries arrive in order and leave at the front.
    """

    __slots__ = ("_lanes", "count", "size")

    def __init__(self, lanes: int = 1) -> None:
        self._lanes: list[deque[Entry]] = [deque() for _ in range(lanes)]
        self.count = 0
        self.size = 0

    def lane_of(self, entry: Entry) -> int:
        return entry.message.priority if len(self._lanes) > 1 else 0

    def is_before(self, entry: Entry, other: Entry) -> bool:
        """Return whether ``one`` is delivered first."""
        lane, other_lane = self.lane_of(entry), self.lane_of(other)
        return lane > other_lane if lane != other_lane else entry.sequence < other.sequence

    def append(self, entry: Entry) -> None:
        """Add an entry at the end of its lane."""
        self._lanes[self.lane_of(entry)].append(entry)
        self.count += 1
        self.size += entry.size

    def insert(self, entries: Sequence[Entry]) -> None:
        """Add entries in their places, which are probably near the front."""
        ordered = sorted(entries, key=_sequence)
        for number, lane in enumerate(self._lanes):
            mine = [entry for entry in ordered if self.lane_of(entry) == number]
            if not mine:
                continue
            before: list[Entry] = []
            while lane and lane[0].sequence < mine[-1].sequence:
                before.append(lane.popleft())
            lane.extendleft(reversed(list(merge(before, mine, key=_sequence))))
        self.count += len(ordered)
        self.size += sum(entry.size for entry in ordered)

    def head(self) -> Entry | None:
        if self.count:
            for lane in reversed(self._lanes):
                if lane:
                    return lane[0]
        return None

    def pop(self) -> Entry:
        """Remove the head.

        :raises IndexError: there is none
        """
        for lane in reversed(self._lanes):
            if lane:
                entry = lane.popleft()
                self.count -= 1
                self.size -= entry.size
                return entry
        raise IndexError("no entry is waiting")

    def take(self, wanted: Wanted) -> list[Entry]:
        """Remove the wanted entries; return them in order."""
        taken = [entry for entry in self if wanted(entry)]
        if taken:
            gone = set(taken)
            self._lanes = [deque(entry for entry in lane if entry not in gone) for lane in self._lanes]
            self.count -= len(taken)
            self.size -= sum(entry.size for entry in taken)
        return taken

    def clear(self) -> None:
        for lane in self._lanes:
            lane.clear()
        self.count = self.size = 0

    def __iter__(self) -> Iterator[Entry]:
        for lane in reversed(self._lanes):
            yield from lane
