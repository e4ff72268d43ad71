"""``send``."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import click

from jdbcstore.abc import MessageReference, MessageStore
from jdbcstore.cli.options import Command, DestinationType, Settings
from jdbcstore.cli.output import counted, note, printable, progress, write_json, write_line
from jdbcstore.errors import InvalidMessage, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.values import Byte, Char, Float, Long, Short

_IN_FLIGHT = 1_000


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_TYPES: dict[str, Callable[[str], Any]] = {
    "string": str,
    "boolean": _boolean,
    "byte": lambda text: Byte(int(text)),
    "short": lambda text: Short(int(text)),
    "int": int,
    "long": lambda text: Long(int(text)),
    "float": lambda text: Float(float(text)),
    "double": float,
    "char": Char,
}


class PropertyType(click.ParamType[tuple[str, Any]]):
    """``name=value``, or ``name:type=value`` with a type of Java."""

    name = "property"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        left, equals, text = str(value).partition("=")
        name, _, kind = left.partition(":")
        if not equals or not name:
            self.fail(f"{value!r} is no property; write name=value or name:int=5", param, ctx)
        if kind and kind not in _TYPES:
            self.fail(f"{kind!r} is no type of property; use one of {', '.join(_TYPES)}", param, ctx)
        try:
            return name, _in_range(kind, _TYPES[kind or "string"](text))
        except (ValueError, InvalidMessage):
            self.fail(f"{text!r} is no {kind}", param, ctx)


def _in_range(kind: str, value: Any) -> Any:
    if kind == "int" and not -(1 << 31) <= value < 1 << 31:
        raise ValueError(value)
    return value


@click.command(cls=Command)
@click.argument("destination", metavar="DEST", type=DestinationType(takes_messages=True))
@click.argument("body", required=False)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Send the message N times.")
@click.option("--property", "properties", type=PropertyType(), multiple=True, metavar="NAME=VALUE",
              help="A property, as text; NAME:TYPE=VALUE with TYPE boolean, byte, short, int, long, float,"
              " double, char or string. May be repeated.")  # fmt: skip
@click.option("--priority", type=click.IntRange(0, 9), default=4, show_default=True, help="9 is highest.")
@click.option("--ttl", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="How long the message is worth delivering; else for ever.")  # fmt: skip
@click.option("--correlation-id", metavar="TEXT")
@click.option("--reply-to", type=DestinationType(), metavar="DEST")
@click.option("--type", "jms_type", metavar="TEXT", help="The JMSType header.")
@click.pass_obj
def send(
    settings: Settings,
    /,
    destination: Destination,
    body: str | None,
    count: int | None,
    ttl: float | None,
    properties: tuple[tuple[str, Any], ...],
    **headers: Any,
) -> None:
    """Store messages durably.

    BODY is the text of the message; with -, each line of standard input becomes a message as it
    comes; without, the message has no body.
    """
    if body == "-" and count is not None:
        raise click.UsageError("--count repeats one BODY; it cannot be used with the lines of -")
    texts: Iterator[str | None] = _lines() if body == "-" else (body for _ in range(count or 1))

    def message(text: str | None) -> Message:
        now_ms = time.time_ns() // 1_000_000
        expiration_ms = 0 if ttl is None else now_ms + max(1, round(ttl * 1000))
        return Message(
            text, timestamp_ms=now_ms, expiration_ms=expiration_ms, properties=dict(properties), **headers
        )

    total = None if body == "-" else count or 1
    with settings.open() as store, progress("sending", total) as done:
        target: MessageStore = store.topic(destination) if destination.is_topic else store.queue(destination)
        sender = _Sender(target, done)
        try:
            for text in texts:
                sender.send(message(text))
            sender.settle()
        except (StoreError, KeyboardInterrupt):
            note(f"{counted(sender.abandon())} stored before that")
            raise
    if settings.json:
        write_json({"destination": str(destination), **sender.facts()})
    else:
        write_line(sender.summary(destination))


def _lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise InvalidMessage(f"line {number} of the input is not UTF-8; convert it first") from None


class _Sender:
    """Keeps some messages on their way, so that one commit takes many."""

    def __init__(self, target: MessageStore, done: Callable[[int], None]) -> None:
        self._target = target
        self._done = done
        self._in_flight: deque[Future[MessageReference]] = deque()
        self._first: MessageReference | None = None
        self._last: MessageReference | None = None
        self._stored = 0

    def send(self, message: Message) -> None:
        """Hand a message over; raises what happened to one before."""
        self._in_flight.append(self._target.add_message_async(message))
        while self._in_flight and (self._in_flight[0].done() or len(self._in_flight) >= _IN_FLIGHT):
            self._take()

    def settle(self) -> None:
        """Wait until all are stored."""
        while self._in_flight:
            self._take()

    def abandon(self) -> int:
        """Wait for what is on its way, whatever becomes of it; how many messages were stored."""
        while self._in_flight:
            with suppress(StoreError):
                self._take()
        return self._stored

    def _take(self) -> None:
        self._last = self._in_flight.popleft().result()
        self._first = self._first or self._last
        self._stored += 1
        self._done(1)

    def facts(self) -> dict[str, object]:
        first, last = self._first, self._last
        return {
            "sent": self._stored,
            "first_id": first and first.sequence,
            "last_id": last and last.sequence,
            "first_message_id": first and str(first.message_id),
            "last_message_id": last and str(last.message_id),
        }

    def summary(self, destination: Destination) -> str:
        if self._stored == 1 and self._first is not None:
            return f"sent {self._first.message_id} to {printable(str(destination))}"
        return f"sent {counted(self._stored)} to {printable(str(destination))}"
