"""Producers and consumers that keep up with them, on one queue of a store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

from benchmarks.ours import BODY, run, timed
from jdbcstore import Message, Store

IN_FLIGHT = 1000
"""Messages that were added and not acknowledged; with more, consumers would not be keeping up."""


class Passing:
    """Each producer waits until its message is stored, each consumer until its message is acknowledged.

    One thread reads the store page by page and dispatches the messages to the consumers, as a broker does.
    """

    def __init__(self, store: Store) -> None:
        self._queue = store.queue("BENCHMARK")
        self._room = threading.Semaphore(IN_FLIGHT)
        self._added = threading.Event()
        self._ended = False
        self._waiting: SimpleQueue[Message | None] = SimpleQueue()

    def rate(self, pairs: int, seconds: float) -> float:
        """Measure messages per second that were added, read and acknowledged by this many of each."""
        counts = [0] * pairs
        end = time.perf_counter() + seconds
        left = [pairs]
        lock = threading.Lock()

        def produce() -> None:
            while time.perf_counter() < end:
                self._room.acquire()
                self._queue.add_message(Message(BODY))
                self._added.set()
            with lock:
                left[0] -= 1
                self._ended = not left[0]
            self._added.set()

        def consume(number: int) -> None:
            while (message := self._waiting.get()) is not None:
                self._queue.acknowledge(message)
                self._room.release()
                counts[number] += 1

        work: list[Callable[[], None]] = [partial(self._read, pairs), *[produce] * pairs]
        work += [partial(consume, number) for number in range(pairs)]
        return timed(lambda: run(work), lambda: sum(counts))

    def _read(self, consumers: int) -> None:
        cursor = None
        while True:
            self._added.clear()
            ended = self._ended
            page = self._queue.recover(IN_FLIGHT, cursor)
            cursor = page.cursor
            for message in page:
                self._waiting.put(message)
            if not page and ended:
                break
            if not page:
                self._added.wait()
        for _ in range(consumers):
            self._waiting.put(None)
