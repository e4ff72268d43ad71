"""``send``: messages from the command line or from standard input, stored durably."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from io import BufferedReader
from itertools import count as count_from
from itertools import repeat
from typing import Any, cast

import click

from jdbcstore.abc import MessageReference, MessageStore
from jdbcstore.cli.messages import messages_of
from jdbcstore.cli.options import COUNT, DESTINATION, TARGET, Parsed, Seconds
from jdbcstore.cli.output import counted, note, printable, progress
from jdbcstore.cli.remote import RemoteBroker
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.errors import InvalidMessage, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.values import Byte, Char, Float, Long, Short

_IN_FLIGHT = 1_000
_BATCH = 100
"""Messages of one write."""
_READ = 1 << 16
"""Bytes of one read."""


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _int(text: str) -> int:
    value = int(text)
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(text)
    return value


_TYPES: dict[str, Callable[[str], Any]] = {
    "string": str,
    "boolean": _boolean,
    "byte": lambda text: Byte(int(text)),
    "short": lambda text: Short(int(text)),
    "int": _int,
    "long": lambda text: Long(int(text)),
    "float": lambda text: Float(float(text)),
    "double": float,
    "char": Char,
}


def _property(text: str) -> tuple[str, Any]:
    """Parse ``name=value``, or ``name:type=value`` with a Java type."""
    left, equals, value = text.partition("=")
    name, _, kind = left.partition(":")
    if not equals or not name:
        raise ValueError(f"{text!r} is not a property; write name=value or name:int=5")
    if kind and kind not in _TYPES:
        raise ValueError(f"{kind!r} is not a property type; use one of {', '.join(_TYPES)}")
    try:
        return name, _TYPES[kind or "string"](value)
    except (ValueError, InvalidMessage):
        raise ValueError(f"{value!r} is not a valid {kind}") from None


_PROPERTY = Parsed("property", _property)
_IN_JSON = (str, bool, int, float)
"""The types of properties that JSON preserves."""


@click.command(cls=CliCommand)
@click.argument("destination", metavar="DEST", type=TARGET)
@click.argument("body", required=False)
@click.option("--count", type=COUNT, metavar="N", help="Send the message N times.")
@click.option("--property", "properties", type=_PROPERTY, multiple=True, metavar="NAME=VALUE",
              help="A string property; NAME:TYPE=VALUE for TYPE boolean, byte, short, int, long, float,"
              " double, char or string. Repeatable.")  # fmt: skip
@click.option("--priority", type=click.IntRange(0, 9), default=4, show_default=True, help="9 is highest.")
@click.option("--ttl", type=Seconds(min_open=True), metavar="SECONDS",
              help="Time to live; the message never expires by default.")  # fmt: skip
@click.option("--correlation-id", metavar="TEXT", help="The JMSCorrelationID header.")
@click.option("--reply-to", type=DESTINATION, metavar="DEST", help="The JMSReplyTo header.")
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
    """Send messages durably.

    BODY is the text of the message. With -, each line of standard input is sent as soon as it is read;
    without BODY, the message has no body. If a broker with --health is running, it stores them.
    """
    if body == "-" and count is not None:
        raise click.UsageError("--count repeats one BODY; it cannot be combined with -")
    reads = _lines() if body == "-" else iter([repeat(body, count or 1)])

    def message(text: str | None) -> Message:
        now_ms = time.time_ns() // 1_000_000
        expiration_ms = 0 if ttl is None else now_ms + max(1, round(ttl * 1000))
        return Message(
            text, timestamp_ms=now_ms, expiration_ms=expiration_ms, properties=dict(properties), **headers
        )

    total = None if body == "-" else count or 1
    with settings.store_or_broker() as place, progress("sending", total) as done:
        sender: _Sender | _RemoteSender
        if isinstance(place, RemoteBroker):
            sender = _RemoteSender(place, destination, done)
        else:
            sender = _Sender(messages_of(place, destination), done)
        try:
            for texts in reads:
                sender.send_all(map(message, texts))
            sender.flush()
        except (StoreError, KeyboardInterrupt):
            note(f"{counted(sender.flush(StoreError))} stored before the error")
            raise
    settings.print({"destination": str(destination), **sender.facts()}, sender.summary(destination))


def _lines() -> Iterator[Iterator[str]]:
    """Yield the complete lines of each read of standard input."""
    numbers = count_from(1)
    begun: list[bytes] = []
    while data := cast("BufferedReader", sys.stdin.buffer).read1(_READ):
        end, newline, others = data.partition(b"\n")
        begun.append(end)
        if newline:
            *lines, rest = others.split(b"\n")
            yield map(_decoded, [b"".join(begun), *lines], numbers)
            begun = [rest]
    if any(begun):
        yield map(_decoded, [b"".join(begun)], numbers)


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise InvalidMessage(f"line {number} of the input is not UTF-8; convert it first") from None


class _RemoteSender:
    """Sends messages through a broker, one after another."""

    def __init__(self, broker: RemoteBroker, destination: Destination, done: Callable[[int], None]) -> None:
        self._broker = broker
        self._destination = destination
        self._done = done
        self._stored = 0

    def send_all(self, messages: Iterator[Message]) -> None:
        """Send messages, each durable before the next is sent."""
        for message in messages:
            wrong = [name for name, value in message.properties.items() if type(value) not in _IN_JSON]
            if wrong:
                raise InvalidMessage(
                    f"{wrong[0]} has a type that cannot be sent through a broker; use int, double or string"
                )
            ttl_ms = message.expiration_ms - (message.timestamp_ms or 0) if message.expiration_ms else None
            fields: dict[str, Any] = {
                "body": message.body,
                "properties": dict(message.properties),
                "priority": message.priority,
                "ttl_ms": ttl_ms,
                "correlation_id": message.correlation_id,
                "jms_type": message.jms_type,
                "reply_to": message.reply_to,
            }
            self._broker.call("send", self._destination, **fields)
            self._stored += 1
            self._done(1)

    def flush(self, *_ignored: type[Exception]) -> int:
        """Return the total number of stored messages."""
        return self._stored

    def facts(self) -> dict[str, object]:
        unknown = ("first_id", "last_id", "first_message_id", "last_message_id")
        return {"sent": self._stored, **dict.fromkeys(unknown)}

    def summary(self, destination: Destination) -> str:
        return f"sent {counted(self._stored)} to {printable(str(destination))}"


class _Sender:
    """Sends in batches, with up to 1,000 messages in flight, so that one commit covers many of them."""

    def __init__(self, target: MessageStore, done: Callable[[int], None]) -> None:
        self._target = target
        self._done = done
        self._in_flight: deque[tuple[Future[list[MessageReference]], int]] = deque()
        self._count = 0
        """Messages in flight."""
        self._first: MessageReference | None = None
        self._last: MessageReference | None = None
        self._stored = 0

    def send_all(self, messages: Iterator[Message]) -> None:
        """Send messages without waiting for them; raises the error of an earlier one.

        If one of them cannot be made or stored, those before it are sent.
        """
        batch: list[Message] = []
        try:
            for message in messages:
                batch.append(message)
                if len(batch) == _BATCH:
                    batch, full = [], batch
                    self._send(full)
        except InvalidMessage:
            self._send(batch)
            raise
        self._send(batch)

    def _send(self, batch: list[Message]) -> None:
        if not batch:
            return
        try:
            future = self._target.add_messages_async(batch)
        except InvalidMessage:
            if len(batch) == 1:
                raise
            for message in batch:
                self._send([message])
            return
        self._in_flight.append((future, len(batch)))
        self._count += len(batch)
        while self._in_flight and (self._in_flight[0][0].done() or self._count > _IN_FLIGHT):
            self._complete_oldest()

    def flush(self, *ignored: type[Exception]) -> int:
        """Wait for the messages in flight; returns how many were stored in all."""
        while self._in_flight:
            with suppress(*ignored):
                self._complete_oldest()
        return self._stored

    def _complete_oldest(self) -> None:
        future, count = self._in_flight.popleft()
        self._count -= count
        references = future.result()
        self._first = self._first or references[0]
        self._last = references[-1]
        self._stored += count
        self._done(count)

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
        what = self._first.message_id if self._first and self._stored == 1 else counted(self._stored)
        return f"sent {what} to {printable(str(destination))}"
