"""Messages in the broker's memory: entries, their delivery order and size, and producer flow control."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from jdbcstore.abc import MessageReference, Transaction
from jdbcstore.broker.api import MessageEventKind, Promise
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.events import MessageEvents
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.notices import Notices
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import DestinationFull
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture

if TYPE_CHECKING:
    from jdbcstore.broker.tracing import Tracing

log = logging.getLogger(__name__)

_OVERHEAD = 1536
"""Approximate bytes of a message in memory beside its content."""
ENTRY_SIZE = 512
"""Approximate bytes of an entry without its message, including what its subscription keeps of it."""
_sequence = attrgetter("sequence")


def size_of(message: Message) -> int:
    """The approximate bytes of a message in memory."""
    return message.memory_size + _OVERHEAD


@dataclass(eq=False, repr=False)
class MemoryUsage:
    """Estimated bytes in use, counted here and in the parent; the limits keep the broker small."""

    limit: int
    _: KW_ONLY
    high_water_mark: InitVar[int] = 70
    parent: MemoryUsage | None = None
    name: str = "memory_limit"
    """The option that sets the limit."""
    used: int = 0

    def __post_init__(self, high_water_mark: int) -> None:
        self._high = self.limit * high_water_mark // 100
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def is_high(self) -> bool:
        """Whether cursors should stop reading ahead."""
        return self.used >= self._high or (self.parent is not None and self.parent.is_high)

    @property
    def is_full(self) -> bool:
        """Whether producers should wait."""
        return self.used >= self.limit or (self.parent is not None and self.parent.is_full)

    @property
    def room(self) -> int:
        """Bytes left below the high-water mark."""
        own = max(self._high - self.used, 0)
        return own if self.parent is None else min(own, self.parent.room)

    @property
    def left(self) -> int:
        """Bytes left below the limit."""
        own = max(self.limit - self.used, 0)
        return own if self.parent is None else min(own, self.parent.left)

    @property
    def reached(self) -> str:
        """The name and value of the limit that makes this full, for log lines and errors."""
        if self.used < self.limit and self.parent is not None:
            return self.parent.reached
        return f"{self.name} of {self.limit} bytes"

    def hold(self, entry: Entry) -> None:
        """Count an entry; a message that several entries share counts once."""
        self.increase(entry.size)
        if entry.shared is not None:
            entry.shared.hold()

    def release(self, entries: Iterable[Entry]) -> None:
        """Stop counting entries."""
        size = 0
        for entry in entries:
            size += entry.size
            if entry.shared is not None:
                entry.shared.release()
        self.decrease(size)

    def increase(self, size: int) -> None:
        """Count this many more bytes, beyond the limit too."""
        self.used += size
        if self.parent is not None:
            self.parent.increase(size)

    def decrease(self, size: int) -> None:
        """Count this many fewer bytes, and notify those waiting for room."""
        self.used -= size
        if self._waiting and self.used < self.limit:
            waiting, self._waiting = self._waiting, {}
            for callback in waiting:
                callback()
        if self.parent is not None:
            self.parent.decrease(size)

    def set(self, size: int) -> None:
        """Count so many bytes, instead of those counted so far."""
        if size > self.used:
            self.increase(size - self.used)
        else:
            self.decrease(self.used - size)

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back once, when bytes are released and this, or the parent, is not full."""
        self._waiting[callback] = None
        if self.parent is not None:
            self.parent.when_room(callback)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Event loop, memory and temporary files of one broker, shared by all its destinations."""

    loop: BrokerLoop
    memory: MemoryUsage
    files: MemoryUsage
    """The bytes in temporary files."""
    stored: MemoryUsage | None = None
    """The bytes of stored messages, if the store has them in memory."""
    folder: Path | None = None
    """The folder of temporary files; None is the system's."""
    notices: Notices = field(default_factory=Notices)
    flows: dict[str, dict[FlowControl, None]] = field(default_factory=dict)
    """By connection: the flow controls that have blocked a send of it."""
    tracing: Tracing | None = None
    """Makes spans, if that is configured."""
    events: MessageEvents = field(default_factory=lambda: MessageEvents(lambda _: PolicyEntry()))
    """What happens to messages, for those who watch it."""

    @property
    def is_store_full(self) -> bool:
        """Whether nothing more should be stored, because that takes memory."""
        return self.stored is not None and self.stored.is_full

    def memory_of(self, policy: PolicyEntry) -> MemoryUsage:
        """The memory of a new destination, as part of the broker's."""
        return MemoryUsage(
            policy.memory_limit or self.memory.limit,
            high_water_mark=policy.cursor_memory_high_water_mark,
            parent=self.memory,
        )


