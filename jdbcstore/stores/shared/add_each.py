"""Messages that are stored together and refused alone: what stores have in common there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from jdbcstore.abc import Outcome
from jdbcstore.errors import InvalidDestination, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)
T = TypeVar("T")


class Places(Protocol[P_co]):
    """A store, to who looks for a message's destination in it."""

    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> P_co: ...

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> P_co: ...


def check_each(
    store: Places[P], messages: Sequence[Message], check: Callable[[P, Message], T]
) -> tuple[list[T], Callable[[list[Outcome]], list[Outcome]]]:
    """What a destination makes of each message that it does not refuse at once.

    And what makes, of the outcomes of these, that of every message, in its place.
    """
    found: dict[Destination | None, P] = {}
    checked: list[T] = []
    refused: dict[int, StoreError] = {}
    for at, message in enumerate(messages):
        try:
            place = found.get(message.destination)
            if place is None:
                place = found[message.destination] = _place_of(store, message)
            checked.append(check(place, message))
        except StoreError as error:
            refused[at] = error

    def in_their_places(outcomes: list[Outcome]) -> list[Outcome]:
        if not refused:
            return outcomes
        others = iter(outcomes)
        return [refused.get(at) or next(others) for at in range(len(messages))]

    return checked, in_their_places


def _place_of(store: Places[P], message: Message) -> P:
    destination = message.destination
    if destination is None:
        raise InvalidDestination("a message that is stored by itself needs a destination of its own")
    return store.topic(destination) if destination.is_topic else store.queue(destination)
