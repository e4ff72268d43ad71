"""Writes to the store from the broker's loop: order, batches per iteration, and completion.

The store completes futures on its own thread; their ends run on the loop, in the store's order.
"""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, Protocol

from jdbcstore.abc import MessageReference, Outcome, Store
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.cursors.store import InFlight
from jdbcstore.broker.entry import MESSAGE_OVERHEAD, Entry
from jdbcstore.broker.loop import BrokerLoop, complete
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.store_io.room import StorageRoom
from jdbcstore.errors import OutcomeUnknown, StorageFull, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.util.futures import End, LoopCalls, StoreFuture, Unsettled

_MAX_BATCH = 256
"""The most messages of one write, so that no message waits for a much longer write."""

Start = Callable[[], StoreFuture[Any]]


class StoreLine:
    """Passes writes to the store in order, without ever filling the store's own queue, which would block.

    Writes beyond the limits wait here. An unexpected error of an ``end`` is a defect.
    """

    def __init__(self, loop: BrokerLoop, max_count: int, max_bytes: int) -> None:
        self._arrivals = LoopCalls(loop.events)
        self._on_defect = loop.on_defect
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._count = 0
        self._bytes = 0
        self._deferred: deque[tuple[Start, int, End, int]] = deque()
        self._idle: Callable[[], None] | None = None
        self._last = 0
        """The number of the last submitted write."""
        self._unended: dict[int, None] = {}
        """The numbers of pending writes, in order."""
        self._behind: deque[tuple[int, Callable[[], None]]] = deque()
        """Callbacks that wait until all writes up to a number have ended."""

    def submit(self, start: Start, size: int, end: End, number: int = 0) -> None:
        """Call ``start`` when the limits allow, and ``end`` once its future is done.

        :param number: the number of a write that was deferred, and is allowed now
        """
        if not number:
            self._last = number = self._last + 1
            self._unended[number] = None
            if self._deferred or self._count >= self._max_count or self._bytes >= self._max_bytes:
                self._deferred.append((start, size, end, number))
                return
        try:
            future = start()
        except BaseException as error:
            del self._unended[number]
            if not isinstance(error, StoreError):
                raise
            end(None, error)
            return
        self._count += 1
        self._bytes += size
        future.call_when_done(self._arrivals, partial(self._ended, number, size, end))

    @property
    def pending(self) -> tuple[int, int]:
        """The number and the bytes of pending writes."""
        return (
            self._count + len(self._deferred),
            self._bytes + sum(size for _, size, _, _ in self._deferred),
        )

    @property
    def is_idle(self) -> bool:
        return not self._count and not self._deferred

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once, when no write is pending."""
        self._idle = callback
        self._check_idle()

    def when_written(self, callback: Callable[[], None]) -> None:
        """Call back once every earlier write has ended."""
        self._behind.append((self._last, callback))
        self._call_behind()

    def _call_behind(self) -> None:
        while self._behind and self._behind[0][0] < next(iter(self._unended), self._last + 1):
            self._behind.popleft()[1]()

    def _ended(self, number: int, size: int, end: End, result: Any, error: BaseException | None) -> None:
        self._count -= 1
        self._bytes -= size
        del self._unended[number]
        try:
            end(result, error)
        except Exception as defect:
            # Its caller is never notified; the ends of other writes still run.
            self._on_defect(defect)
        while self._deferred and self._count < self._max_count and self._bytes < self._max_bytes:
            try:
                self.submit(*self._deferred.popleft())
            except Exception as defect:
                self._on_defect(defect)
        if self._behind:
            self._call_behind()
        if self._idle is not None:
            self._check_idle()

    def _check_idle(self) -> None:
        if self.is_idle and self._idle is not None:
            callback, self._idle = self._idle, None
            callback()


class Receiver(Protocol):
    """A queue or topic that receives messages."""

    @property
    def destination(self) -> Destination: ...

    def arrive(self, message: Message, reference: MessageReference | None, connection_id: str) -> None:
        """Take a message that was committed with this reference, or is not stored."""

    def resync(self) -> None:
        """Read messages from the store that a write of unknown outcome may have committed."""


class PendingSend(NamedTuple):
    """A message to be stored, its destination, and the future of its send."""

    message: Message
    receiver: Receiver
    connection_id: str
    promise: Unsettled[None]
    size: int
    """The approximate bytes of its content."""


class _Commit(NamedTuple):
    ready: Future[None]
    submit: Callable[[], None]


@dataclass(eq=False, repr=False)
class Outbox:
    """Sends of one iteration of the loop, written together, in order with commits.

    Each send of a batch fails alone.
    """

    _loop: BrokerLoop
    store: Store
    line: StoreLine
    room: StorageRoom
    """The room for further messages."""
    committing: int = 0
    """The number of running commits of transactions."""
    _waiting: deque[PendingSend | _Commit] = field(default_factory=deque)
    _unwatched: int = 0
    """Bytes of messages since the room was last looked at."""

    def add(self, send: PendingSend) -> None:
        if not self._waiting:
            self._loop.schedule(self)
        self._waiting.append(send)

    @property
    def is_empty(self) -> bool:
        """Whether everything has been passed to the store."""
        return not self._waiting

    def commit(self, ready: Future[None], submit: Callable[[], None]) -> None:
        """Call ``submit`` after earlier sends and after ``ready``, which never fails.

        Later sends wait for it. The commit is running until :meth:`commit_ended` is called.
        """
        self.committing += 1
        self._submit_in_turn(ready, submit)

    def commit_ended(self) -> None:
        """Record that a running commit has succeeded or failed."""
        self.committing -= 1

    def _submit_in_turn(self, ready: Future[None], submit: Callable[[], None]) -> None:
        self._waiting.append(_Commit(ready, submit))
        self.turn()

    def written(self) -> Future[None]:
        """Return a future that completes when every earlier send and commit is written, or has failed."""
        done: Future[None] = self._loop.create_future()
        self._submit_in_turn(self._loop.done(), lambda: self.line.when_written(partial(complete, done, None)))
        return done

    def turn(self) -> None:
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            if isinstance(first, PendingSend):
                self._write()
            elif first.ready.done():
                waiting.popleft()
                first.submit()
            else:
                first.ready.add_done_callback(self._loop.guarded(lambda _: self.turn()))
                return

    def _write(self) -> None:
        """Write the sends before the next commit, up to the limit of one write."""
        batch: list[PendingSend] = []
        messages: list[Message] = []
        waiting, size = self._waiting, 0
        while waiting and len(batch) < _MAX_BATCH:
            first = waiting[0]
            if not isinstance(first, PendingSend):
                break
            batch.append(first)
            messages.append(first.message)
            size += first.size + MESSAGE_OVERHEAD
            waiting.popleft()
        self._unwatched += size
        if self._unwatched >= self.room.step:
            self.room.written(self._unwatched)
            self._unwatched = 0
        if self.room.refusal is not None:
            refusal = self.room.refuse(len(batch))
            for send in batch:
                complete(send.promise, refusal)
            return
        self.line.submit(partial(self.store.add_each_async, messages), size, partial(self._written, batch))

    def _written(
        self, batch: list[PendingSend], outcomes: list[Outcome] | None, error: BaseException | None
    ) -> None:
        for send, outcome in zip(batch, outcomes or repeat(error), strict=False):
            if isinstance(outcome, MessageReference):
                if not send.promise.done():
                    send.promise.set_result(None)  # the producer first, because it may also be the consumer
                send.receiver.arrive(send.message, outcome, send.connection_id)
            else:
                if isinstance(outcome, OutcomeUnknown):
                    send.receiver.resync()
                elif isinstance(outcome, StorageFull):
                    self.room.filled(outcome, 1)
                complete(send.promise, outcome)


class Acknowledgements:
    """Acknowledgements of one source, written together per iteration of the loop.

    Acknowledged entries use no memory. If their write fails, they are counted again and given back.

    :param write: begins the write of stored entries
    """

    def __init__(
        self,
        *,
        loop: BrokerLoop,
        line: StoreLine,
        memory: MemoryUsage,
        in_flight: InFlight,
        counters: Counters,
        write: Callable[[list[Entry]], StoreFuture[Any]],
        give_back: Callable[[Sequence[Entry]], None],
    ) -> None:
        self._loop, self._line = loop, line
        self._memory, self._in_flight, self._counters = memory, in_flight, counters
        self._write, self._give_back = write, give_back
        self.pending: list[Entry] = []
        self._promise: Future[None] | None = None
        """The future of pending acknowledgements, if a caller waits."""

    def add(self, entries: Sequence[Entry]) -> Future[None]:
        """Acknowledge entries; completes when that is durable. All calls of one iteration share a future."""
        if not self.add_unawaited(entries):
            return self._loop.done()
        if self._promise is None or self._promise.done():
            self._promise = self._loop.create_future()
        return self._promise

    def add_unawaited(self, entries: Sequence[Entry]) -> bool:
        """Acknowledge entries; return whether there is anything to write."""
        self._memory.release(entries)
        stored = [entry for entry in entries if entry.stored and entry.writing is None]
        self._counters.dequeued += len(entries) - len(stored)
        if stored:
            self.pending.extend(stored)
            self._loop.schedule(self)
        return bool(stored)

    def turn(self) -> None:
        """Write the collected acknowledgements."""
        entries, self.pending = self.pending, []
        promise, self._promise = self._promise, None
        self._line.submit(partial(self._write, entries), 0, partial(self._written, entries, promise))

    def _written(
        self, entries: list[Entry], promise: Future[None] | None, _: None, error: BaseException | None
    ) -> None:
        if error is None:
            self._counters.dequeued += len(entries)
            self._in_flight.removed(entries)
        else:
            for entry in entries:
                entry.redeliver()
                self._memory.hold(entry)
            self._give_back(entries)
        if promise is not None:
            complete(promise, error)

    def committed(self, entries: Sequence[Entry]) -> None:
        """Count acknowledgements that a transaction has committed, and forget their entries."""
        self._counters.dequeued += len(entries)
        self._memory.release(entries)
        self._in_flight.removed([entry for entry in entries if entry.stored])
