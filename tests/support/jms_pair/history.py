"""What the clients of a mixed pair were promised and what they got, and what of it must not be."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

QUEUE, TOPIC = "PAIR.Q", "PAIR.T"
SUBSCRIBERS = ("transacted", "acknowledging")
READERS = {QUEUE: (QUEUE,), TOPIC: SUBSCRIBERS}
"""Who must get the messages of a destination: the consumers of the queue together, each subscriber alone."""


class End(Enum):
    """What the client says about a transaction, or about a message outside of one."""

    DONE = "done"
    ROLLED_BACK = "rolled back"
    IN_DOUBT = "in doubt"


class Sent(NamedTuple):
    """Messages that were sent together: destination and body of each."""

    messages: tuple[tuple[str, str], ...]
    end: End


class Delivery(NamedTuple):
    """A message that a client's ``receive`` has returned."""

    reader: str
    body: str
    redelivered: bool
    broker: str
    """That the client was connected to."""


@dataclass(frozen=True)
class Findings:
    """The result of a run."""

    wrong: list[str]
    skipped_by_java: list[str]
    """Messages that were acknowledged in the tables when ActiveMQ ended, for a subscriber that never
    consumed them. ActiveMQ keeps one number for each subscription, that of its last acknowledgement, and
    with two of it there are such messages, too."""
    lost_by_java: list[str]
    """Messages of the queue that were in the tables when ActiveMQ became the master, and when it ended were
    not, though nobody had consumed them. In a transaction it acknowledges all that it has dispatched between
    the two ends of a range (``PrefetchSubscription.assertAckMatchesDispatched`` compares the numbers only
    outside of one), and after a failover its client consumes messages again in an order of its own."""
    held_by_java: int
    """Messages that came only to new consumers. ActiveMQ refuses ranges with messages that it has not
    dispatched, which its client has from the broker before; the client drops what else is in them, and for
    ActiveMQ that stays dispatched until the consumer ends."""
    unmarked_by_java: int
    """Duplicates that ActiveMQ did not mark: it forgets what an earlier broker delivered."""
    in_doubt: int
    dead: int


