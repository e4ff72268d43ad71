"""The messages of a shop, and what their generator knows of them: right answers without any store."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import jdbcstore
from jdbcstore import Destination, Message
from jdbcstore.message.dead_letters import CAUSE

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
REGIONS = ("north", "south", None)
CAUSES = ("timeout", "no such table")
QUEUES = ("ORDERS", "EVENTS")
_HUGE = 1 << 70


@dataclass(frozen=True)
class Sent:
    """A message, as it was sent."""

    number: int
    destination: str
    time_ms: int
    customer: str
    region: str | None
    group: str | None
    redeliveries: int
    amount: Decimal
    shape: int
    """That of the body: the amount is a number, a string, or in an object."""

    @property
    def body(self) -> str:
        text = str(self.amount)
        amount: Any = (float(self.amount), text, {"value": text})[self.shape]
        return json.dumps({"amount": amount, "sides": ["peas"] * self.shape, "huge": _HUGE + self.number})

    @property
    def huge(self) -> int:
        return _HUGE + self.number

    @property
    def day(self) -> date:
        """The day on this machine."""
        return datetime.fromtimestamp(self.time_ms / 1000).astimezone().date()

    @property
    def day_in_utc(self) -> date:
        return datetime.fromtimestamp(self.time_ms / 1000, UTC).date()

    def message(self) -> Message:
        region = {} if self.region is None else {"region": self.region}
        return Message(
            self.body,
            timestamp_ms=self.time_ms,
            group_id=self.group,
            redelivery_counter=self.redeliveries,
            properties={"number": self.number, "customer": self.customer, **region},
        )


@dataclass
class Shop:
    """All that was sent, by the names of the destinations."""

    sent: list[Sent] = field(default_factory=list)
    pending: dict[str, set[int]] = field(default_factory=dict)
    """The numbers of the messages of NEWS that each subscription still has to get."""
    dead: dict[int, str] = field(default_factory=dict)
    """The causes of the dead letters, by their numbers."""

    def of(self, *names: str) -> list[Sent]:
        return [each for each in self.sent if each.destination in names]


def fill(url: str, now_ms: int, count: int, seed: int = 7) -> Shop:
    """Send messages to two queues, a topic and the dead letter queue, of which each gets ``count``."""
    chance, shop = random.Random(seed), Shop()
    with jdbcstore.open(url, cleanup_period=0.0) as store:
        news = store.topic("NEWS")
        all_, some, ahead = (news.subscribe(name, name) for name in ("all", "some", "ahead"))
        for destination in (*map(Destination.queue, QUEUES), news.destination):
            made = [*_made(chance, str(destination), now_ms, len(shop.sent), count)]
            shop.sent += made
            target = news if destination.is_topic else store.queue(destination)
            target.add_messages([each.message() for each in made])
        stored = [*news.recover(limit=count)]
        numbers = [each.number for each in shop.of(str(news.destination))]
        some.acknowledge(*stored[: count // 3])
        ahead.acknowledge(*stored[1::3])
        shop.pending = {
            "all": {*numbers},
            "some": {*numbers[count // 3 :]},
            "ahead": {*numbers} - {*numbers[1::3]},
        }
        assert all_.message_count() == count
        letters, origin = [], Destination.queue("ORDERS")
        for each in _made(chance, "queue://ActiveMQ.DLQ", now_ms, len(shop.sent), count):
            shop.sent.append(each)
            shop.dead[each.number] = cause = chance.choice(CAUSES)
            letter = each.message()
            properties = {**letter.properties, CAUSE: f"java.lang.Throwable: {cause}"}
            letters.append(letter.replace(original_destination=origin, properties=properties))
        store.queue("ActiveMQ.DLQ").add_messages(letters)
    return shop


def _made(chance: random.Random, destination: str, now_ms: int, first: int, count: int) -> Iterator[Sent]:
    for number in range(first, first + count):
        yield Sent(
            number=number,
            destination=destination,
            # None within minutes of an hour ago, or of a day ago: the clock goes on.
            time_ms=now_ms - chance.choice((0, DAY, 2 * DAY)) - chance.choice((15, 80, 200)) * MINUTE
            + chance.randrange(10 * MINUTE),
            customer=f"c{chance.randrange(count // 4 + 1)}",
            region=chance.choice(REGIONS),
            group=chance.choice((None, "g1", "g2", "g3")),
            redeliveries=chance.choice((0, 0, 0, 1, 2, 5)),
            amount=Decimal(chance.randrange(100_000)) / 100,
            shape=0 if destination.endswith("ORDERS") else chance.randrange(3),
        )  # fmt: skip