class SharedMessage:
    """A message of many entries, whose memory is counted once, while any of them is held.

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


class Source(Protocol):
    """The owner of entries: a queue, or one topic for one subscriber."""

    @property
    def destination(self) -> Destination:
        """The queue or topic, without wildcards."""

    @property
    def counters(self) -> Counters:
        """Those of the queue or topic."""

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        """Remove consumed entries; completes once that is durable."""

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        """Add the acknowledgement to a store transaction; False if there is nothing to write."""

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        """The staged acknowledgement has been committed."""

    def reject(self, entries: Sequence[Entry], cause: str | None) -> Future[None]:
        """Redeliver or dead-letter entries that a consumer has rejected."""

    def expire(self, entries: Sequence[Entry]) -> Future[None]:
        """Dead-letter entries that have expired with their consumer, or drop them."""

    def retain(self, entries: Sequence[Entry]) -> None:
        """Deliver entries again whose acknowledgement, or move to a dead letter queue, has failed."""

    def give_back(self, entries: Sequence[Entry]) -> None:
        """Put entries that no consumer holds any more back in their places."""

    def delivered(self, entry: Entry) -> None:
        """A consumer has sent the message on and does not need it in memory."""


@dataclass(eq=False, repr=False)
class PendingWrite:
    """The write of an entry that was dispatched before it is known to be stored."""

    done: Future[None]
    """Never fails; then ``stored`` and ``sequence`` of the entry are set."""
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
    counter. ``holder`` is the subscription whose consumer has it, ``shared`` the message with its bytes if
    other entries have it too, and ``returned`` whether a consumer of this broker had it before.
    """

    __slots__ = (
        *("holder", "is_marked", "is_unloaded", "message", "redelivered", "returned", "sequence"),
        *("shared", "size", "source", "stored", "transaction", "writing"),
    )

    def __init__(
        self,
        message: Message,
        source: Source,
        sequence: int,
        *,
        stored: bool,
        redelivered: bool = False,
        shared: SharedMessage | None = None,
    ) -> None:
        self.message = message
        self.source = source
        self.sequence = sequence
        self.stored = stored
        self.redelivered = redelivered
        self.returned = False
        self.shared = shared
        self.size = size_of(message) if shared is None else ENTRY_SIZE
        self.is_unloaded = False
        """Whether the content was dropped from memory; only the store has it, if it is stored."""
        self.is_marked = False
        """Whether the store has it as redelivered since it was delivered."""
        self.holder: object | None = None
        self.writing: PendingWrite | None = None
        self.transaction: Any = None
        """The open transaction that acknowledges it."""

    @property
    def destination(self) -> Destination:
        return self.source.destination

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
        """Take the message, as read from the store, after :meth:`unload`."""
        memory.release([self])
        self.message = message.replace(redelivery_counter=self.message.redelivery_counter)
        self.size, self.is_unloaded = size_of(self.message), False
        memory.hold(self)

    def redeliver(self) -> None:
        """Mark as redelivered, and count the redelivery."""
        self.redelivered = self.returned = True
        self.message = self.message.replace(redelivery_counter=self.message.redelivery_counter + 1)

    def __repr__(self) -> str:
        return f"<Entry {self.sequence} of {self.source.destination}>"


Wanted = Callable[[Entry], bool]
"""Whether an entry is one of those looked for; called once for each, in order."""


@dataclass(eq=False, repr=False)
class TransientSource:
    """A :class:`Source` of entries that are gone once they are acknowledged, rejected or given back."""

    _loop: BrokerLoop
    destination: Destination
    memory: MemoryUsage
    counters: Counters

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


def report_consumed(events: MessageEvents, source: Source, entries: Sequence[Entry]) -> None:
    """Notify those who watch what is consumed: from queues, and by durable subscribers, as in ActiveMQ."""
    if not isinstance(source, TransientSource):
        messages = (entry.message for entry in entries)
        events.happened(MessageEventKind.CONSUMED, source.destination, messages)


def lanes_of(policy: PolicyEntry) -> int:
    """The number of lanes of a destination: one per priority, or a single one."""
    return 10 if policy.prioritized_messages else 1


class Lanes:
    """Entries in delivery order: ten lanes, one per priority, or a single one; by sequence within a lane.

    Deques instead of a sorted list: entries come in order and leave at the front.
    """

    __slots__ = ("_lanes", "count", "size")

    def __init__(self, lanes: int = 1) -> None:
        self._lanes: list[deque[Entry]] = [deque() for _ in range(lanes)]
        self.count = 0
        self.size = 0

    def lane_of(self, entry: Entry) -> int:
        return entry.message.priority if len(self._lanes) > 1 else 0

    def is_before(self, one: Entry, other: Entry) -> bool:
        """Whether ``one`` is delivered first."""
        lane, other_lane = self.lane_of(one), self.lane_of(other)
        return lane > other_lane if lane != other_lane else one.sequence < other.sequence

    def append(self, entry: Entry) -> None:
        """Add an entry at the end of its lane."""
        self._lanes[self.lane_of(entry)].append(entry)
        self.count += 1
        self.size += entry.size

    def insert(self, entries: Sequence[Entry]) -> None:
        """Add entries in their places, which are likely near the front."""
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
        """Remove the wanted entries; returns them in order."""
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


