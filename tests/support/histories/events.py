"""The events of a history, as clients, brokers and the database know them; each is one line of JSON.

Times are seconds of one clock that all writers of a history share. A *scope* is what keeps messages for
one group of consumers: a queue (``ORDERS``), or a durable subscription of a topic (``NEWS/first``). The name
of a message is unique in the history; ``producer.number`` is also in the order of its producer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple


class Outcome(StrEnum):
    """What a client knows about the end of an operation."""

    OK = "ok"
    FAILED = "failed"
    """Certainly without an effect, now and later."""
    UNKNOWN = "unknown"


class Write(NamedTuple):
    """A transaction, or a single send or acknowledgement: all of it takes effect together, or nothing.

    A send of a topic is a send to each of its subscriptions: see :class:`Subscribe`.
    """

    begun: float
    ended: float
    client: str
    """The connection, session or process."""
    outcome: Outcome
    sends: tuple[tuple[str, str], ...] = ()
    """Scope or topic, and name."""
    acks: tuple[tuple[str, str], ...] = ()
    """Scope and name."""
    epoch: int = 0
    """Of the master that carried it out; 0 if the client does not know."""
    due: float = 0.0
    """The time before which nobody may get what is sent."""


class Delivery(NamedTuple):
    """A message that a consumer got."""

    at: float
    client: str
    scope: str
    name: str
    redelivered: bool
    """The mark of a delivery that may not be the first."""
    failures: int | None = None
    """The number of failed deliveries before this one, as the delivery itself says; None if it does not."""
    message_id: str = ""
    """If the protocol has any: one message never comes under two."""


class Return(NamedTuple):
    """A client's rejection of a message, which counts as a redelivery."""

    at: float
    client: str
    scope: str
    name: str
    outcome: Outcome


class Held(NamedTuple):
    """Claims that took effect, as the database recorded them at their commit."""

    at: float
    """By the database's clock, when it was decided how many there are."""
    client: str
    scope: str
    names: tuple[str, ...]
    """What was claimed."""
    held: int
    """The claims of the scope that are in force with these."""
    most: int | None
    """The limit of the scope that was set; None if there was none."""
    rate: float | None
    """The rate that was set, per second."""
    burst: int
    is_paused: bool = False
    in_order: bool = False
    """Whether the next message of a key is claimed once the one before is settled."""
    most_of_key: int | None = None
    """The limit of each key."""
    keys: tuple[tuple[str, str, int], ...] = ()
    """Of what is in force with these: the key, the message, and its place among those of the key that were
    there, from 0."""


class Leave(NamedTuple):
    """The end of a client, or of its lease: what it had and did not acknowledge may go to others."""

    at: float
    client: str


class Master(NamedTuple):
    """The begin of an epoch."""

    at: float
    client: str
    epoch: int


class Change(NamedTuple):
    """A row that was stored or removed, as the database recorded it: in this epoch."""

    at: float
    scope: str
    name: str
    epoch: int
    is_removed: bool = False


class Subscribe(NamedTuple):
    """A durable subscription, which gets what is sent to its topic from now on."""

    at: float
    scope: str
    topic: str


class Fault(NamedTuple):
    """A fault, which is over at ``ended``; service must be back soon after."""

    begun: float
    ended: float
    kind: str


class Left(NamedTuple):
    """A message that is in its scope at the end of the history."""

    scope: str
    name: str
    dead_for: str = ""
    """If this is a dead letter, the scope that the message was sent to."""


class Problem(NamedTuple):
    """Something that is wrong by itself, such as a client that crashed."""

    at: float
    text: str


Event = Write | Delivery | Return | Held | Leave | Master | Change | Subscribe | Fault | Left | Problem

_KINDS: dict[str, Any] = {
    kind.__name__.lower(): kind
    for kind in (Write, Delivery, Return, Held, Leave, Master, Change, Subscribe, Fault, Left, Problem)
}


def to_json(event: Event) -> str:
    """Return one line, without its end."""
    return json.dumps({"event": type(event).__name__.lower(), **event._asdict()})


def from_json(line: str) -> Event:
    """Return the event of a line.

    :raises ValueError: it is none
    """
    fields: dict[str, Any] = json.loads(line)
    kind = fields.pop("event", None)
    if kind not in _KINDS:
        raise ValueError(f"no event of a history: {line[:200]}")
    for name in ("sends", "acks"):
        if name in fields:
            fields[name] = tuple((scope, message) for scope, message in fields[name])
    if "names" in fields:
        fields["names"] = tuple(fields["names"])
    if "keys" in fields:
        fields["keys"] = tuple((key, name, place) for key, name, place in fields["keys"])
    if "outcome" in fields:
        fields["outcome"] = Outcome(fields["outcome"])
    event: Event = _KINDS[kind](**fields)
    return event


def read(lines: Iterable[str]) -> Iterator[Event]:
    """Read events, ignoring a last line that a killed process has not finished."""
    for line in lines:
        if line.endswith("\n"):
            yield from_json(line)
