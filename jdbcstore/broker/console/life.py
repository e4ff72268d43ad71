"""The known history of a message, from its headers, its consumer, records and the audit log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jdbcstore.abc import RemovalRecord
from jdbcstore.broker.attempts import attempts_of
from jdbcstore.broker.management.audit import AUDIT_LOG
from jdbcstore.broker.management.inside import LogLine
from jdbcstore.broker.management.messages import reason_of
from jdbcstore.broker.management.texts import counted
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.dead_letters import ATTEMPTS, CAUSE
from jdbcstore.message.destination import Destination
from jdbcstore.message.jobs import JOB_ID
from jdbcstore.message.message import Message

_TRACE = "traceparent"
_LEFT = {
    "acknowledged": "left {}: acknowledged, moved or removed",
    "dead": "left {} for a dead letter queue",
    "expired": "left {} after its expiration",
    "purged": "purged from {}",
}


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """An event in the history of a message."""

    time_ms: int | None
    """The time; None if only the order is known."""
    text: str


def life_of(
    message: Message,
    queue: Destination,
    holder: str | None,
    log: Iterable[LogLine],
    removals: Sequence[RemovalRecord] = (),
) -> list[LifeEvent]:
    """Return the history of a message in a queue, in order.

    :param removals: the recorded removals from its earlier destinations
    :param holder: the client that holds it now
    :param log: the last lines of the log; the audit log's lines about the queue are used
    """
    events = [*_stored(message, queue), *recorded(removals), *_audited(message, queue, log)]
    if holder is not None:
        events.append(
            LifeEvent(None, f"delivered to the consumer {holder}, which has not acknowledged it yet")
        )
    return events


def recorded(removals: Iterable[RemovalRecord]) -> Iterator[LifeEvent]:
    """Yield the recorded removals of a message."""
    for removal in removals:
        text = _LEFT[removal.outcome].format(removal.destination)
        if removal.redeliveries:
            text += f"after {_times(removal.redeliveries)} redelivered"
        yield LifeEvent(removal.removed_ms, f"{text}: {removal.reason}" if removal.reason else text)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _stored(message: Message, queue: Destination) -> Iterator[LifeEvent]:
    origin = message.original_destination
    by = "" if message.producer_id is None else f" by the producer {message.producer_id}"
    yield LifeEvent(message.timestamp_ms, f"sent to {origin or queue}{by}")
    try:
        properties = message.properties
    except CorruptMessage:
        properties = {}
    if JOB_ID in properties:
        yield LifeEvent(None, f"sent on schedule, from the scheduled message {properties[JOB_ID]!s}")
    if message.broker_in_time_ms:
        yield LifeEvent(message.broker_in_time_ms, "arrived at the broker")
    if _TRACE in properties:
        yield LifeEvent(None, f"traced as {properties[_TRACE]!s}")
    if origin is not None and origin != queue:
        why = f": {reason_of(message)}" if CAUSE in properties else ""
        for attempt in attempts_of(properties.get(ATTEMPTS, "")):
            yield LifeEvent(attempt.time_ms, attempt.text)
        yield LifeEvent(None, f"moved here from {origin}{why}")
    if message.sequence is not None:
        yield LifeEvent(None, f"stored in row {message.sequence}")
    if message.redelivery_counter:
        times = _times(message.redelivery_counter)
        yield LifeEvent(None, f"delivered again {times}, because it was not acknowledged")


def _audited(message: Message, queue: Destination, log: Iterable[LogLine]) -> Iterator[LifeEvent]:
    """Yield the operations on its queue since it arrived, the oldest first."""
    since = message.broker_in_time_ms or message.timestamp_ms or 0
    lines = [line for line in log if line.logger == AUDIT_LOG and line.time_ms >= since]
    for line in reversed(lines):
        record = json.loads(line.text)
        ids = record.get("ids")
        if str(queue) in (record.get("destination"), record.get("to")) and (
            ids is None or str(message.message_id) in ids
        ):
            who = record["user"] or record["peer"]
            count = f", {counted(record['count'], 'message')}" if "count" in record else ""
            yield LifeEvent(record["time_ms"], f"{record['operation']} on its queue by {who}{count}")
