"""Jobs: when a scheduled message is to be sent, and the stored message that keeps both.

A job is a message of one queue of ours, and so is as durable as any other, in every store, and behind a
journal too. It has the properties that its producer set, and one with what the broker has to know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, tzinfo
from typing import Any

from jdbcstore.errors import CorruptMessage, InvalidMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message

JOBS = Destination.queue("JDBCSTORE.SCHEDULED")
"""The queue that the jobs are messages of; clients cannot use it."""
DELAY, PERIOD = "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_PERIOD"
REPEAT, CRON = "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON"
JOB_ID = "scheduledJobId"
"""The property of a message that was scheduled; a message that has it is sent at once."""

_JOB = "jdbcstoreJob"
_MOST = 2**53
_FIELDS = 5
_PUT_BACK_MS = 3 * 3600 * 1000
"""A clock that is put back by more has been wrong: what is due follows its new time, as in Debian's cron."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """When a message is to be sent next, and what the stored message cannot say itself."""

    job_id: str
    at_ms: int
    repeats: int
    """Repetitions after that; -1 for ever."""
    destination: str
    original_destination: str | None
    expiration_ms: int
    follows_cron: bool = False
    """Whether it is one round of a job with a cron entry, which has a job of its own."""

    @classmethod
    def of(cls, row: Message) -> Job:
        """Return the job that a stored message is.

        :raises CorruptMessage: it is not one
        """
        try:
            return cls(**json.loads(str(row.properties[_JOB])))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise CorruptMessage(f"message {row.sequence} of {JOBS} is not a scheduled message") from error

    def in_row(self, message: Message, message_id: MessageId | None) -> Message:
        """Return the stored message of this job: that of the producer, or an earlier one."""
        stored = json.dumps(asdict(self))
        return message.replace(
            destination=JOBS,
            original_destination=None,
            expiration_ms=0,
            message_id=message_id,
            properties={**message.properties, _JOB: stored},
            sequence=None,
        )

    def to_send(self, row: Message, message_id: MessageId | None, now_ms: int) -> Message:
        """Return the message as its destination gets it. Its time to live begins now."""
        dropped = (DELAY, PERIOD, REPEAT, CRON, _JOB)
        properties = {name: value for name, value in row.properties.items() if name not in dropped}
        sent_ms, expiration_ms = row.timestamp_ms or 0, self.expiration_ms
        if 0 < sent_ms < expiration_ms:
            expiration_ms, sent_ms = expiration_ms - sent_ms + now_ms, now_ms
        original = self.original_destination
        return row.replace(
            destination=Destination.parse(self.destination),
            original_destination=None if original is None else Destination.parse(original),
            message_id=message_id,
            timestamp_ms=sent_ms or row.timestamp_ms,
            broker_in_time_ms=now_ms,
            expiration_ms=expiration_ms,
            properties={**properties, JOB_ID: self.job_id},
            redelivery_counter=0,
            sequence=None,
        )

    def to_show(self, row: Message, reply_to: Destination) -> Message:
        """Return a copy of the message, with its schedule, for a client that browses."""
        properties = {name: value for name, value in row.properties.items() if name != _JOB}
        return row.replace(
            destination=reply_to,
            original_destination=Destination.parse(self.destination),
            persistent=False,
            properties={**properties, JOB_ID: self.job_id},
            sequence=None,
        )

    def is_sent(self, row: Message) -> bool:
        """Return whether the message is sent now.

        A cron entry with repetitions only begins a round of them.
        """
        return self.follows_cron or not (CRON in row.properties and Timing.of(row.properties).repeats)

    def next_jobs(self, row: Message, now_ms: int) -> list[Job]:
        """Return the jobs that take the place of this one."""
        timing = Timing.of(row.properties)
        if timing.cron is not None and not self.follows_cron:
            # A clock that was put back a little does not repeat what it has passed already.
            was_put_back = 0 < self.at_ms - now_ms <= _PUT_BACK_MS
            again = [replace(self, at_ms=timing.next_ms(self.at_ms if was_put_back else now_ms))]
            if timing.repeats:
                at_ms = now_ms + (timing.delay_ms or timing.period_ms)
                round_id = f"{self.job_id}:{now_ms}"
                again.append(
                    replace(self, job_id=round_id, at_ms=at_ms, repeats=timing.repeats, follows_cron=True)
                )
            return again
        if not self.repeats:
            return []
        missed = self.at_ms + timing.period_ms <= now_ms
        at_ms = (now_ms if missed else self.at_ms) + timing.period_ms
        return [replace(self, at_ms=at_ms, repeats=self.repeats - 1 if self.repeats > 0 else -1)]


def is_scheduled(message: Message) -> bool:
    """Return whether a producer wants a message to be sent later."""
    properties = message.properties
    return (DELAY in properties or PERIOD in properties or CRON in properties) and JOB_ID not in properties


def new_job(message: Message, job_id: str, now_ms: int, most_repeats: int) -> Job:
    """Return the job of a message that a producer sends.

    :param most_repeats: the most that it may ask for
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


@dataclass(frozen=True, slots=True)
class Timing:
    """The schedule that a producer asks for, as in ActiveMQ."""

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
        found = cls(
            _number(properties, DELAY, 0),
            _number(properties, PERIOD, 0),
            _number(properties, REPEAT, -1),
            str(cron) if cron is not None and str(cron).strip() else None,
        )
        if found.repeats < 0 and not found.period_ms:
            raise InvalidMessage(
                f"{REPEAT} for ever needs {PERIOD}, the milliseconds between two deliveries; set both"
            )
        return found

    def first_ms(self, now_ms: int) -> int:
        """Return when the message is sent first."""
        if self.cron is None:
            return now_ms + (self.delay_ms or self.period_ms)
        at_ms = self.next_ms(now_ms)
        # With repetitions, each time begins a round that waits for itself.
        return at_ms if self.repeats else at_ms + self.delay_ms

    def next_ms(self, after_ms: int) -> int:
        """Return when the cron entry is due next, by local time: always after ``after_ms``.

        As in Debian's cron, an entry for a fixed time is due once in the night in which the clock is put
        back, and one for a time that is left out in spring is due right after it; ``*`` follows the time
        that really passes.

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
    """Return this machine's time zone with its rules; today's offset if it has no name in the zone files."""
    from tzlocal import get_localzone

    try:
        return get_localzone()
    except (
        ValueError,
        LookupError,
    ):  # TZ is a rule of POSIX, or the machine's settings contradict each other
        return datetime.now().astimezone().tzinfo


def _number(properties: Mapping[str, Any], name: str, at_least: int) -> int:
    # ActiveMQ's JMS client makes null of a number of the wrong type.
    value = properties.get(name)
    value = 0 if value is None else value
    try:
        if isinstance(value, bool) or not at_least <= (number := int(value)) < _MOST:
            raise ValueError
    except (TypeError, ValueError):
        raise InvalidMessage(f"{name} must be a whole number, {at_least} or more, not {value!r}") from None
    return number
