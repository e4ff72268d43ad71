"""A message as JSON, and the three ways to print it: lines of JSON, blocks of text, a table."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from jdbcstore.cli.output import console, local_time, new_table, printable, write_json, write_line
from jdbcstore.message.body import BodyType
from jdbcstore.message.message import Message

Facts = dict[str, Any]
"""What a message says, under the keys that docs/cli.md lists, as JSON can hold it."""

_EXCERPT = 200
"""Characters of a cell that a table could show at most."""


def facts_of(message: Message) -> Facts:
    """Everything that is printed of a message.

    :raises CorruptMessage: the properties or the body do not decode
    """
    return {
        "id": message.sequence,
        "destination": None if message.destination is None else str(message.destination),
        "message_id": None if message.message_id is None else str(message.message_id),
        "type": str(message.body_type),
        "timestamp": message.timestamp_ms,
        "expiration": message.expiration_ms,
        "priority": message.priority,
        "correlation_id": message.correlation_id,
        "reply_to": None if message.reply_to is None else str(message.reply_to),
        "jms_type": message.jms_type,
        "redelivery_counter": message.redelivery_counter,
        "properties": _plain(_properties(message)),
        "body": _plain(_body(message)),
    }


def _properties(message: Message) -> dict[str, object]:
    """The properties, and the headers that JMS shows as properties."""
    properties: dict[str, object] = dict(message.properties)
    if message.group_id is not None:
        properties["JMSXGroupID"] = message.group_id
        properties["JMSXGroupSeq"] = message.group_sequence
    if message.user_id is not None:
        properties["JMSXUserID"] = message.user_id
    return properties


def _body(message: Message) -> object:
    return message.remote_blob_url if message.body_type is BodyType.BLOB else message.body


def _plain(value: object) -> object:
    """A value that JSON has: bytes become base64, floats that are no number become their name."""
    match value:
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    return value


class Printer(Protocol):
    def print(self, messages: Sequence[Facts]) -> None:
        """Print some more messages."""
        ...


class JsonPrinter:
    """One object a line."""

    def print(self, messages: Sequence[Facts]) -> None:
        for facts in messages:
            write_json(facts)


class BlockPrinter:
    """Nothing left out: one header a line, an empty line, and the body."""

    def print(self, messages: Sequence[Facts]) -> None:
        for facts in messages:
            for name, value in facts.items():
                if name == "body" or value in (None, {}) or (name == "expiration" and not value):
                    continue
                text = local_time(value) if name in ("timestamp", "expiration") else _text(value)
                write_line(f"{name}: {printable(text)}")
            body = facts["body"]
            if body is not None:
                write_line("")
                write_line(printable(_text(body), keep="\n\t"))
            write_line("")


class TablePrinter:
    """One row a message, cut to the width of the terminal; the header comes once."""

    def __init__(self, *, with_destination: bool = False) -> None:
        self._console = console()
        self._with_destination = with_destination
        self._header = True

    def print(self, messages: Sequence[Facts]) -> None:
        if not messages:
            return
        table = new_table(header=self._header)
        self._header = False
        cells: dict[str, Iterable[str]] = {
            "id": (str(facts["id"]) for facts in messages),
            "destination": (facts["destination"] or "" for facts in messages),
            "type": (facts["type"] for facts in messages),
            "priority": (str(facts["priority"]) for facts in messages),
            "timestamp": (local_time(facts["timestamp"]) for facts in messages),
            "properties": (_excerpt(facts["properties"] or None) for facts in messages),
            "body": (_excerpt(facts["body"]) for facts in messages),
        }
        if not self._with_destination:
            del cells["destination"]
        for name in cells:
            table.add_column(name, no_wrap=True, overflow="ellipsis", **_COLUMNS[name])
        for row in zip(*cells.values(), strict=True):
            table.add_row(*row)
        table.expand = True
        self._console.print(table)


_COLUMNS: dict[str, Any] = {
    "id": {"justify": "right", "min_width": 8},
    "destination": {"ratio": 2},
    "type": {"width": 7},
    "priority": {"justify": "right", "width": 8},
    "timestamp": {"width": 19},
    "properties": {"ratio": 3},
    "body": {"ratio": 4},
}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _excerpt(value: object) -> str:
    return "" if value is None else printable(_text(value)[:_EXCERPT])
