"""Destinations and messages of the replay tests."""

from __future__ import annotations

from collections.abc import Iterator

from jdbcstore import Destination, Message
from jdbcstore.abc import Store, pages
from jdbcstore.errors import CorruptMessage
from jdbcstore.tools.replay import Historic

ORDERS, AGAIN = Destination.queue("ORDERS"), Destination.queue("AGAIN")


class Past:
    """Messages in a list; ``stop`` has reading fail there."""

    name = "past"

    def __init__(self, *messages: Message | CorruptMessage, stop: int = -1) -> None:
        self._messages = messages
        self._stop = stop

    def messages(self, after: str | None) -> Iterator[Historic]:
        for number, message in enumerate(self._messages):
            if number == self._stop:
                raise OSError("stopped")
            if after is None or number > int(after):
                yield Historic(str(number), ORDERS, message, 100)


def past(count: int, stop: int = -1) -> Past:
    return Past(*(Message(f"{number}", properties={"n": number}) for number in range(count)), stop=stop)


def consumed(store: Store, destination: Destination = AGAIN) -> list[Message]:
    queue = store.queue(destination)
    messages = [message for page in pages(queue) for message in page]
    queue.acknowledge(*messages)
    return messages
