"""Jobs: scheduled messages, as a broker stores them and an import writes them.

A job is a message of one queue of ours, and so is as durable as any other, in every store, and behind a
journal too. It has its producer's properties, and one with the broker's facts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from jdbcstore.errors import CorruptMessage
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The next time at which a message is sent, and facts that the stored message lacks."""

    job_id: str
    at_ms: int
    repeats: int
    """Repetitions after that; -1: forever."""
    destination: str
    original_destination: str | None
    expiration_ms: int
    follows_cron: bool = False
    """Whether it is one round of a job with a cron entry, which has a job of its own."""
    last_ms: int | None = None
    """The time when the message was last sent; None if it was not. In the row, the time of its arrival."""

    @classmethod
    def of(cls, row: Message) -> Job:
        """Return the job that a stored message is.

        :raises CorruptMessage: it is not one
        """
        last_ms = row.broker_in_time_ms if row.redelivery_counter else None
        try:
            return cls(**json.loads(str(row.properties[_JOB])), last_ms=last_ms)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise CorruptMessage(f"message {row.sequence} of {JOBS} is not a scheduled message") from error

    def in_row(self, message: Message, message_id: MessageId | None) -> Message:
        """Return the stored message of this job: that of the producer, or an earlier one."""
        facts = asdict(self)
        last_ms = facts.pop("last_ms")
        sent = {} if last_ms is None else {"broker_in_time_ms": last_ms, "redelivery_counter": 1}
        return message.replace(
            destination=JOBS,
            original_destination=None,
            expiration_ms=0,
            message_id=message_id,
            properties={**message.properties, _JOB: json.dumps(facts)},
            sequence=None,
            **sent,
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
            redelivery_counter=0,
            sequence=None,
        )
