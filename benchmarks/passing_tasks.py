"""The same as :mod:`benchmarks.passing`, with producers and consumers that are tasks of one event loop."""

from __future__ import annotations

import asyncio
import time

from benchmarks.ours import BODY
from benchmarks.passing import IN_FLIGHT
from jdbcstore import Message, Store


class PassingTasks:
    """Each producer awaits that its message is stored, each consumer that its message is acknowledged."""

    def __init__(self, store: Store) -> None:
        self._queue = store.queue("BENCHMARK")
        self._count = 0

    def rate(self, pairs: int, seconds: float) -> float:
        """Measure messages per second that were added, read and acknowledged by this many of each."""
        start = time.perf_counter()
        asyncio.run(self._run(pairs, start + seconds))
        return self._count / (time.perf_counter() - start)

    async def _run(self, pairs: int, end: float) -> None:
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._added = asyncio.Event()
        self._waiting: asyncio.Queue[Message] = asyncio.Queue()
        consumers = [asyncio.create_task(self._consume()) for _ in range(pairs)]
        reader = asyncio.create_task(self._read())
        await asyncio.gather(*(self._produce(end) for _ in range(pairs)))
        for _ in range(IN_FLIGHT):  # once all permits are taken, everything is acknowledged
            await self._room.acquire()
        for task in (reader, *consumers):
            task.cancel()
        await asyncio.gather(reader, *consumers, return_exceptions=True)

    async def _produce(self, end: float) -> None:
        while time.perf_counter() < end:
            await self._room.acquire()
            await self._queue.add_message_async(Message(BODY))
            self._added.set()

    async def _consume(self) -> None:
        while True:
            await self._queue.acknowledge_async(await self._waiting.get())
            self._room.release()
            self._count += 1

    async def _read(self) -> None:
        cursor = None
        while True:
            self._added.clear()
            page = await asyncio.to_thread(self._queue.recover, IN_FLIGHT, cursor)
            cursor = page.cursor
            for message in page:
                self._waiting.put_nowait(message)
            if not page:
                await self._added.wait()
