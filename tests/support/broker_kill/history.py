"""What the clients know: what they tried, what was confirmed to them, and what they were given."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

QUEUES = ("ORDERS", "ITEMS", "WORK", "OUT")
SUBSCRIPTIONS = ("first", "second")
TOPIC = "NEWS"
SCOPES = (*QUEUES, *SUBSCRIPTIONS)
"""Whatever a message waits in: queues, and the durable subscriptions of the topic."""
ALONE = ("WORK", "OUT", *SUBSCRIPTIONS)
"""Those of them that have one consumer at a time."""


def scopes_of(destination: str) -> tuple[str, ...]:
    return SUBSCRIPTIONS if destination == TOPIC else (destination,)


class Moment(NamedTuple):
    """When something was seen. What one broker said was said before all that the next one did."""

    incarnation: int
    number: int


class Delivery(NamedTuple):
    when: Moment
    scope: str
    name: str
    message_id: str
    redelivered: bool
    connection: int


@dataclass
class Transaction:
    """Sends that happen together or not at all."""

    name: str
    sends: list[tuple[str, str]]
    """Destination and message."""
    end: Literal["open", "aborting", "committing", "committed"] = "open"


class History:
    """Filled by the clients' threads, in the order in which they know it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0
        self.confirmed: dict[str, set[str]] = defaultdict(set)
        """By scope: the messages whose sending was confirmed."""
        self.tried: dict[str, set[str]] = defaultdict(set)
        """By scope: those sent, or about to be committed."""
        self.acking: dict[str, set[str]] = defaultdict(set)
        """By scope: those whose acknowledgement was sent, or about to be committed."""
        self.acked: dict[str, dict[str, Moment]] = defaultdict(dict)
        """By scope: those whose acknowledgement was confirmed."""
        self.deliveries: list[Delivery] = []
        self.transactions: list[Transaction] = []
        self.left: set[tuple[str, int]] = set()
        """Scopes, and the broker's incarnation in which a consumer left them by itself."""
        self.problems: list[str] = []
        self._waiting: dict[str, int] = defaultdict(int)

    def trying(self, destination: str, names: Iterable[str]) -> None:
        with self._changed:
            for scope in scopes_of(destination):
                self.tried[scope].update(names)

    def confirm(self, destination: str, name: str) -> None:
        with self._changed:
            for scope in scopes_of(destination):
                self.confirmed[scope].add(name)
                self._waiting[scope] += name not in self.acking[scope]
            self._note()

    def deliver(
        self, incarnation: int, connection: int, scope: str, name: str, message_id: str, redelivered: bool
    ) -> None:
        with self._changed:
            when = Moment(incarnation, self._note())
            self.deliveries.append(Delivery(when, scope, name, message_id, redelivered, connection))

    def acknowledging(self, scope: str, names: Iterable[str]) -> None:
        with self._changed:
            for name in names:
                if name not in self.acking[scope]:
                    self.acking[scope].add(name)
                    self._waiting[scope] -= name in self.confirmed[scope]
            self._note()

    def acknowledged(self, incarnation: int, scope: str, names: Iterable[str]) -> None:
        with self._changed:
            when = Moment(incarnation, self._note())
            self.acked[scope].update(dict.fromkeys(names, when))

    def leave(self, scope: str, incarnation: int) -> None:
        with self._changed:
            self.left.add((scope, incarnation))

    def problem(self, what: str) -> None:
        with self._changed:
            self.problems.append(what)
            self._note()

    def _note(self) -> int:
        self._number += 1
        self._changed.notify_all()
        return self._number

    @property
    def number(self) -> int:
        """How much was noted."""
        return self._number

    def wait_beyond(self, number: int, timeout: float) -> bool:
        """Wait until more than that was noted."""
        with self._changed:
            return self._changed.wait_for(lambda: self._number > number, timeout)

    def wait_room(self, destination: str, limit: int, timeout: float) -> None:
        """Wait until fewer messages wait in the destination."""
        with self._changed:
            self._changed.wait_for(
                lambda: all(self._waiting[scope] < limit for scope in scopes_of(destination)), timeout
            )
