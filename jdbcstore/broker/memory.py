"""How much memory messages take, and who waits until there is room for more."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jdbcstore.broker.api import Promise
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import DestinationFull
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

if TYPE_CHECKING:
    from jdbcstore.broker.entry import Entry
    from jdbcstore.broker.parts import Parts

log = logging.getLogger(__name__)


class MemoryUsage:
    """Bytes in use, here and in the parent; estimates, for the limits that keep a broker small.

    :param name: what the limit is called where it is set
    """

    __slots__ = ("_high", "_parent", "_waiting", "limit", "name", "used")

    def __init__(
        self,
        limit: int,
        *,
        high_water_mark: int = 70,
        parent: MemoryUsage | None = None,
        name: str = "memory_limit",
    ) -> None:
        self.limit = limit
        self.name = name
        self._high = limit * high_water_mark // 100
        self._parent = parent
        self.used = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def is_high(self) -> bool:
        """Whether cursors should read no further."""
        return self.used >= self._high or (self._parent is not None and self._parent.is_high)

    @property
    def is_full(self) -> bool:
        """Whether producers should wait."""
        return self.used >= self.limit or (self._parent is not None and self._parent.is_full)

    @property
    def room(self) -> int:
        """Bytes until it is high; 0 if it is."""
        own = max(self._high - self.used, 0)
        return own if self._parent is None else min(own, self._parent.room)

    @property
    def reached(self) -> str:
        """The limit that makes it full, for whoever can raise it."""
        if self.used < self.limit and self._parent is not None:
            return self._parent.reached
        return f"{self.name} of {self.limit} bytes"

    def hold(self, entry: Entry) -> None:
        """Use what an entry takes; a message that others have too counts once."""
        self.take(entry.size)
        if entry.shared is not None:
            entry.shared.hold()

    def let_go(self, entries: Iterable[Entry]) -> None:
        """Use what these took no more."""
        size = 0
        for entry in entries:
            size += entry.size
            if entry.shared is not None:
                entry.shared.let_go()
        self.release(size)

    def take(self, size: int) -> None:
        """Use that much more; never refused."""
        self.used += size
        if self._parent is not None:
            self._parent.take(size)

    def release(self, size: int) -> None:
        """Use that much less."""
        self.used -= size
        if self._waiting and self.used < self.limit:
            waiting, self._waiting = self._waiting, {}
            for callback in waiting:
                callback()
        if self._parent is not None:
            self._parent.release(size)

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back once, when something is released and this is not full, or the parent is not."""
        self._waiting[callback] = None
        if self._parent is not None:
            self._parent.when_room(callback)


@dataclass(slots=True, eq=False)
class Held:
    """A message that waits, and its sender."""

    message: Message
    connection_id: str
    promise: Future[None]
    refusal: asyncio.TimerHandle | None = None
    is_dropped: bool = False


class FlowControl:
    """Messages that wait until a cursor has room for them, in the order of their sends."""

    def __init__(
        self,
        parts: Parts,
        destination: Destination,
        policy: PolicyEntry,
        memory: MemoryUsage,
        is_full: Callable[[], bool],
        on_room: Callable[[], None],
        who_is_full: Callable[[], str] = str,
    ) -> None:
        self._loop = parts.loop
        self._flows, self._files = parts.flows, parts.files
        self._who_is_full = who_is_full
        self._destination = destination
        self._policy = policy
        self._memory = memory
        self._is_full = is_full
        self._on_room = on_room
        self._held: deque[Held] = deque()
        self._warned = float("-inf")

    @property
    def must_wait(self) -> bool:
        """Whether the next message has to wait."""
        return bool(self._held) or (self._policy.producer_flow_control and self._is_full())

    def hold(self, message: Message, connection_id: str) -> Future[None]:
        """Let it wait; the future is that of its send. Refused at once, or later, as the policy says."""
        promise = Promise(loop=self._loop)
        if self._policy.send_fail_if_no_space:
            promise.set_exception(self._full())
            return promise
        held = Held(message, connection_id, promise)
        patience = self._policy.send_fail_if_no_space_after_timeout
        if patience:
            held.refusal = self._loop.call_later(patience, self._refuse, held)
        self._held.append(held)
        self._flows.setdefault(connection_id, {})[self] = None
        self._when_room(self._on_room)
        self._warn()
        return promise

    @property
    def is_holding(self) -> bool:
        """Whether anything waits."""
        return bool(self._held)

    def room(self) -> Future[None]:
        """Done when there is room for a message."""
        room: Future[None] = self._loop.create_future()
        self._tell_room(room)
        return room

    def _tell_room(self, room: Future[None]) -> None:
        if room.done():
            return
        if self._policy.producer_flow_control and self._is_full():
            self._when_room(partial(self._tell_room, room))
        else:
            room.set_result(None)

    def take(self) -> Held | None:
        """The next that may come in now."""
        while self._held and not self._is_full():
            held = self._held.popleft()
            if held.refusal is not None:
                held.refusal.cancel()
            if not held.promise.done():
                return held
        if self._held:
            self._when_room(self._on_room)
        return None

    def _when_room(self, callback: Callable[[], None]) -> None:
        self._memory.when_room(callback)
        self._files.when_room(callback)

    def drop(self, connection_id: str) -> None:
        """A connection is gone: what it could not send is not sent."""
        for held in [held for held in self._held if held.connection_id == connection_id]:
            self._held.remove(held)
            held.is_dropped = True
            held.promise.cancel()

    def passed(self, connection_id: str) -> Future[None] | None:
        """Done when nothing that this connection has sent waits here any more; None if nothing does.

        Cancelled when it was dropped.
        """
        last = next((held for held in reversed(self._held) if held.connection_id == connection_id), None)
        if last is None:
            return None
        passed: Future[None] = self._loop.create_future()

        def tell(_: Future[None]) -> None:
            if last.is_dropped:
                passed.cancel()
            elif not passed.done():
                passed.set_result(None)

        last.promise.add_done_callback(tell)
        return passed

    def _refuse(self, held: Held) -> None:
        if held in self._held:
            self._held.remove(held)
            if not held.promise.done():
                held.promise.set_exception(self._full())

    def _full(self) -> DestinationFull:
        return DestinationFull(
            f"{self._destination} has no room: consume its messages, or raise"
            f" {(self._files if self._files.is_full else self._memory).reached}"
        )

    def _warn(self) -> None:
        now = self._loop.time()
        if now - self._warned >= self._policy.blocked_producer_warning_interval:
            self._warned = now
            reached = (self._files if self._files.is_full else self._memory).reached
            who = self._who_is_full()
            log.warning(
                "%s: a producer waits%s: %s is reached",
                *(self._destination, f" for {who}" if who else "", reached),
                extra={"limit": reached, "destination": str(self._destination), "subscriber": who},
            )
