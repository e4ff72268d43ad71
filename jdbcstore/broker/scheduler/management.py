"""ActiveMQ's management destination for scheduled messages, which requests in messages browse and remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jdbcstore.broker.scheduler.scheduler import Scheduler
from jdbcstore.errors import InvalidMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.jobs import JOB_ID, Job
from jdbcstore.message.message import Message

_PREFIX = "activemq.scheduler.management"
ACTION, FROM, TO = "AMQ_SCHEDULER_ACTION", "ACTION_START_TIME", "ACTION_END_TIME"


def is_management(destination: Destination | None) -> bool:
    """Return whether messages to a queue or topic are requests about scheduled messages."""
    return destination is not None and destination.name[: len(_PREFIX)].lower() == _PREFIX


async def manage(scheduler: Scheduler, request: Message, answer: Callable[[Message], None]) -> None:
    """Carry out a request; ``answer`` gets a copy of each browsed message.

    :raises InvalidMessage: the action is unknown, or a required property is missing
    :raises StoreError: it was not carried out
    """
    properties = request.properties
    action = properties.get(ACTION)
    if action == "BROWSE" and request.reply_to is not None:
        for sequence, job in _chosen(scheduler, properties):
            row = await scheduler.read(sequence)
            if row is not None:
                answer(job.to_show(row, request.reply_to))
    elif action == "REMOVE" and properties.get(JOB_ID) is not None:
        wanted = str(properties[JOB_ID])
        await scheduler.remove([number for number, job in scheduler.jobs.items() if job.job_id == wanted])
    elif action == "REMOVEALL":
        await scheduler.remove([number for number, _ in _chosen(scheduler, properties)])
    else:
        raise InvalidMessage(
            f"{ACTION} must be BROWSE, with a reply-to, REMOVE, with {JOB_ID}, or REMOVEALL, not {action!r}"
        )


def _chosen(scheduler: Scheduler, properties: Mapping[str, Any]) -> list[tuple[int, Job]]:
    """Return the jobs that are due in the interval of a request, or all; the next one first."""
    begin, end = _time(properties, FROM), _time(properties, TO)
    jobs = [
        (number, job)
        for number, job in scheduler.jobs.items()
        if begin is None or end is None or begin <= job.at_ms <= end
    ]
    return sorted(jobs, key=lambda job: (job[1].at_ms, job[0]))


def _time(properties: Mapping[str, Any], name: str) -> int | None:
    value = properties.get(name)
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        raise InvalidMessage(f"{name} must be a time in epoch milliseconds, not {value!r}") from None
