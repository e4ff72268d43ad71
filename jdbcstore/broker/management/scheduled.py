"""Scheduled messages: listing, cancelling, and sending before their time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jdbcstore.broker.engine import Engine
from jdbcstore.broker.management.audit import Actor, Audit
from jdbcstore.broker.management.master import CurrentMaster
from jdbcstore.broker.management.views import ScheduledView
from jdbcstore.broker.operations import OperationOutcome
from jdbcstore.broker.scheduler.scheduler import Scheduler
from jdbcstore.errors import InvalidDestination, MessageNotFound
from jdbcstore.message.message import Message


class ScheduledOperations:
    """Operations on scheduled messages.

    Each raises InvalidDestination if ``scheduler_support`` is off.
    """

    def __init__(self, *, audit: Audit, master: CurrentMaster) -> None:
        self._audit = audit
        self._master = master

    def listed(self, *, offset: int = 0, limit: int = 100) -> dict[str, Any]:
        """Return a page of the scheduled messages, the next one first, and their ``total``."""
        scheduler = _scheduler(self._master.engine())
        due = sorted(scheduler.jobs.items(), key=lambda item: (item[1].at_ms, item[0]))
        views = [
            ScheduledView(
                id=job.job_id,
                destination=job.destination,
                at_ms=job.at_ms,
                last_ms=job.last_ms,
                repeats=job.repeats,
                sequence=sequence,
            )
            for sequence, job in due[offset : offset + limit]
        ]
        return {"total": len(due), "scheduled": views}

    async def messages(self, sequences: Sequence[int]) -> dict[int, Message]:
        """Return the stored messages of jobs, by their sequences; removed ones are absent.

        :raises StoreError: the store cannot be read
        """
        scheduler = _scheduler(self._master.engine())
        rows = {sequence: await scheduler.read(sequence) for sequence in sequences}
        return {sequence: row for sequence, row in rows.items() if row is not None}

    async def cancel(self, actor: Actor, job: str) -> OperationOutcome:
        """Remove a scheduled message with its repetitions; durable when this completes.

        :raises MessageNotFound: no message has this id; it may have been sent
        :raises StoreError: it may still be scheduled
        """
        with self._audit.operation(actor, "cancel_scheduled", job=job) as (engine, line):
            scheduler = _scheduler(engine)
            sequences = _sequences(scheduler, job)
            await scheduler.remove(sequences)
            line["count"] = len(sequences)
        return OperationOutcome(count=len(sequences))

    def send_now(self, actor: Actor, job: str) -> OperationOutcome:
        """Send a scheduled message immediately; its repetitions follow from now on.

        :raises MessageNotFound: no message has this id; it may have been sent
        """
        with self._audit.operation(actor, "send_scheduled", job=job) as (engine, line):
            scheduler = _scheduler(engine)
            sequences = _sequences(scheduler, job)
            scheduler.hasten(sequences)
            line["count"] = len(sequences)
        return OperationOutcome(count=len(sequences))


def _scheduler(engine: Engine) -> Scheduler:
    if engine.scheduler is None:
        raise InvalidDestination(
            "scheduled messages are disabled; set scheduler_support in [broker], and restart the broker"
        )
    return engine.scheduler


def _sequences(scheduler: Scheduler, job_id: str) -> list[int]:
    sequences = [sequence for sequence, job in scheduler.jobs.items() if job.job_id == job_id]
    if not sequences:
        raise MessageNotFound(f"no message {job_id!r} is scheduled; it may have been sent")
    return sequences
