"""Printing of messages: as lines of JSON, as blocks of text, or as a table."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jdbcstore.abc import MessageStore, Store
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.output import (
    as_text,
    console,
    local_time,
    new_table,
    note,
    printable,
    write_line,
)
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.facts import Facts
from jdbcstore.message.message import BodyType
from jdbcstore.message.readable import text_of_bytes

_EXCERPT = 200
"""Most characters of a table cell."""


def messages_of(store: Store, destination: Destination) -> MessageStore:
    """Return the messages of a queue or of a topic."""
    return store.topic(destination) if destination.is_topic else store.queue(destination)


@dataclass
class CorruptMessages:
    """Count of the messages that cannot be decoded, each reported on stderr."""

    count: int = 0

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.CORRUPT if self.count else ExitCode.DONE

    def report(self, *errors: CorruptMessage | str) -> None:
        for error in errors:
            self.count += 1
            note(str(error))


Printer = Callable[[Sequence[Facts]], None]
"""A function that prints the next messages."""


def body_text(facts: Facts, *, as_hex: bool = False) -> str:
    """Return the body as text: bytes as UTF-8, or else in base64, and with ``as_hex`` in hexadecimal."""
    body = facts["body"]
    if isinstance(body, str) and facts["type"] in (BodyType.BYTES, BodyType.OBJECT):
        data = b64decode(body)
        if as_hex:
            return data.hex(" ")
        if facts["type"] == BodyType.BYTES:
            text = text_of_bytes(data)
            return body if text is None else text
    return as_text(body)


def print_blocks(messages: Sequence[Facts], *, as_hex: bool = False) -> None:
    """Complete messages: one header per line, an empty line, and the body."""
    for facts in messages:
        for name, value in facts.items():
            if name == "body" or value in (None, {}) or (name == "expiration" and not value):
                continue
            text = local_time(value) if name in ("timestamp", "expiration") else as_text(value)
            write_line(f"{name}: {printable(text)}")
        if facts["body"] is not None:
            write_line("")
            write_line(printable(body_text(facts, as_hex=as_hex), keep="\n\t"))
        write_line("")


class TablePrinter:
    """One row per message, truncated to the width of the terminal, under one header."""

    def __init__(self, *, with_destination: bool = False, as_hex: bool = False) -> None:
        self._as_hex = as_hex
        self._console = console()
        self._with_destination = with_destination
        self._header = True

    def print(self, messages: Sequence[Facts]) -> None:
        if not messages:
            return
        table = new_table(header=self._header)
        self._header = False
        columns = {**_COLUMNS}
        if not self._with_destination:
            del columns["destination"]
        for name, (_, layout) in columns.items():
            table.add_column(name, no_wrap=True, overflow="ellipsis", **layout)
        for facts in messages:
            shown = {**facts, "body": body_text(facts, as_hex=self._as_hex)}
            table.add_row(*(cell(shown[name]) for name, (cell, _) in columns.items()))
        table.expand = True
        self._console.print(table)


def _excerpt(value: object) -> str:
    return printable(as_text(value)[:_EXCERPT])


_COLUMNS: dict[str, tuple[Callable[[Any], str], dict[str, Any]]] = {
    "id": (str, {"justify": "right", "min_width": 8}),
    "destination": (as_text, {"ratio": 2}),
    "type": (str, {"width": 7}),
    "priority": (str, {"justify": "right", "width": 8}),
    "timestamp": (local_time, {"width": 19}),
    "properties": (lambda properties: _excerpt(properties or None), {"ratio": 3}),
    "body": (_excerpt, {"ratio": 4}),
}
"""The cell of a table for each fact, and the layout of its column."""
