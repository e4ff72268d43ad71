"""The scheduler: keeps jobs in the store, and sends each message when it is due, exactly once.

One transaction of the store removes the job, adds the message to its destinations, and adds the next job if
there is one. So after a crash either all or none of this has happened.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from asyncio import Event, Future, Task
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush

from jdbcstore.abc import MessageReference, MessageStore, Transaction
from jdbcstore.broker.entry import size_of
from jdbcstore.broker.loop import BrokerLoop, Promise, complete
from jdbcstore.broker.scheduler.timing import is_scheduled, is_sent, new_job, next_jobs
from jdbcstore.broker.store_io.outbox import Outbox, PendingSend
from jdbcstore.broker.store_io.transaction import SendTarget
from jdbcstore.errors import (
    CorruptMessage,
    InvalidDestination,
    InvalidMessage,
    MessageNotFound,
    OutcomeUnknown,
    StoreError,
)
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.jobs import CRON, JOBS, Job
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)

_LONGEST_WAIT = 60.0
"""Seconds after which the clock is checked again, because it may have been set."""
_BEFORE_ANOTHER_TRY = 1.0
_MOST_AT_ONCE = 50
"""Jobs whose messages are in memory at a time."""
_PAGE = 500

Route = Callable[[Message], Sequence[tuple[SendTarget, Message]]]
"""Each destination of a due message, and the message for it."""


@dataclass(eq=False, repr=False)
class Scheduler:
    """The jobs of one broker: a :class:`~jdbcstore.broker.store_io.transaction.SendTarget` of sends."""

    _loop: BrokerLoop
    _outbox: Outbox
    _route: Route
    _audited: bool
    """Whether the store drops a message id that it has seen before in any destination."""
    _most_repeats: int
    """The most repetitions that a producer may request."""

    destination = JOBS

    def __post_init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        """All jobs, by the sequence of their rows."""
        self._due: list[tuple[int, int]] = []
        """A heap of times and sequences; removed jobs are skipped."""
        self._must_load = True
        self._changed = Event()
        self._task: Task[None] | None = None
        started = f"{self._loop.clock.now_ms()}-{secrets.token_hex(4)}"
        self._producer = ProducerId(f"ID:jdbcstore-scheduler-{started}", 1, 1)
        self._numbers = itertools.count(1)

    def start(self) -> None:
        """Read the jobs in the store, and start sending due messages."""
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Send no more messages. The loop completes running commits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        """Check for due jobs, because a job was added or the clock was set."""
        self._changed.set()

    # A target of sends

    def accepts(self, message: Message) -> bool:
        """Return whether a message is scheduled."""
        return is_scheduled(message)

    def job(self, message: Message, copy: int) -> Message:
        """Return the job for a message, as a message for this target; ``copy`` is its number in a composite.

        :raises InvalidMessage: a property of its schedule is wrong
        """
        message_id = message.message_id or self._new_id()
        job_id = f"{message_id}:{copy}" if copy else str(message_id)
        job = new_job(message, job_id, self._loop.clock.now_ms(), self._most_repeats)
        return job.in_row(message, message_id)

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Send a job; completes when it is durable."""
        promise = Promise(loop=self._loop.events)
        self._outbox.add(PendingSend(message, self, connection_id, promise, message.memory_size))
        return promise

    def stage(self, transaction: Transaction, message: Message) -> bool:
        transaction.queue(JOBS).add_message(message)
        return True

    def before(self, connection_id: str) -> list[Future[None]]:  # noqa: ARG002
        return []

    def room(self, message: Message) -> Future[None]:  # noqa: ARG002
        return self._loop.done()

    def arrive(self, message: Message, reference: MessageReference | None, connection_id: str) -> None:  # noqa: ARG002
        if reference is not None and reference.sequence >= 0:  # otherwise the store dropped it as a duplicate
            self._add(reference.sequence, Job.of(message))
            self.wake()

    def resync(self) -> None:
        self._must_load = True
        self.wake()

    def read_from(self, sequence: int | None) -> None:  # noqa: ARG002 - all jobs are read
        self.resync()

    # Jobs

    def _add(self, sequence: int, job: Job) -> None:
        # A job that was read from the store may arrive again here.
        if sequence not in self.jobs:
            self.jobs[sequence] = job
            heappush(self._due, (job.at_ms, sequence))

    @property
    def _store(self) -> MessageStore:
        return self._outbox.store.queue(JOBS, prioritized=False)

    async def _load(self) -> None:
        self._must_load = False
        self.jobs.clear()
        self._due.clear()
        store, cursor = await self._loop.run(lambda: self._store), None
        while True:
            page = await self._loop.run(partial(store.recover, _PAGE, cursor))
            for message in page:
                try:
                    if message.sequence is not None:
                        self._add(message.sequence, Job.of(message))
                except CorruptMessage as error:
                    log.error("a scheduled message is damaged, and stays scheduled: %s", error)
            if not page and not page.corrupt:
                return
            cursor = page.cursor

    async def _run(self) -> None:
        try:
            while True:
                await self._send_due()
                await self._wait()
        except Exception as defect:
            self._loop.on_defect(defect)

    async def _send_due(self) -> None:
        self._changed.clear()
        try:
            if self._must_load:
                await self._load()
            while not self._must_load and (due := self._take_due()):
                await self._send_each(due)
        except StoreError as error:
            self._must_load = True
            log.warning("cannot read scheduled messages; retrying: %s", error)
            await asyncio.sleep(_BEFORE_ANOTHER_TRY)

    def _take_due(self) -> list[int]:
        now_ms = self._loop.clock.now_ms()
        taken: list[int] = []
        while self._due and self._due[0][0] <= now_ms and len(taken) < _MOST_AT_ONCE:
            _, sequence = heappop(self._due)
            job = self.jobs.get(sequence)
            if job is not None:
                taken.append(sequence)
        return taken

    async def _wait(self) -> None:
        if self._must_load:
            return
        wait = _LONGEST_WAIT
        if self._due:
            wait = min(wait, max(0.0, (self._due[0][0] - self._loop.clock.now_ms()) / 1000))
        try:
            async with asyncio.timeout(wait):
                await self._changed.wait()
        except TimeoutError:
            pass

    # Sending

    async def _send_each(self, due: Sequence[int]) -> None:
        store = await self._loop.run(lambda: self._store)
        rows = await self._loop.run(lambda: [_read(store, sequence) for sequence in due])
        rooms: list[Future[None]] = []
        sent = {}
        for sequence, row in zip(due, rows, strict=True):
            job = self.jobs.get(sequence)
            if row is None:
                self.jobs.pop(sequence, None)
            elif job is not None:  # otherwise it was removed meanwhile
                sent[sequence] = self._send_one(sequence, job, row, rooms)
        outcomes = await asyncio.gather(*sent.values(), return_exceptions=True)
        for sequence, error in zip(sent, outcomes, strict=True):
            if error is not None:
                self._failed(sequence, error)
        await asyncio.gather(*rooms, return_exceptions=True)

    def _failed(self, sequence: int, error: BaseException) -> None:
        if isinstance(error, CorruptMessage):
            self.jobs.pop(sequence, None)
            log.error("a scheduled message is damaged, and stays scheduled: %s", error)
        elif isinstance(error, OutcomeUnknown):
            self.resync()
        elif isinstance(error, StoreError):
            log.warning("cannot send a scheduled message; retrying: %s", error)
            again_ms = self._loop.clock.now_ms() + round(_BEFORE_ANOTHER_TRY * 1000)
            heappush(self._due, (again_ms, sequence))
        else:
            raise error

    async def _send_one(self, sequence: int, job: Job, row: Message, rooms: list[Future[None]]) -> None:
        now_ms = self._loop.clock.now_ms()
        written = self._outbox.store.transaction()
        staged: list[tuple[SendTarget, Message, bool]] = []
        try:
            targets = self._targets(job, row, now_ms)
            waits = [each for target, _ in targets for each in target.before("")]
            if waits:
                await self._loop.all_done(waits)
            for target, message in targets:
                staged.append((target, message, target.stage(written, message)))
            for following in next_jobs(job, row, now_ms):
                # Otherwise a store's audit would drop another row with the same id.
                again = following.in_row(row, self._new_id())
                staged.append((self, again, self.stage(written, again)))
            written.queue(JOBS).acknowledge(sequence)
        except BaseException:
            written.rollback()
            raise
        await self._commit(sequence, written, staged)
        rooms.extend(target.room(message) for target, message, _ in staged)

    def _targets(self, job: Job, row: Message, now_ms: int) -> Sequence[tuple[SendTarget, Message]]:
        if not is_sent(job, row):
            return []
        is_repeated = self._audited or job.repeats or job.follows_cron or CRON in row.properties
        message = job.to_send(row, self._new_id() if is_repeated else row.message_id, now_ms)
        try:
            return self._route(message)
        except (InvalidDestination, InvalidMessage) as error:
            log.error("dropped a scheduled message that can no longer be sent: %s", error)
            return []

    def _new_id(self) -> MessageId:
        return MessageId(self._producer, next(self._numbers))

    def _commit(
        self, sequence: int, written: Transaction, staged: Iterable[tuple[SendTarget, Message, bool]]
    ) -> Future[None]:
        outbox, done = self._outbox, self._loop.create_future()

        def end(references: list[MessageReference], error: BaseException | None) -> None:
            outbox.commit_ended()
            if error is None:
                self.jobs.pop(sequence, None)
                stored = iter(references)
                for target, message, is_stored in staged:
                    target.arrive(message, next(stored) if is_stored else None, "")
            elif isinstance(error, OutcomeUnknown):
                for target, _, _ in staged:
                    target.resync()
            complete(done, error)

        size = sum(size_of(message) for _, message, _ in staged)
        outbox.commit(self._loop.done(), lambda: outbox.line.submit(written.commit_async, size, end))
        return done

    # Management

    async def remove(self, sequences: Sequence[int]) -> None:
        """Remove jobs; completes when that is durable.

        :raises StoreError: they may still be scheduled
        """
        for sequence in sequences:
            self.jobs.pop(sequence, None)
        store = await self._loop.run(lambda: self._store)
        try:
            await store.acknowledge_async(*sequences)
        except StoreError:
            self.resync()
            raise

    def hasten(self, sequences: Sequence[int]) -> None:
        """Make jobs due now."""
        now_ms = self._loop.clock.now_ms()
        for sequence in sequences:
            self.jobs[sequence] = replace(self.jobs[sequence], at_ms=now_ms)
            heappush(self._due, (now_ms, sequence))
        self.wake()

    async def read(self, sequence: int) -> Message | None:
        """Return the stored message of a job; None if it was removed."""
        store = await self._loop.run(lambda: self._store)
        return await self._loop.run(partial(_read, store, sequence))


def _read(store: MessageStore, sequence: int) -> Message | None:
    """Read messages; called in a thread."""
    try:
        return store.get_message(sequence)
    except MessageNotFound:
        return None
