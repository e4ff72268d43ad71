"""Dead letters by original destination, reason and consumer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from jdbcstore.broker.attempts import attempts_of
from jdbcstore.broker.console.charts import bars
from jdbcstore.broker.console.database import ConsoleSource
from jdbcstore.broker.management.messages import MessageChoice, consumer_of, group_of, reason_of
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.dead_letters import ATTEMPTS
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

MOST = 1000
"""The most dead letters of a queue that are grouped."""
_PAGE = 200
"""Dead letters read per iteration of the event loop."""


@dataclass(slots=True)
class DeadLetterGroup:
    """Dead letters with the same origin, reason and consumer."""

    key: str
    origin: Destination | None
    reason: str
    consumer: str
    """The client, user and host of the last attempt; empty if unknown."""
    ids: list[str] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    """The known times of the last attempts, or of sending."""

    @property
    def newest_ms(self) -> int | None:
        """The last of these times."""
        return max(self.times_ms, default=None)

    def add(self, message: Message) -> None:
        """Add a message."""
        self.ids.append(str(message.message_id))
        time_ms = _time_of(message)
        if time_ms:
            self.times_ms.append(time_ms)


@dataclass(frozen=True, slots=True)
class Grouped:
    """The groups of one dead letter queue, the largest first."""

    queue: Destination
    groups: tuple[DeadLetterGroup, ...]
    seen: int
    is_all: bool
    """Whether all dead letters were read."""

    def bars(self, group: DeadLetterGroup) -> str:
        """Return the path of a histogram of the times in a group, on the time scale of the queue."""
        times = [time_ms for each in self.groups for time_ms in each.times_ms]
        return bars(group.times_ms, min(times, default=0), max(times, default=0))

    def chosen(self, key: str) -> DeadLetterGroup | None:
        """Return a group by its key."""
        return next((group for group in self.groups if group.key == key), None)


def _time_of(message: Message) -> int | None:
    try:
        attempts = attempts_of(message.properties.get(ATTEMPTS, ""))
    except CorruptMessage:
        attempts = []
    return attempts[-1].time_ms if attempts else message.timestamp_ms


async def grouped(source: ConsoleSource, queue: Destination) -> Grouped:
    """Return the first dead letters of a queue, in groups.

    :raises DestinationNotFound: it does not exist
    :raises StoreError: the store cannot be read
    """
    by_key: dict[str, DeadLetterGroup] = {}
    seen, after = 0, None
    while True:
        page = await source.page(queue, MessageChoice(), after=after, limit=_PAGE)
        seen, after = seen + len(page.messages), page.next
        _add(by_key, page.messages)
        if after is None or seen >= MOST:
            break
    groups = tuple(sorted(by_key.values(), key=lambda group: -len(group.ids)))
    return Grouped(queue, groups, seen, after is None and not page.transient)


def _add(groups: dict[str, DeadLetterGroup], messages: Iterable[Message]) -> None:
    for message in messages:
        key = group_of(message)
        if key not in groups:
            origin, reason = message.original_destination, reason_of(message)
            groups[key] = DeadLetterGroup(key, origin, reason, consumer_of(message))
        if message.message_id is not None:
            groups[key].add(message)
