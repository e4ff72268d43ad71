"""The life of a message, as far as it is known: what is stored with it, who has it now, and what was done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jdbcstore.abc import RemovalRecord
from jdbcstore.broker.management.audit import AUDIT_LOG
from jdbcstore.broker.management.inside import LogLine
from jdbcstore.broker.management.messages import reason_of
from jdbcstore.broker.management.texts import counted
from jdbcstore.broker.queues.dead_letters import CAUSE
from jdbcstore.errors import CorruptMessage
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
    """Something that has happened to a message."""

    time_ms: int | None
    """None if only its order is known."""
    text: str


def life_of(
    message: Message,
    queue: Destination,
    holder: str | None,
    log: Iterable[LogLine],
    removals: Sequence[RemovalRecord] = (),
) -> list[LifeEvent]:
    """Return what has happened to a message that is in a queue, in order.

    :param removals: what is recorded of the places where it was before
    :param holder: the client that has it now
    :param log: the last lines of the log, of which those of the audit log about the queue count
    """
    events = [*_stored(message, queue), *recorded(removals), *_audited(message, queue, log)]
    if holder is not None:
        events.append(LifeEvent(None, f"with the consumer {holder} now, which has not acknowledged it"))
    return events


def recorded(removals: Iterable[RemovalRecord]) -> Iterator[LifeEvent]:
    """Yield what is recorded of a message that has left its destinations."""
    for one in removals:
        text = _LEFT[one.outcome].format(one.destination)
        if one.redeliveries:
            text += f", delivered again {_times(one.redeliveries)} before"
        yield LifeEvent(one.removed_ms, f"{text}: {one.reason}" if one.reason else text)


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
        yield LifeEvent(None, f"sent at its time, as the scheduled message {properties[JOB_ID]!s}")
    if message.broker_in_time_ms:
        yield LifeEvent(message.broker_in_time_ms, "arrived at the broker")
    if _TRACE in properties:
        yield LifeEvent(None, f"traced as {properties[_TRACE]!s}")
    if origin is not None and origin != queue:
        why = f": {reason_of(message)}" if CAUSE in properties else ""
        yield LifeEvent(None, f"moved here from {origin}{why}")
    if message.sequence is not None:
        yield LifeEvent(None, f"stored in row {message.sequence}")
    if message.redelivery_counter:
        times = _times(message.redelivery_counter)
        yield LifeEvent(None, f"delivered again {times}, because it was not acknowledged")


def _audited(message: Message, queue: Destination, log: Iterable[LogLine]) -> Iterator[LifeEvent]:
    """Yield the operations on its queue since it is there, oldest first."""
    since = message.broker_in_time_ms or message.timestamp_ms or 0
    lines = [one for one in log if one.logger == AUDIT_LOG and one.time_ms >= since]
    for line in reversed(lines):
        found = json.loads(line.text)
        ids = found.get("ids")
        if str(queue) in (found.get("destination"), found.get("to")) and (
            ids is None or str(message.message_id) in ids
        ):
            who = found["user"] or found["peer"]
            count = f", {counted(found['count'], 'message')}" if "count" in found else ""
            yield LifeEvent(found["time_ms"], f"{found['operation']} on its queue by {who}{count}")
