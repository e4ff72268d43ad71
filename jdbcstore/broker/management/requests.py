"""Untrusted requests of the management, checked field by field."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from jdbcstore.abc import Cursor
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.operations import NotARequest, Parameter
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.message import Message

_MOST_IDS = 1000
_LONGEST = 1 << 63
_LAST_ID = (1 << 63) - 1
LONGEST_TTL = 1 << 53
"""The longest lifetime of a message in milliseconds."""


class Fields:
    """The fields of a request; each is taken once, and unknown fields are an error.

    A field with an invalid value raises NotARequest, and so does a body that is not an object.
    """

    def __init__(self, values: Any) -> None:
        if not isinstance(values, dict):
            raise NotARequest("the body must be a JSON object, such as {}")
        self._values: dict[str, Any] = dict(values)

    def end(self) -> None:
        """Check that all fields were taken.

        :raises NotARequest: there are unknown fields
        """
        if self._values:
            raise NotARequest(f"unknown field {sorted(map(repr, self._values))[0][:80]}; remove it")

    def arguments(self, parameters: Iterable[Parameter]) -> dict[str, Any]:
        """Return the arguments of an operation, without absent ones, whose defaults are the method's.

        :raises NotARequest: an argument is invalid
        """
        arguments = {}
        for parameter in parameters:
            names = () if parameter.key is None else (parameter.key,)
            value = getattr(self, parameter.reader)(*names, **parameter.limits)
            if value is None:
                value = parameter.default
            if value is not None:
                arguments[parameter.name] = value
        return arguments

    def take(self, name: str) -> Any:
        """Return the value of a field; None if it is absent."""
        return self._values.pop(name, None)

    def text(self, name: str) -> str | None:
        """Return a string."""
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            raise NotARequest(f"{name} must be a string")
        return value

    def one_of(self, name: str, choices: Sequence[str]) -> str | None:
        """Return one of these strings."""
        value = self.text(name)
        if value is not None and value not in choices:
            raise NotARequest(f"{name} must be one of {', '.join(choices)}")
        return value

    def number(self, name: str, *, least: int, most: int = _LONGEST) -> int | None:
        """Return an integer within these limits; in a query, it is digits."""
        value = self.take(name)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
            value = int(value)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise NotARequest(f"{name} must be an integer from {least} to {most}")
        return value

    def decimal(self, name: str) -> float | None:
        """Return a number."""
        value = self.take(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise NotARequest(f"{name} must be a number, such as 0.5")
        return value

    def flag(self, name: str) -> bool | None:
        """Return true or false."""
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise NotARequest(f"{name} must be true or false")
        return value

    def switch(self, name: str) -> bool | None:
        """Return true or false, in a query."""
        value = self.one_of(name, ("true", "false"))
        return None if value is None else value == "true"

    def expiration(self, name: str) -> int | None:
        """Return the expiration time for a lifetime in milliseconds; 0, which is never, for 0."""
        return expiration_of(self.number(name, least=0, most=LONGEST_TTL))

    def destination(self, name: str) -> Destination:
        """Return a queue or topic by its required name.

        :raises NotARequest: it is absent or not a string
        :raises InvalidDestination: it is not a name
        """
        value = self.text(name)
        if not value:
            raise NotARequest(f"{name} must be a destination, such as queue://ORDERS")
        return Destination.named(value)

    def choice(self) -> MessageChoice:
        """Return the messages to act on: ``ids``, ``selector``, ``limit``, ``expired``, ``origin``.

        :raises NotARequest: a field is invalid
        :raises InvalidDestination: ``origin`` is not a name
        """
        ids = self.take("ids")
        if ids is not None:
            if not isinstance(ids, list) or not all(isinstance(id_, str) and id_ for id_ in ids):
                raise NotARequest("ids must be a list of message ids")
            if len(ids) > _MOST_IDS:
                raise NotARequest(f"ids must be at most {_MOST_IDS}; use several requests")
        selector = self.text("selector")
        if selector is not None and not selector.strip():
            raise NotARequest("selector is empty, and would match every message; omit it for that")
        return MessageChoice(
            ids=None if ids is None else tuple(ids),
            selector=selector,
            limit=self.number("limit", least=1),
            expired=self.flag("expired") or False,
            origin=self.origin(),
        )

    def selected(self, *, by_origin: bool = False) -> MessageChoice:
        """Return the messages to read: ``selector``, and ``origin`` if it is allowed.

        :raises NotARequest: a field is invalid
        :raises InvalidDestination: ``origin`` is not a name
        """
        selector = self.text("selector")
        return MessageChoice(selector=selector, origin=self.origin() if by_origin else None)

    def origin(self) -> Destination | None:
        """Return the original destination of messages, which may have wildcards.

        :raises NotARequest: it is not a string
        :raises InvalidDestination: it is not a name
        """
        origin = self.text("origin")
        return None if origin is None else Destination.named(origin)

    def cursor(self, name: str) -> Cursor | None:
        """Return a position between two messages, in the form of :func:`position`."""
        text = self.text(name)
        if not text:
            return None
        parts = text.split(",")
        if not all(
            part.removeprefix("-").isascii() and part.removeprefix("-").isdecimal() and len(part) < 20
            for part in parts
        ):
            raise NotARequest(f"{name} is not a position in a queue; begin with the first page")
        return Cursor(tuple(map(int, parts)))

    def messages(self) -> tuple[Message]:
        """Return the message in a request, without a destination.

        :raises NotARequest: a field is wrong
        :raises InvalidDestination: ``reply_to`` is not a name
        :raises InvalidMessage: the message is invalid
        """
        properties = self.take("properties")
        if properties is None:
            properties = {}
        if not isinstance(properties, dict) or not all(
            name and isinstance(value, str | int | float | bool | None) for name, value in properties.items()
        ):
            raise NotARequest("properties must be an object of strings, numbers, true and false")
        now_ms = time.time_ns() // 1_000_000
        ttl_ms = self.number("ttl_ms", least=1, most=LONGEST_TTL)
        reply_to, priority = self.text("reply_to"), self.number("priority", least=0, most=9)
        persistent = self.flag("persistent")
        message = Message(
            self.text("body"),
            properties=properties,
            timestamp_ms=now_ms,
            broker_in_time_ms=now_ms,
            expiration_ms=0 if ttl_ms is None else now_ms + ttl_ms,
            priority=4 if priority is None else priority,
            persistent=True if persistent is None else persistent,
            correlation_id=self.text("correlation_id"),
            jms_type=self.text("jms_type"),
            reply_to=None if reply_to is None else Destination.named(reply_to),
        )
        return (message,)


def position(cursor: Cursor | None) -> str | None:
    """Return a position between two messages in the form for addresses; None at the end."""
    return None if cursor is None else ",".join(map(str, cursor.positions))


def destination_of(name: str, kind: DestinationKind) -> Destination:
    """Return the queue or topic to send to, by a name; the address has the kind.

    :raises NotARequest: the name has the other kind
    :raises InvalidDestination: it is not a name
    """
    destination = Destination.named(name, kind)
    if destination.is_topic != (kind is DestinationKind.TOPIC):
        kinds = ("queue", "topic") if destination.is_topic else ("topic", "queue")
        raise NotARequest(
            f"the address is for a {kinds[0]}, but {destination} is a {kinds[1]};"
            f" use the address for a {kinds[1]}"
        )
    return destination


def sequence_of(text: str) -> int:
    """Return the ID of a message's row.

    :raises NotARequest: the text is not an ID
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= _LAST_ID):
        raise NotARequest(f"{text[:80]!r} is not the ID of a message; see the list of claims")
    return int(text)


def expiration_of(ttl_ms: int | None) -> int | None:
    """Return the expiration time of a message with a lifetime from now; 0, which is never, for 0."""
    return ttl_ms and time.time_ns() // 1_000_000 + ttl_ms
