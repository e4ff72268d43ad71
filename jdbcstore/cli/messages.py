"""Printing of messages: as lines of JSON, as blocks of text, or as a table."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.output import console, local_time, new_table, note, printable, write_json, write_line
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.message import BodyType, Message

Facts = dict[str, Any]
"""Headers, properties and body of a message as JSON values, under the keys listed in docs/cli.md."""

_EXCERPT = 200
"""Characters of a table cell, at most."""


def facts_of(message: Message) -> Facts:
    """Convert a message for printing.

    :raises CorruptMessage: the properties or the body cannot be decoded
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
    """The properties, including the headers that JMS exposes as properties."""
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
    """Convert a value for JSON: bytes become base64, and NaN and infinities become their names."""
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


class CorruptMessages:
    """Count of the messages that cannot be decoded, each reported on stderr."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.CORRUPT if self.count else ExitCode.DONE

    def report(self, *errors: CorruptMessage) -> None:
        for error in errors:
            self.count += 1
            note(str(error))


class Printer(Protocol):
    def print(self, messages: Sequence[Facts]) -> None:
        """Print the next messages."""
        ...


class JsonPrinter:
    """One JSON object per line."""

    def print(self, messages: Sequence[Facts]) -> None:
        for facts in messages:
            write_json(facts)


class BlockPrinter:
    """Complete messages: one header per line, an empty line, and the body."""

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
    """One row per message, truncated to the width of the terminal, under one header."""

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
