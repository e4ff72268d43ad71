"""The broker's log: a line an event."""

from __future__ import annotations

import json
import logging

from jdbcstore.cli.logs import JsonFormatter, TextFormatter


def record(text: str, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "jdbcstore.broker", "levelname": "INFO", "msg": text, "created": 0.0}
    )
    vars(made).update(extra)
    return made


def test_json() -> None:
    assert json.loads(JsonFormatter().format(record("two\npints", connection="ID:x"))) == {
        "time": "1970-01-01T00:00:00.000Z",
        "level": "info",
        "logger": "jdbcstore.broker",
        "message": "two\npints",
        "connection": "ID:x",
    }


def test_text_is_one_line_whatever_it_says() -> None:
    line = TextFormatter().format(record('a "b"\nlevel=error', connection="ID:x"))

    assert line == (
        "time=1970-01-01T00:00:00.000Z level=info logger=jdbcstore.broker"
        r' message="a \"b\"\nlevel=error" connection=ID:x'
    )


def test_a_traceback_is_part_of_the_line() -> None:
    try:
        raise ValueError("x")
    except ValueError as error:
        made = record("failed", exc_info=(ValueError, error, error.__traceback__))

    assert "\n" not in TextFormatter().format(made)
    assert "ValueError: x" in json.loads(JsonFormatter().format(made))["traceback"]
