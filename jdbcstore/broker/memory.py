"""The memory of the broker's messages: estimated bytes, their limits, and producer flow control."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jdbcstore.broker.api import MessageEventKind
from jdbcstore.broker.attempts import Attempts
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.events import MessageEvents
from jdbcstore.broker.loop import BrokerLoop, Promise
from jdbcstore.broker.notices import Notices
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import DestinationFull
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

if TYPE_CHECKING:
    from jdbcstore.broker.event_log import EventLog
    from jdbcstore.broker.tracing import Tracing

log = logging.getLogger(__name__)


class SharedSize(Protocol):
    """Content shared by several entries: counted once while any of them is held."""

    def hold(self) -> None: ...

    def release(self) -> None: ...


class Sized(Protocol):
    """An entry with a size in memory."""

    @property
    def size(self) -> int: ...

    @property
    def shared(self) -> SharedSize | None: ...


@dataclass(eq=False, repr=False)
class MemoryUsage:
    """Estimated bytes in use, counted here and in the parent, with limits."""

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
        usage: MemoryUsage | None = self
        while usage is not None:
            if usage.used >= usage._high:
                return True
            usage = usage.parent
        return False

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
        """The name and value of the reached limit, for log lines and errors."""
        if self.used < self.limit and self.parent is not None:
            return self.parent.reached
        return f"{self.name} of {self.limit} bytes"

    def hold(self, entry: Sized) -> None:
        """Count an entry; a message shared by several entries counts once."""
        usage: MemoryUsage | None = self
        while usage is not None:  # inlined from `increase`, because each message would call it
            usage.used += entry.size
            usage = usage.parent
        if entry.shared is not None:
            entry.shared.hold()

    def release(self, entries: Iterable[Sized]) -> None:
        """Stop counting entries."""
        size = 0
        for entry in entries:
            size += entry.size
            if entry.shared is not None:
                entry.shared.release()
        self.decrease(size)

    def increase(self, size: int) -> None:
        """Count more bytes, even beyond the limit."""
        usage: MemoryUsage | None = self
        while usage is not None:
            usage.used += size
            usage = usage.parent

    def decrease(self, size: int) -> None:
        """Count fewer bytes, and notify waiters for room."""
        self.used -= size
        if self._waiting and self.used < self.limit:
            waiting, self._waiting = self._waiting, {}
            for callback in waiting:
                callback()
        if self.parent is not None:
            self.parent.decrease(size)

    def set(self, size: int) -> None:
        """Set the number of bytes."""
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
    """The bytes of stored messages, if the store is in memory."""
    folder: Path | None = None
    """The folder of temporary files; None is the system's."""
    notices: Notices = field(default_factory=Notices)
    flows: dict[str, dict[FlowControl, None]] = field(default_factory=dict)
    """By connection: the flow controls that block one of its sends."""
    tracing: Tracing | None = None
    """Makes spans, if configured."""
    event_log: EventLog | None = None
    """Logs events, if configured."""
    attempts: Attempts = field(default_factory=Attempts)
    """The failed attempts to consume messages."""
    events: MessageEvents = field(default_factory=lambda: MessageEvents(lambda _: PolicyEntry()))
    """Message events for observers."""

    @property
    def is_store_full(self) -> bool:
        """Whether nothing more should be stored, because the store is in memory and full."""
        return self.stored is not None and self.stored.is_full


@dataclass(eq=False, repr=False)
class Account:
    """The common state of a destination's parts: its policy, its part of the broker's memory, and its
    counters."""

    resources: Resources
    destination: Destination
    policy: PolicyEntry

    def __post_init__(self) -> None:
        self.loop, self.counters = self.resources.loop, Counters()
        self.memory = MemoryUsage(
            self.policy.memory_limit or self.resources.memory.limit,
            high_water_mark=self.policy.cursor_memory_high_water_mark,
            parent=self.resources.memory,
        )
        self.lanes = 10 if self.policy.prioritized_messages else 1
        """One lane for each priority, or a single one."""


@dataclass(slots=True, eq=False)
class _BlockedSend:
    message: Message
    connection_id: str
    promise: Future[None]
    refusal: asyncio.TimerHandle | None = None
    is_dropped: bool = False


@dataclass(eq=False, repr=False)
class FlowControl:
    """Sends that wait until a cursor has room for their messages, in order.

    ``on_room`` is called when there may be room again, and then calls :meth:`take`.
    """

    _account: Account
    _is_full: Callable[[], bool]
    _on_room: Callable[[], None]
    _who_is_full: Callable[[], str] = str
    _blocked: deque[_BlockedSend] = field(default_factory=deque)
    _warned: float = float("-inf")

    def __post_init__(self) -> None:
        account = self._account
        self._resources, self._loop, self._memory = account.resources, account.loop, account.memory
        self._destination, self._policy, self._files = (
            account.destination,
            account.policy,
            account.resources.files,
        )

    @property
    def must_wait(self) -> bool:
        """Whether the next send must wait."""
        return bool(self._blocked) or (self._policy.producer_flow_control and self._is_full())

    def block(self, message: Message, connection_id: str) -> Future[None]:
        """Make a send wait; return its future. The policy may reject it immediately, or after a while."""
        promise = Promise(loop=self._loop.events)
        for kind in (MessageEventKind.FULL, MessageEventKind.FAST_PRODUCER):
            self._resources.events.happened(kind, self._destination, [message], count=self._memory.used)
        if self._policy.send_fail_if_no_space:
            promise.set_exception(self._full())
            return promise
        if self._policy.send_drop_if_no_space:
            self._warn("messages are dropped")
            promise.set_result(None)
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
        """Return a future that completes when there is room for a message."""
        policy = self._policy
        if not (policy.producer_flow_control and self._is_full()) or policy.send_drop_if_no_space:
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
        """Remove the next send, if there is room for it."""
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
        for blocked in [send for send in self._blocked if send.connection_id == connection_id]:
            self._blocked.remove(blocked)
            blocked.is_dropped = True
            blocked.promise.cancel()

    def passed(self, connection_id: str) -> Future[None] | None:
        """Return a future that completes when no send of this connection is blocked; None if none is blocked
        now.

        It is cancelled if the sends are dropped.
        """
        last = next((send for send in reversed(self._blocked) if send.connection_id == connection_id), None)
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

    def _warn(self, happens: str = "a producer waits") -> None:
        now = self._loop.events.time()
        if now - self._warned >= self._policy.blocked_producer_warning_interval:
            self._warned = now
            reached, subscriber = self._reached, self._who_is_full()
            log.warning(
                "%s: %s%s: %s is reached",
                *(self._destination, happens, f" for {subscriber}" if subscriber else "", reached),
                extra={"limit": reached, "destination": str(self._destination), "subscriber": subscriber},
            )
