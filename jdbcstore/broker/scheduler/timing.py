"""The schedules of producers, and the jobs that follow a due job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any

from jdbcstore.errors import InvalidMessage
from jdbcstore.message.jobs import CRON, DELAY, JOB_ID, PERIOD, REPEAT, Job
from jdbcstore.message.message import Message

_MOST = 2**53
_FIELDS = 5
_PUT_BACK_MS = 3 * 3600 * 1000
"""Milliseconds. A clock that is put back by more was wrong, so jobs follow its new time, as in Debian's
cron."""


def is_scheduled(message: Message) -> bool:
    """Return whether a message has a schedule."""
    properties = message.properties
    return (DELAY in properties or PERIOD in properties or CRON in properties) and JOB_ID not in properties


def new_job(message: Message, job_id: str, now_ms: int, most_repeats: int) -> Job:
    """Return the job of a message from a producer.

    :param most_repeats: the most repetitions that it may request
    :raises InvalidMessage: a property of its schedule is wrong
    """
    timing = Timing.of(message.properties)
    if timing.repeats > most_repeats:
        raise InvalidMessage("The scheduled repeat value is too large")
    original = message.original_destination
    return Job(
        job_id=job_id,
        at_ms=timing.first_ms(now_ms),
        repeats=timing.repeats,
        destination=str(message.destination),
        original_destination=None if original is None else str(original),
        expiration_ms=message.expiration_ms,
    )


def is_sent(job: Job, row: Message) -> bool:
    """Return whether the message is sent now.

    A cron entry with repetitions only begins a round of them.
    """
    return job.follows_cron or not (CRON in row.properties and Timing.of(row.properties).repeats)


def next_jobs(job: Job, row: Message, now_ms: int) -> list[Job]:
    """Return the jobs that follow this one."""
    timing, job = Timing.of(row.properties), replace(job, last_ms=now_ms)
    if timing.cron is not None and not job.follows_cron:
        # A clock that was put back a little does not repeat jobs that it has already passed.
        was_put_back = 0 < job.at_ms - now_ms <= _PUT_BACK_MS
        again = [replace(job, at_ms=timing.next_ms(job.at_ms if was_put_back else now_ms))]
        if timing.repeats:
            at_ms = now_ms + (timing.delay_ms or timing.period_ms)
            round_id = f"{job.job_id}:{now_ms}"
            again.append(
                replace(job, job_id=round_id, at_ms=at_ms, repeats=timing.repeats, follows_cron=True)
            )
        return again
    if not job.repeats:
        return []
    missed = job.at_ms + timing.period_ms <= now_ms
    at_ms = (now_ms if missed else job.at_ms) + timing.period_ms
    return [replace(job, at_ms=at_ms, repeats=job.repeats - 1 if job.repeats > 0 else -1)]


@dataclass(frozen=True, slots=True)
class Timing:
    """The schedule of a message, as in ActiveMQ."""

    delay_ms: int
    period_ms: int
    repeats: int
    cron: str | None

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> Timing:
        """Read the schedule in a message's properties.

        :raises InvalidMessage: a property is wrong
        """
        cron = properties.get(CRON)
        timing = cls(
            _number(properties, DELAY, 0),
            _number(properties, PERIOD, 0),
            _number(properties, REPEAT, -1),
            str(cron) if cron is not None and str(cron).strip() else None,
        )
        if timing.repeats < 0 and not timing.period_ms:
            raise InvalidMessage(
                f"{REPEAT} without end needs {PERIOD}, the milliseconds between two deliveries; set both"
            )
        return timing

    def first_ms(self, now_ms: int) -> int:
        """Return the time when the message is sent first."""
        if self.cron is None:
            return now_ms + (self.delay_ms or self.period_ms)
        at_ms = self.next_ms(now_ms)
        # With repetitions, each time begins a round with its own delays.
        return at_ms if self.repeats else at_ms + self.delay_ms

    def next_ms(self, after_ms: int) -> int:
        """Return the next time of the cron entry, by local time, always after ``after_ms``.

        As in Debian's cron, an entry for a fixed time is due once in the night in which the clock is put
        back. An entry for a time that is skipped in spring is due right after it. ``*`` follows elapsed time.

        :raises InvalidMessage: it is wrong, or never due
        """
        cron = self.cron or ""
        if len(cron.split()) != _FIELDS:
            raise InvalidMessage(
                f"{CRON} needs five fields, minute, hour, day, month and day of the week, not {cron!r}"
            )
        try:
            from cronsim import CronSim, CronSimError  # only brokers with cron entries need it
        except ImportError as error:
            text = f"{CRON} needs the package cronsim on the broker's machine; install it there"
            raise InvalidMessage(text) from error
        try:
            times = CronSim(cron, datetime.fromtimestamp(after_ms / 1000, _local_zone()))
            return next(at for at in (int(due.timestamp()) * 1000 for due in times) if at > after_ms)
        except (CronSimError, ValueError, StopIteration) as error:  # ValueError: thousands of digits
            raise InvalidMessage(f"{CRON} is not valid, or never due: {cron!r}; correct it") from error


def _local_zone() -> tzinfo | None:
    """Return this machine's time zone with its rules, or the current offset if the zone files have no name
    for it."""
    from tzlocal import get_localzone

    try:
        return get_localzone()
    except (
        ValueError,
        LookupError,
    ):  # TZ is a POSIX rule, or the machine's settings contradict each other
        return datetime.now().astimezone().tzinfo


def _number(properties: Mapping[str, Any], name: str, at_least: int) -> int:
    # ActiveMQ's JMS client turns a number of the wrong type into null.
    value = properties.get(name)
    value = 0 if value is None else value
    try:
        if isinstance(value, bool) or not at_least <= (number := int(value)) < _MOST:
            raise ValueError
    except (TypeError, ValueError):
        raise InvalidMessage(f"{name} must be a whole number, {at_least} or more, not {value!r}") from None
    return number
