"""Changes of a store besides messages: where each broker has a database of its own, records of the journal.

They are durable there first. Each database takes them in the order of the records, in the transaction that
moves its mark beyond them, so they meet the same state in all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jdbcstore.abc import SubscriptionInfo
from jdbcstore.message.destination import Destination

SUBSCRIBE, UNSUBSCRIBE = "subscribe", "unsubscribe"
RECORD_QUEUE, DROP_RECORD = "record queue", "drop record"
PAUSE, RESUME = "pause", "resume"
ANNOUNCE = "announce"
BEGIN = "begin"
"""The first record of each master, with its number as the stream has it, and whether its database was empty:
if the first one's was not, another broker needs a copy of it."""
KINDS = (SUBSCRIBE, UNSUBSCRIBE, RECORD_QUEUE, DROP_RECORD, PAUSE, RESUME, ANNOUNCE, BEGIN)


@dataclass(frozen=True, slots=True)
class RecordedOperation:
    """One change: its kind and its arguments, as JSON values."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return it for a record."""
        return json.dumps([self.kind, dict(self.facts)], separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> RecordedOperation:
        """Return what :meth:`encode` has encoded.

        :raises ValueError: this version cannot read it
        """
        operation = json.loads(data)
        if not (isinstance(operation, list) and len(operation) == 2 and isinstance(operation[1], dict)):
            raise ValueError("it is not an operation")
        if operation[0] not in KINDS:
            raise ValueError(f"there is no operation {operation[0]!r}")
        return cls(operation[0], operation[1])

    @property
    def writer(self) -> int:
        """The number of the process whose records begin with it; 0 if none do, or it is not known."""
        # The first version of this record did not have it.
        return int(self.facts.get("writer", 0)) if self.kind == BEGIN else 0

    @property
    def destination(self) -> Destination:
        """The destination that it is about."""
        return Destination.parse(str(self.facts["destination"]))

    @property
    def subscriber(self) -> tuple[str, str]:
        """The client id and the name of the subscription that it is about."""
        return str(self.facts["client_id"]), str(self.facts["name"])

    @property
    def info(self) -> SubscriptionInfo:
        """The subscription that is created."""
        client_id, name = self.subscriber
        subscribed = Destination.parse(str(self.facts["subscribed"]))
        return SubscriptionInfo(client_id, name, self.destination, subscribed, self.facts["selector"])


def subscribing(info: SubscriptionInfo, mark: int, lanes: int) -> RecordedOperation:
    """Return the creation of a subscription that has consumed everything up to a mark."""
    facts = {
        "destination": info.destination.qualified_name,
        "client_id": info.client_id,
        "name": info.subscription_name,
        "subscribed": info.subscribed_destination.qualified_name,
        "selector": info.selector,
        "mark": mark,
        "lanes": lanes,
    }
    return RecordedOperation(SUBSCRIBE, facts)


def unsubscribing(topic: Destination, client_id: str, name: str) -> RecordedOperation:
    """Return the deletion of a subscription."""
    facts = {"destination": topic.qualified_name, "client_id": client_id, "name": name}
    return RecordedOperation(UNSUBSCRIBE, facts)


def of_queue(kind: str, queue: Destination) -> RecordedOperation:
    """Return an operation on one queue."""
    return RecordedOperation(kind, {"destination": queue.qualified_name})


def pausing(queue: Destination, user: str, now_ms: int) -> RecordedOperation:
    """Return that a queue is paused."""
    facts = {"destination": queue.qualified_name, "user": user, "now_ms": now_ms}
    return RecordedOperation(PAUSE, facts)


def announcing(addresses: Iterable[tuple[str, str]], now_ms: int) -> RecordedOperation:
    """Return the addresses of the master."""
    return RecordedOperation(
        ANNOUNCE, {"addresses": [list(address) for address in addresses], "now_ms": now_ms}
    )