class History:
    """Written by all clients; for any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.number = 0
        """How much was confirmed."""
        self.sent: list[Sent] = []
        self.deliveries: list[Delivery] = []
        self.consumed: defaultdict[str, dict[str, End]] = defaultdict(dict)
        """By reader and body, the best end of its consumption."""
        self.problems: list[str] = []
        self.master = ""
        """Which broker serves, and since how many ends of others; for what is printed."""
        self._skipped: dict[tuple[str, str], str] = {}
        """Readers and messages that were acknowledged in the tables and not consumed, when a broker ended."""
        self._lost: dict[str, str] = {}
        """Messages of the queue that were neither stored nor consumed when a broker had ended, and which."""
        self.held = 0
        """How many messages came only to new consumers, of a broker that is not ours."""
        self._events: defaultdict[str, list[str]] = defaultdict(list)
        """By body, all that happened to the message."""

    def send(self, messages: Collection[tuple[str, str]], end: End) -> None:
        with self._changed:
            self.sent.append(Sent(tuple(messages), end))
            for _, body in messages:
                self._events[body].append(f"sent, {end.value} ({self.master})")
            self._count(end)

    def deliver(self, delivery: Delivery) -> None:
        with self._changed:
            self.deliveries.append(delivery)
            mark = " again" if delivery.redelivered else ""
            self._events[delivery.body].append(
                f"to {delivery.reader}{mark} by {delivery.broker} ({self.master})"
            )

    def consume(self, reader: str, bodies: Collection[str], end: End) -> None:
        with self._changed:
            consumed = self.consumed[reader]
            for body in bodies:
                self._events[body].append(f"by {reader}, {end.value} ({self.master})")
                if consumed.get(body) is not End.DONE and end is not End.ROLLED_BACK:
                    consumed[body] = end
            self._count(end)

    def skip(self, broker: str, acknowledged: Collection[tuple[str, str, str]]) -> None:
        """Note what an ended broker's tables say is acknowledged: reader, body, and why."""
        with self._changed:
            for reader, body, why in acknowledged:
                if body not in self.consumed[reader] and (reader, body) not in self._skipped:
                    self._skipped[reader, body] = broker
                    self._events[body].append(f"acknowledged for {reader} by {self.master}: {why}")

    def confirmed(self, destination: str) -> set[str]:
        """What its producers were promised."""
        with self._changed:
            done = [sent.messages for sent in self.sent if sent.end is End.DONE]
        return {body for messages in done for where, body in messages if where == destination}

    def lose(self, broker: str, absent: Collection[str]) -> None:
        """Note the messages of the queue that are not in the tables when a broker has ended."""
        with self._changed:
            for body in absent:
                if body not in self.consumed[QUEUE] and body not in self._lost:
                    self._lost[body] = broker
                    self._events[body].append(f"not in the tables after {self.master}")

    def _count(self, end: End) -> None:
        if end is End.DONE:
            self.number += 1
            self._changed.notify_all()

    def problem(self, text: str) -> None:
        with self._changed:
            self.problems.append(text)

    def wait_beyond(self, number: int, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.number > number, seconds)

    def missing(self, dead: Collection[str]) -> dict[str, set[str]]:
        """Confirmed messages that a reader has not consumed, and that are not dead letters either."""
        confirmed = {where: self.confirmed(where) for where in READERS}
        with self._changed:
            return {
                reader: confirmed[where] - self.consumed[reader].keys() - {*dead}
                for where, readers in READERS.items()
                for reader in readers
            }

    def check(self, dead: Collection[str]) -> Findings:
        """After all clients have ended."""
        wrong = [*self.problems]
        skipped: list[str] = []
        lost: list[str] = []
        for reader, bodies in self.missing(dead).items():
            for body in sorted(bodies):
                text = f"{body} was confirmed, and {reader} has not got it: {self._events[body]}"
                is_skipped = self._skipped.get((reader, body)) == "java"
                is_lost = reader == QUEUE and self._lost.get(body) == "java"
                (skipped if is_skipped else lost if is_lost else wrong).append(text)
        got: defaultdict[str, set[str]] = defaultdict(set)
        marked: set[tuple[str, str]] = set()
        """Readers and messages that have come only with a mark, from ours."""
        unmarked: Counter[str] = Counter()
        for delivery in self.deliveries:
            bodies = got[delivery.reader]
            one = delivery.reader, delivery.body
            if delivery.redelivered and delivery.broker != "java":
                marked |= {one} - {(delivery.reader, body) for body in bodies}
            elif one in marked:
                # A client may consume what it had prefetched when its connection was closed after another
                # has consumed the copy with the mark. So the rule is that one delivery has none.
                marked.remove(one)
            elif delivery.body in bodies and not delivery.redelivered:
                unmarked[delivery.broker] += 1
                if delivery.broker != "java":
                    events = self._events[delivery.body]
                    wrong.append(f"{delivery.body} came to {delivery.reader} again without a mark: {events}")
            bodies.add(delivery.body)
        for sent in self.sent:
            wrong += self._check_batch(sent, got, dead)
        in_doubt = sum(sent.end is End.IN_DOUBT for sent in self.sent) + sum(
            end is End.IN_DOUBT for ends in self.consumed.values() for end in ends.values()
        )
        return Findings(wrong, skipped, lost, self.held, unmarked["java"], in_doubt, len(dead))

    def _check_batch(self, sent: Sent, got: dict[str, set[str]], dead: Collection[str]) -> list[str]:
        if sent.end is End.DONE:
            return []
        present = {
            body
            for destination, body in sent.messages
            if body in dead or any(body in got[reader] for reader in READERS[destination])
        }
        names = ", ".join(body for _, body in sent.messages)
        if sent.end is End.ROLLED_BACK and present:
            return [f"{names} were rolled back, and {sorted(present)} came"]
        if present and len(present) < len(sent.messages):
            return [f"of the transaction with {names} only {sorted(present)} came"]
        return []
