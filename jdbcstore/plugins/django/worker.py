"""A worker: claims the tasks of some queues, one at a time, runs them, and records the outcome."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections
from django.utils import timezone

from jdbcstore import Message
from jdbcstore.errors import ClaimLost, StoreUnavailable
from jdbcstore.plugins.django.backend import ClaimsBackend
from jdbcstore.plugins.django.interface import (
    TaskContext,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from jdbcstore.plugins.django.models import TaskRecord
from jdbcstore.stores.claims import Claim, ClaimQueue
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

T = TypeVar("T")

_SHORTEST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_PATIENCE = 60.0
"""Seconds for which a worker tries to reach the database before it ends."""
_CLEANUP = 600.0
"""Seconds between two removals of old results."""
_BATCH = 500
_SHOWN = 80
"""The most characters of a task's name in a log."""
_UNREACHABLE = (OperationalError, InterfaceError, StoreUnavailable)


class Worker:
    """Runs the tasks of the queues ``names`` in this thread, until it is stopped.

    With ``batch`` it ends as soon as no task can be claimed. If its process is killed, another worker runs
    the task again after the lease.
    """

    def __init__(self, backend: ClaimsBackend, names: Sequence[str], *, batch: bool = False) -> None:
        self._backend = backend
        self._claims = backend.claims()
        self._queues = [self._claims.queue(name) for name in names]
        self._batch = batch
        self._records = TaskRecord.objects.using(backend.database)
        self._id = f"{socket.gethostname()}-{os.getpid()}"
        self._stopping = False
        self._clean_at = float("-inf")

    def stop_on_signals(self) -> None:
        """Stop after the running task at SIGTERM or SIGINT; a second signal ends the process immediately."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._stopping = True
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        os.write(2, f"{signal.Signals(number).name}: stopping after the running task\n".encode())

    def run(self) -> None:
        """Run tasks until :meth:`stop_on_signals` stops it, or the batch is done.

        :raises StoreUnavailable: the database does not answer for a minute
        :raises NotMaster: a broker or store serves the tables now
        """
        shown = ", ".join(sorted(queue.destination.name for queue in self._queues))
        log.info("worker %s runs tasks of the queues %s", self._id, shown)
        pause = _SHORTEST_PAUSE
        wakeups = self._claims.database.wakeups
        while not self._stopping:
            names = [queue.destination.qualified_name for queue in self._queues]
            counts = {name: wakeups.count(name)[0] for name in names}
            taken = self._reach(self._take)
            if taken is not None:
                pause = _SHORTEST_PAUSE
                self._settle(*taken)
            else:
                self._reach(self._clean)
                if self._batch:
                    return
                is_woken = wakeups.wait_any(counts, pause)
                pause = _SHORTEST_PAUSE if is_woken else min(2 * pause, _LONGEST_PAUSE)

    def _reach(self, work: Callable[[], T]) -> T:
        """Do idempotent work; retry while the database cannot be reached."""
        backoff = Backoff(5.0, timeout=_PATIENCE)
        while True:
            try:
                return work()
            except _UNREACHABLE as error:
                close_old_connections()
                if self._stopping or backoff.is_over():
                    raise
                log.warning("the database cannot be reached: %s", error)
                time.sleep(backoff.pause())

    def _take(self) -> tuple[ClaimQueue, Claim] | None:
        for queue in [*self._queues]:
            for claim in queue.claim():
                # Next time it is the last, so that a queue that is never empty does not starve others.
                self._queues.remove(queue)
                self._queues.append(queue)
                return queue, claim
        return None

    def _settle(self, queue: ClaimQueue, claim: Claim) -> None:
        """Run the task of a message, unless it is finished, and remove the message."""
        close_old_connections()
        try:
            record = self._reach(lambda: queue.read(claim, self._record_of))
            if record is None:
                return
            if not record.is_finished:
                self._attempt(record, claim)
            self._reach(lambda: queue.acknowledge(claim))
        except ClaimLost:
            log.warning("lost the claim of message %d; another worker may run it too", claim.sequence)
        finally:
            close_old_connections()

    def _record_of(self, message: Message) -> TaskRecord:
        """Return the task of a message.

        :raises ValueError: the message is damaged, or the task does not exist
        """
        id_ = str(message.body)
        # The database may be unable to compare other text.
        record = self._backend.record(id_) if id_.isascii() and id_.isalnum() else None
        if record is None:
            shown = ascii(id_[:_SHOWN])
            raise ValueError(
                f"there is no task {shown}: its row was deleted, or another program sent this message"
            )
        return record

    def _attempt(self, record: TaskRecord, claim: Claim) -> None:
        """Run a task, and record its outcome, including exceptions."""
        try:
            task = record.task()
            if claim.redeliveries >= self._backend.max_attempts:
                raise RuntimeError(f"{claim.redeliveries} workers died while running this task")
        except Exception as error:
            log.exception("%s cannot be run", record)
            self._fail(record, error)
            return
        if not self._reach(lambda: self._begin(record)):
            return
        result = record.result(task)
        try:
            task_started.send(sender=type(self._backend), task_result=result)
            context = (TaskContext(task_result=result),) if task.takes_context else ()
            value = normalize_json(task.call(*context, *result.args, **result.kwargs))
        except BaseException as error:  # SystemExit too, because the task raised it
            self._fail(record, error)
            self._send_finished(record, task)
            return
        try:
            self._finish(record, TaskResultStatus.SUCCESSFUL, return_value=value)
            log.info("%s", record)
        except _UNREACHABLE:
            raise
        except DatabaseError as error:  # the column cannot store this value
            self._fail(record, error)
        self._send_finished(record, task)

    def _begin(self, record: TaskRecord) -> bool:
        """Record the start of an attempt; return false if the task is finished."""
        while not record.is_finished:
            now = timezone.now()
            values = {
                "status": TaskResultStatus.RUNNING,
                "attempts": record.attempts + 1,
                "worker_ids": [*record.worker_ids, self._id],
                "started_at": record.started_at or now,
                "last_attempted_at": now,
            }
            # Unless another worker, whose claim was lost, has just begun an attempt.
            if self._records.filter(pk=record.pk, attempts=record.attempts).update(**values):
                _set(record, values)
                return True
            record.refresh_from_db(using=self._backend.database)
        return False

    def _fail(self, record: TaskRecord, error: BaseException) -> None:
        kind = type(error)
        text = "".join(traceback.format_exception(error)).replace("\0", "\\0")
        failure = {
            "exception_class_path": f"{kind.__module__}.{kind.__qualname__}",
            "traceback": text.encode("utf-8", "backslashreplace").decode(),
        }
        self._finish(record, TaskResultStatus.FAILED, errors=[*record.errors, failure])
        log.error("%s: %s: %s", record, failure["exception_class_path"], error)

    def _finish(self, record: TaskRecord, status: str, **outcome: Any) -> None:
        """Record the outcome of an attempt, unless another worker has begun the next."""
        values = {"status": status, "finished_at": timezone.now(), **outcome}
        mine = self._records.filter(pk=record.pk, attempts=record.attempts)
        close_old_connections()  # the task may have left it in a transaction
        if self._reach(lambda: mine.update(**values)):
            _set(record, values)
        else:
            log.warning("%s: another worker has started it again, and records the result", record)

    def _send_finished(self, record: TaskRecord, task: Any) -> None:
        task_finished.send_robust(sender=type(self._backend), task_result=record.result(task))

    def _clean(self) -> None:
        """Remove results after their retention."""
        if self._backend.keep_results is None or time.monotonic() < self._clean_at:
            return
        before = timezone.now() - timedelta(seconds=self._backend.keep_results)
        old = self._records.filter(finished_at__lt=before).values_list("pk", flat=True)
        while some := list(old[:_BATCH]):
            self._records.filter(pk__in=some).delete()
        self._clean_at = time.monotonic() + _CLEANUP


def _set(record: TaskRecord, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(record, name, value)
