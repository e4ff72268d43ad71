"""Rows that a real ActiveMQ wrote, put into a fresh SQLite file as they are."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jdbcstore
from jdbcstore.errors import ConfigurationError

_TABLES = {
    "ACTIVEMQ_MSGS": ("ID", "CONTAINER", "MSGID_PROD", "MSGID_SEQ", "EXPIRATION", "MSG", "PRIORITY", "XID"),
    "ACTIVEMQ_ACKS": (
        *("CONTAINER", "SUB_DEST", "CLIENT_ID", "SUB_NAME", "SELECTOR", "LAST_ACKED_ID", "PRIORITY", "XID"),
    ),
}


def load(recording: Path, database: Path) -> str:
    """Make ``database`` with the recorded rows; returns its URL.

    The rows are inserted by plain SQL: nothing but ActiveMQ's own bytes gets into the tables.

    :raises ConfigurationError: the file cannot be read, or is no recording
    """
    url = f"sqlite:///{database}"
    jdbcstore.open(url, cleanup_period=0.0).close()
    with closing(sqlite3.connect(database)) as connection, connection:
        for table, row in _rows(recording):
            columns = _TABLES[table]
            connection.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",  # noqa: S608
                [row[column] for column in columns],
            )
    return url


def _rows(recording: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        with recording.open(encoding="utf-8") as lines:
            for line in lines:
                entry = json.loads(line)
                if (table := entry.get("table")) in _TABLES:
                    row = entry["row"]
                    if "MSG_b64" in row:
                        row["MSG"] = base64.b64decode(row["MSG_b64"])
                    yield table, row
    except OSError as error:
        raise ConfigurationError(f"cannot read the recording {recording}: {error.strerror}") from error
    except (ValueError, KeyError) as error:
        raise ConfigurationError(f"{recording} is no recording of ActiveMQ's rows: {error!r}") from error