@dataclass(slots=True, eq=False)
class _BlockedSend:
    message: Message
    connection_id: str
    promise: Future[None]
    refusal: asyncio.TimerHandle | None = None
    is_dropped: bool = False


@dataclass(eq=False, repr=False)
class FlowControl:
    """Sends blocked until a cursor has room for their messages, in order.

    ``on_room`` is called when there may be room again; its callee then calls :meth:`take`.
    """

    _resources: Resources
    _destination: Destination
    _policy: PolicyEntry
    _memory: MemoryUsage
    _is_full: Callable[[], bool]
    _on_room: Callable[[], None]
    _who_is_full: Callable[[], str] = str
    _blocked: deque[_BlockedSend] = field(default_factory=deque)
    _warned: float = float("-inf")

    def __post_init__(self) -> None:
        self._loop, self._files = self._resources.loop, self._resources.files

    @property
    def must_wait(self) -> bool:
        """Whether the next send has to wait."""
        return bool(self._blocked) or (self._policy.producer_flow_control and self._is_full())

    def block(self, message: Message, connection_id: str) -> Future[None]:
        """Let a send wait; returns its future. The policy may refuse it at once, or after a while."""
        promise = Promise(loop=self._loop.events)
        for kind in (MessageEventKind.FULL, MessageEventKind.FAST_PRODUCER):
            self._resources.events.happened(kind, self._destination, [message], count=self._memory.used)
        if self._policy.send_fail_if_no_space:
            promise.set_exception(self._full())
            return promise
        blocked = _BlockedSend(message, connection_id, promise)
        timeout = self._policy.send_fail_if_no_space_after_timeout
        if timeout:
            blocked.refusal = self._loop.call_later(timeout, self._refuse, blocked)
        self._blocked.append(blocked)
        self._resources.flows.setdefault(connection_id, {})[self] = None
        self._when_room(self._on_room)
        self._warn()
        return promise

    @property
    def is_blocking(self) -> bool:
        """Whether any send waits."""
        return bool(self._blocked)

    def room(self) -> Future[None]:
        """Completes when there is room for a message."""
        if not (self._policy.producer_flow_control and self._is_full()):
            return self._loop.done()
        room: Future[None] = self._loop.create_future()
        self._settle_room(room)
        return room

    def _settle_room(self, room: Future[None]) -> None:
        if room.done():
            return
        if self._policy.producer_flow_control and self._is_full():
            self._when_room(partial(self._settle_room, room))
        else:
            room.set_result(None)

    def take(self) -> _BlockedSend | None:
        """Remove the next send for which there is room now."""
        while self._blocked and not self._is_full():
            blocked = self._blocked.popleft()
            if blocked.refusal is not None:
                blocked.refusal.cancel()
            if not blocked.promise.done():
                return blocked
        if self._blocked:
            self._when_room(self._on_room)
        return None

    def _when_room(self, callback: Callable[[], None]) -> None:
        self._memory.when_room(callback)
        self._files.when_room(callback)
        if self._resources.stored is not None:
            self._resources.stored.when_room(callback)

    def drop(self, connection_id: str) -> None:
        """Cancel the blocked sends of a closed connection."""
        for blocked in [one for one in self._blocked if one.connection_id == connection_id]:
            self._blocked.remove(blocked)
            blocked.is_dropped = True
            blocked.promise.cancel()

    def passed(self, connection_id: str) -> Future[None] | None:
        """Completes when no send of this connection is blocked any more; None if none is now.

        Cancelled if they are dropped.
        """
        last = next((one for one in reversed(self._blocked) if one.connection_id == connection_id), None)
        if last is None:
            return None
        passed: Future[None] = self._loop.create_future()

        def finish(_: Future[None]) -> None:
            if last.is_dropped:
                passed.cancel()
            elif not passed.done():
                passed.set_result(None)

        last.promise.add_done_callback(finish)
        return passed

    def _refuse(self, blocked: _BlockedSend) -> None:
        if blocked in self._blocked:
            self._blocked.remove(blocked)
            if not blocked.promise.done():
                blocked.promise.set_exception(self._full())

    @property
    def _reached(self) -> str:
        stored = self._resources.stored
        if stored is not None and stored.is_full and not self._memory.is_full:
            return stored.reached
        return (self._files if self._files.is_full else self._memory).reached

    def _full(self) -> DestinationFull:
        return DestinationFull(
            f"{self._destination} has no room: consume its messages, or raise {self._reached}"
        )

    def _warn(self) -> None:
        now = self._loop.events.time()
        if now - self._warned >= self._policy.blocked_producer_warning_interval:
            self._warned = now
            reached, subscriber = self._reached, self._who_is_full()
            log.warning(
                "%s: a producer waits%s: %s is reached",
                *(self._destination, f" for {subscriber}" if subscriber else "", reached),
                extra={"limit": reached, "destination": str(self._destination), "subscriber": subscriber},
            )
