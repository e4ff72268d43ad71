"""What the destinations of one broker share."""

from __future__ import annotations

import asyncio
import itertools
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from jdbcstore.abc import Store
from jdbcstore.broker.api import Promise
from jdbcstore.broker.memory import FlowControl, MemoryUsage
from jdbcstore.broker.notices import Notices
from jdbcstore.broker.store_io.completions import StoreLine
from jdbcstore.message.destination import Destination
from jdbcstore.util.clock import Clock

if TYPE_CHECKING:
    from jdbcstore.broker.destinations import BrokerDestination
    from jdbcstore.broker.queues.dead_letters import DeadLetters
    from jdbcstore.broker.store_io.gates import Gates
    from jdbcstore.broker.store_io.outbox import Outbox
    from jdbcstore.broker.store_io.transaction import OpenTransactions

T = TypeVar("T")
_READERS = 4


class Turn(Protocol):
    """Has something to do at the end of a turn of the loop."""

    def turn(self) -> None: ...


class Parts:
    """Loop, store, clock, memory; and what is collected over a turn of the loop."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        store: Store,
        clock: Clock,
        line: StoreLine,
        memory: MemoryUsage,
        folder: Path | None = None,
        *,
        files: MemoryUsage,
        on_defect: Callable[[Exception], None],
    ) -> None:
        self.loop = loop
        self.store = store
        self.clock = clock
        self.line = line
        self.memory = memory
        self.folder = folder
        """Where temporary files are; None is the system's own."""
        self.files = files
        """What they take."""
        self._on_defect = on_defect
        self.notices = Notices()
        self.flows: dict[str, dict[FlowControl, None]] = {}
        """By connection: where something of it waits, or has waited."""
        self.find: Callable[[Destination], BrokerDestination]
        """The queue or topic of a name."""
        self.dead_letters: DeadLetters
        self.transactions: OpenTransactions
        self.outbox: Outbox
        self.gates: Gates
        self.concurrent = False
        """Whether messages of queues are given out while they are being written."""
        self.commits = 0
        """Transactions that are being committed."""
        self.last_sequence = 0
        """The highest that was in the store when the broker started."""
        self.numbers = itertools.count(1)
        """Order entries that are not stored."""
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="jdbcstore-broker")
        self._touched: dict[Turn, None] = {}

    def run(self, function: Callable[[], T]) -> Future[T]:
        """Run what blocks, in a thread."""
        return asyncio.ensure_future(self.loop.run_in_executor(self._pool, function), loop=self.loop)

    def guarded(self, callback: Callable[[T], None]) -> Callable[[T], None]:
        """The callback, for a future or a timer: the loop would only log an error that nobody expects."""

        def call(argument: T) -> None:
            try:
                callback(argument)
            except Exception as defect:
                self._on_defect(defect)

        return call

    def touch(self, what: Turn) -> None:
        """Call its ``turn`` once, when what is ready now has run."""
        if not self._touched:
            self.loop.call_soon(self._turn)
        self._touched[what] = None

    def _turn(self) -> None:
        touched, self._touched = self._touched, {}
        for what in touched:
            try:
                what.turn()
            except Exception as defect:
                self._on_defect(defect)

    def done(self) -> Future[None]:
        """A future that is done."""
        future: Future[None] = self.loop.create_future()
        future.set_result(None)
        return future

    def failed(self, error: BaseException) -> Future[None]:
        """A future that has failed."""
        future: Future[None] = self.loop.create_future()
        future.set_exception(error)
        return future

    def settle(self, promise: Future[None], error: BaseException | None) -> None:
        """Complete a future, unless whoever has it has cancelled it."""
        if promise.done():
            return
        if error is None:
            if isinstance(promise, Promise):
                promise.tell()
            promise.set_result(None)
        else:
            promise.set_exception(error)

    async def settled(self) -> None:
        """Wait until nothing is under way to the store any more."""
        while self._touched or self.outbox.waits or not self.line.is_idle:
            settled: Future[None] = self.loop.create_future()
            # What was touched is written in the turn that follows.
            self.loop.call_soon(self.line.when_idle, partial(settled.set_result, None))
            await settled

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
