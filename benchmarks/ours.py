"""The store's own figures: 1 KB bodies, real OpenWire encoding, all of ActiveMQ's indexes."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from jdbcstore import Message, MessageReference, Store

BODY = os.urandom(1024)
SECONDS = 3.0


def blocking(store: Store, threads: int, seconds: float = SECONDS) -> float:
    """Measure adds per second of this many threads, each waiting for each commit."""
    queue = store.queue("BENCHMARK")
    counts = [0] * threads
    end = time.perf_counter() + seconds

    def produce(number: int) -> None:
        while time.perf_counter() < end:
            queue.add_message(Message(BODY))
            counts[number] += 1

    return timed(lambda: run([partial(produce, number) for number in range(threads)]), lambda: sum(counts))


def futures(store: Store, window: int, seconds: float = SECONDS) -> float:
    """Measure adds per second of one thread with this many futures in flight."""
    queue = store.queue("BENCHMARK")
    waiting: deque[Future[MessageReference]] = deque()
    count = 0

    def produce() -> None:
        nonlocal count
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for _ in range(100):
                if len(waiting) >= window:
                    waiting.popleft().result()
                waiting.append(queue.add_message_async(Message(BODY)))
                count += 1
        while waiting:
            waiting.popleft().result()

    return timed(produce, lambda: count)


def batches(store: Store, size: int, window: int, seconds: float = SECONDS) -> float:
    """Measure adds per second of one thread with this many messages in flight, a future per batch."""
    queue = store.queue("BENCHMARK")
    waiting: deque[Future[list[MessageReference]]] = deque()
    count = 0

    def produce() -> None:
        nonlocal count
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            if len(waiting) >= window // size:
                waiting.popleft().result()
            waiting.append(queue.add_messages_async([Message(BODY) for _ in range(size)]))
            count += size
        while waiting:
            waiting.popleft().result()

    return timed(produce, lambda: count)


def transactions(store: Store, size: int, seconds: float = SECONDS) -> float:
    """Measure adds per second of one thread that waits for each transaction of this many."""
    count = 0

    def produce() -> None:
        nonlocal count
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            with store.transaction() as transaction:
                queue = transaction.queue("BENCHMARK")
                for _ in range(size):
                    queue.add_message(Message(BODY))
            count += size

    return timed(produce, lambda: count)


def tasks(store: Store, count: int, seconds: float = SECONDS) -> float:
    """Measure adds per second of this many tasks of one event loop, each awaiting each commit."""
    queue = store.queue("BENCHMARK")
    counts = [0] * count

    async def produce(number: int, end: float) -> None:
        while time.perf_counter() < end:
            await queue.add_message_async(Message(BODY))
            counts[number] += 1

    async def produce_all() -> None:
        end = time.perf_counter() + seconds
        await asyncio.gather(*(produce(number, end) for number in range(count)))

    return timed(lambda: asyncio.run(produce_all()), lambda: sum(counts))


def drain(store: Store, batch: int, seconds: float = SECONDS) -> float:
    """Measure messages per second recovered, decoded and acknowledged, one batch after another."""
    queue = store.queue("BENCHMARK")
    count = 0

    def consume() -> None:
        nonlocal count
        cursor = None
        end = time.perf_counter() + seconds
        acknowledged: Future[None] | None = None
        while time.perf_counter() < end:
            page = queue.recover(batch, cursor)
            cursor = page.cursor
            for message in page:
                _ = message.body
            if acknowledged is not None:
                acknowledged.result()
            acknowledged = queue.acknowledge_async(*page)
            count += len(page)
            if page.at_end:
                break
        if acknowledged is not None:
            acknowledged.result()

    return timed(consume, lambda: count)


def fill(store: Store, count: int) -> None:
    """Fill the queue before a drain."""
    queue = store.queue("BENCHMARK")
    for start in range(0, count, 1000):
        queue.add_messages(Message(BODY) for _ in range(min(1000, count - start)))


def run(functions: Sequence[Callable[[], None]]) -> None:
    """Run all at once, each in a separate thread."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def timed(work: Callable[[], None], count: Callable[[], int]) -> float:
    """Measure the count per second of work."""
    start = time.perf_counter()
    work()
    return count() / (time.perf_counter() - start)
