"""The failed attempts to consume a message, which its dead letter keeps."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from jdbcstore.message.destination import Destination

_MOST = 10_000
"""The most messages with attempts; of more, the first are forgotten."""
_LAST = 20
"""The most attempts of a message."""


Key = tuple[Destination, bool, int]
"""A message of a source: its destination, whether it is stored, and its sequence."""


class Attempt(NamedTuple):
    """A failed attempt."""

    time_ms: int
    text: str
    """The outcome and the consumer."""


class Attempts:
    """The last failed attempts of messages that are not dead letters yet."""

    def __init__(self) -> None:
        self._by_message: OrderedDict[tuple[Key, str | None], deque[Attempt]] = OrderedDict()

    def record(self, messages: Iterable[Key], subscriber: str | None, attempt: Attempt) -> None:
        """Record the same attempt of each message.

        :param subscriber: ``client id:name`` of a durable subscription
        """
        for message in messages:
            key = message, subscriber
            self._by_message.setdefault(key, deque(maxlen=_LAST)).append(attempt)
            self._by_message.move_to_end(key)
            if len(self._by_message) > _MOST:
                self._by_message.popitem(last=False)

    def lines(self, message: Key, subscriber: str | None) -> str:
        """Return the attempts of a message as lines of text; empty if there are none."""
        attempts = self._by_message.get((message, subscriber), ())
        return "\n".join(f"{_time(attempt.time_ms)} {attempt.text}" for attempt in attempts)

    def forget(self, messages: Iterable[Key], subscriber: str | None) -> None:
        """Forget the attempts of messages, which have become dead letters."""
        for message in messages:
            self._by_message.pop((message, subscriber), None)


def attempts_of(lines: object) -> list[Attempt]:
    """Return the attempts in the property of a dead letter."""
    attempts = []
    for line in str(lines).splitlines():
        time, _, text = line.partition(" ")
        try:
            attempts.append(Attempt(round(datetime.fromisoformat(time).timestamp() * 1000), text))
        except ValueError:  # the property is of another program
            continue
    return attempts


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
