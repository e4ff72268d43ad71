"""Claims for programs of asyncio: the same names, each awaited, over the same statements in a few threads.

Each call to the database runs to its end in a thread, also if its task is cancelled; the cancellation
continues afterwards. So claims are returned, and acknowledgements take effect.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from jdbcstore.config import StoreConfig
from jdbcstore.errors import StoreClosed
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.claims.claims import Claims
from jdbcstore.stores.claims.flow import QueueFlow
from jdbcstore.stores.claims.queue import SHORTEST_PAUSE, Claim, ClaimQueue
from jdbcstore.stores.jdbc.wakeups import WakeupPipe
from jdbcstore.util.shared_queues import FlowSettings, KeySettings

T = TypeVar("T")

_THREADS = 8
"""Calls to the database at the same time; waiting for messages takes none."""


class AsyncClaims:
    """:class:`~jdbcstore.stores.claims.Claims` for one event loop, with the same arguments.

    ``async with`` opens and closes them. A task that is cancelled is so once the call to the database that it
    waits for has ended, and what that has claimed is free again; if the call failed, its error is the
    ``__cause__`` of the CancelledError.
    """

    def __init__(self, url: str, config: StoreConfig | None = None, **options: Any) -> None:
        self._open = partial(Claims, url, config, **options)
        self._claims: Claims | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._queues: dict[Destination, AsyncClaimQueue] = {}
        self._waiting: tuple[_Waiter, ...] = ()
        self._pipe: WakeupPipe | None = None

    async def open(self) -> Self:
        """Open the claims.

        :raises ConfigurationError: the URL or an option cannot work, or this database cannot be shared so
        :raises StoreUnavailable: the database does not answer
        :raises SchemaError: the tables are missing and must not be created, or are not ActiveMQ's
        :raises JournalPending: a journal has records that are not in the tables yet
        :raises NotMaster: a broker or a store with a locker serves the same tables
        """
        self._executor = self._executor or ThreadPoolExecutor(_THREADS, "jdbcstore-async")
        try:
            self._claims = await self.run(self._open, undo=Claims.close)
        except BaseException:
            self._stop()
            raise
        return self

    @property
    def claims(self) -> Claims:
        """The claims that the threads use, for code that is not in the event loop.

        :raises StoreClosed: they are not open
        """
        if self._claims is None:
            raise _not_open()
        return self._claims

    def queue(self, name: str | Destination) -> AsyncClaimQueue:
        """Return the queue of a name, the same object each time.

        :raises InvalidDestination: it is not the name of a queue
        """
        queue = self.claims.queue(name)
        if queue.destination not in self._queues:
            self._queues[queue.destination] = AsyncClaimQueue(self, queue)
        return self._queues[queue.destination]

    async def flow(self) -> dict[str, FlowSettings]:
        """As :meth:`Claims.flow`.

        :raises StoreUnavailable: the database does not answer
        """
        return await self.run(self.claims.flow)

    async def check(self) -> None:
        """As :meth:`Claims.check`.

        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        :raises StoreUnavailable: the database does not answer
        """
        await self.run(self.claims.check)

    async def run(self, work: Callable[[], T], *, undo: Callable[[T], object] | None = None) -> T:
        """Do work in a thread. If the task is cancelled meanwhile, it is so at the end of the work.

        :param undo: undoes the work in that case, in a thread, too
        :raises StoreClosed: the claims are not open
        """
        if self._executor is None:
            raise _not_open()
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is None:
            return future.result()
        failure = future.exception()
        if failure is None and undo is not None:
            await self.run(partial(undo, future.result()))
        raise cancelled from failure

    async def woken(self, name: str, count: int, seconds: float) -> None:
        """Wait until there is more to wake for than ``count`` in a queue, at most so long."""
        wakeups = self.claims.database.wakeups
        if self._pipe is None:
            self._pipe = wakeups.watch(self._names)
            asyncio.get_running_loop().add_reader(self._pipe, self._ring)
        waiter = _Waiter(name, count, asyncio.Event())
        self._waiting = (*self._waiting, waiter)
        try:
            if wakeups.count(name)[0] == count:
                async with asyncio.timeout(seconds):
                    await waiter.event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting = tuple(other for other in self._waiting if other is not waiter)

    def _names(self) -> Iterable[str]:
        return [other.name for other in self._waiting]

    def _ring(self) -> None:
        if self._pipe is not None:
            self._pipe.clear()
        for waiter in self._waiting:
            if self._claims is None or self._claims.database.wakeups.count(waiter.name)[0] != waiter.seen:
                waiter.event.set()

    async def close(self) -> None:
        """Return the claims of this process to their places, and close its connections."""
        if self._claims is None:
            return
        claims, self._claims = self._claims, None
        self._queues.clear()
        if self._pipe is not None:
            asyncio.get_running_loop().remove_reader(self._pipe)
            claims.database.wakeups.unwatch(self._pipe)
            self._pipe = None
        self._ring()
        try:
            await self.run(claims.close)
        finally:
            self._stop()

    def _stop(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()


def _not_open() -> StoreClosed:
    return StoreClosed("the claims are not open: use them in async with, or await open()")


class _Waiter(NamedTuple):
    """A task that waits for messages of a queue."""

    name: str
    seen: int
    """The number of its wake-ups that it knows."""
    event: asyncio.Event


class AsyncClaimQueue:
    """A queue of :class:`AsyncClaims`: :class:`~jdbcstore.stores.claims.ClaimQueue`, awaited."""

    def __init__(self, owner: AsyncClaims, queue: ClaimQueue) -> None:
        self._owner = owner
        self._queue = queue
        self.destination = queue.destination
        """The queue."""
        self.flow = AsyncQueueFlow(owner, queue.flow)
        """Pause, limit and rate of the queue, for all processes."""

    async def add(self, *messages: Message, delay: float = 0.0) -> list[int]:
        """As :meth:`ClaimQueue.add`.

        :raises InvalidMessage: one does not fit the columns
        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        :raises StoreUnavailable: the database does not answer
        """
        return await self._owner.run(partial(self._queue.add, *messages, delay=delay))

    def wake(self) -> None:
        """As :meth:`ClaimQueue.wake`; it does not wait."""
        self._queue.wake()

    async def claim(self, limit: int = 1, *, wait: float = 0.0) -> list[Claim]:
        """As :meth:`ClaimQueue.claim`. No thread waits, and the claims of a cancelled call are returned.

        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        :raises StoreUnavailable: the database does not answer
        """
        deadline, pause = time.monotonic() + wait, SHORTEST_PAUSE
        while True:
            claims, count = await self._owner.run(partial(self._queue.try_claim, limit), undo=self._abandon)
            left = deadline - time.monotonic()
            if claims or left <= 0:
                return claims
            seconds = min(left, self._queue.seconds(pause))
            await self._owner.woken(self.destination.qualified_name, count, seconds)
            pause = self._queue.next_pause(pause, count)

    def _abandon(self, look: tuple[list[Claim], int]) -> None:
        self._queue.abandon(look[0])

    async def acknowledge(self, *claims: Claim) -> None:
        """As :meth:`ClaimQueue.acknowledge`.

        :raises ClaimLost: some are no longer this process's; nothing was removed
        :raises StoreUnavailable: the database does not answer; acknowledge again
        """
        await self._owner.run(partial(self._queue.acknowledge, *claims))

    async def release(self, *claims: Claim, delay: float = 0.0) -> None:
        """As :meth:`ClaimQueue.release`.

        :raises ClaimLost: some are no longer this process's; nothing was changed
        :raises OutcomeUnknown: they are returned as soon as the database answers; trying again is a
            :class:`ClaimLost`
        :raises StoreUnavailable: the database does not answer
        """
        await self._owner.run(partial(self._queue.release, *claims, delay=delay))

    async def reject(self, *claims: Claim, delay: float = 0.0) -> None:
        """As :meth:`ClaimQueue.reject`.

        :raises ClaimLost: some are no longer this process's; nothing was changed
        :raises OutcomeUnknown: they are returned as soon as the database answers; trying again is a
            :class:`ClaimLost`
        :raises StoreUnavailable: the database does not answer
        """
        await self._owner.run(partial(self._queue.reject, *claims, delay=delay))

    async def extend(self, *claims: Claim) -> None:
        """As :meth:`ClaimQueue.extend`.

        :raises ClaimLost: some are no longer this process's
        :raises StoreUnavailable: the database does not answer
        """
        await self._owner.run(partial(self._queue.extend, *claims))

    async def read(self, claim: Claim, reader: Callable[[Message], T]) -> T | None:
        """As :meth:`ClaimQueue.read`; the function runs in a thread.

        :raises StoreUnavailable: the database does not answer
        """
        return await self._owner.run(partial(self._queue.read, claim, reader))

    async def dead_letter(self, *claims: Claim, reason: str) -> None:
        """As :meth:`ClaimQueue.dead_letter`.

        :raises ClaimLost: some are no longer this process's; nothing was changed
        :raises StoreUnavailable: the database does not answer
        """
        await self._owner.run(partial(self._queue.dead_letter, *claims, reason=reason))

    async def count(self) -> tuple[int, int]:
        """As :meth:`ClaimQueue.count`."""
        return await self._owner.run(self._queue.count)

    async def purge(self) -> int:
        """As :meth:`ClaimQueue.purge`."""
        return await self._owner.run(self._queue.purge)

    def __repr__(self) -> str:
        return f"<AsyncClaimQueue {self.destination}>"


class AsyncQueueFlow:
    """The flow of a queue of :class:`AsyncClaims`: :class:`~jdbcstore.stores.claims.QueueFlow`, awaited."""

    def __init__(self, owner: AsyncClaims, flow: QueueFlow) -> None:
        self._run = owner.run
        self._flow = flow

    async def settings(self) -> FlowSettings:
        """As :meth:`QueueFlow.settings`."""
        return await self._run(self._flow.settings)

    async def pause(self) -> None:
        """As :meth:`QueueFlow.pause`."""
        await self._run(self._flow.pause)

    async def resume(self) -> None:
        """As :meth:`QueueFlow.resume`."""
        await self._run(self._flow.resume)

    async def limit(self, **limits: Any) -> None:
        """As :meth:`QueueFlow.limit`."""
        await self._run(partial(self._flow.limit, **limits))

    async def share(self, **limits: Any) -> None:
        """As :meth:`QueueFlow.share`."""
        await self._run(partial(self._flow.share, **limits))

    async def unshare(self) -> None:
        """As :meth:`QueueFlow.unshare`."""
        await self._run(self._flow.unshare)

    async def set_key(self, key: str, **settings: Any) -> None:
        """As :meth:`QueueFlow.set_key`."""
        await self._run(partial(self._flow.set_key, key, **settings))

    async def pause_key(self, key: str) -> None:
        """As :meth:`QueueFlow.pause_key`."""
        await self._run(partial(self._flow.pause_key, key))

    async def resume_key(self, key: str) -> None:
        """As :meth:`QueueFlow.resume_key`."""
        await self._run(partial(self._flow.resume_key, key))

    async def key_settings(self) -> dict[str, KeySettings]:
        """As :meth:`QueueFlow.key_settings`."""
        return await self._run(self._flow.key_settings)
