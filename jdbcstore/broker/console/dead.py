"""Dead letters by original destination and reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from jdbcstore.broker.console.database import ConsoleSource
from jdbcstore.broker.management.messages import MessageChoice, group_of, reason_of
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

MOST = 1000
"""The most dead letters of a queue that are grouped."""
_PAGE = 200
"""Dead letters read per iteration of the event loop."""


@dataclass(slots=True)
class DeadLetterGroup:
    """Dead letters with the same origin and reason."""

    key: str
    origin: Destination | None
    reason: str
    ids: list[str] = field(default_factory=list)
    oldest_ms: int | None = None
    newest_ms: int | None = None

    def add(self, message: Message) -> None:
        """Add a message."""
        self.ids.append(str(message.message_id))
        time_ms = message.timestamp_ms
        if time_ms:
            self.oldest_ms = min(self.oldest_ms or time_ms, time_ms)
            self.newest_ms = max(self.newest_ms or time_ms, time_ms)


@dataclass(frozen=True, slots=True)
class Grouped:
    """The groups of one dead letter queue, the largest first."""

    queue: Destination
    groups: tuple[DeadLetterGroup, ...]
    seen: int
    is_all: bool
    """Whether all dead letters were read."""


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
            groups[key] = DeadLetterGroup(key, message.original_destination, reason_of(message))
        if message.message_id is not None:
            groups[key].add(message)
