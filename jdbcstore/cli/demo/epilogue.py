"""The end of the demo: questions to Spark SQL, and rows that a real ActiveMQ wrote."""

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

QUESTIONS = {
    "How many messages of each producer were received, and how often?": """
        SELECT properties['producer'].long AS producer,
          count(DISTINCT message_id) AS messages,
          count(*) AS deliveries,
          count_if(redelivery_counter > 0) AS marked_redelivered,
          round(sum(message_size) / 1024) AS kib
        FROM messages_decoded
        GROUP BY ALL
        ORDER BY producer
        """,
    "How long did messages wait, second by second? Each kill shows as a long wait.": """
        SELECT date_format(broker_out_time, 'HH:mm:ss') AS second,
          count(*) AS deliveries,
          round(avg(unix_millis(broker_out_time) - unix_millis(timestamp))) AS mean_ms,
          max(unix_millis(broker_out_time) - unix_millis(timestamp)) AS longest_ms
        FROM messages_decoded
        GROUP BY ALL
        ORDER BY second
        """,
    "Which five messages waited longest, and what do they contain?": """
        SELECT properties['producer'].long AS producer, msgid_seq AS number, redelivery_counter,
          unix_millis(broker_out_time) - unix_millis(timestamp) AS waited_ms,
          concat(left(body_text, 70), '...') AS body
        FROM messages_decoded
        ORDER BY waited_ms DESC, id
        LIMIT 5
        """,
}
"""Questions about every delivery that the consumer moved to its own store, each with its query."""

_TABLES = {
    "ACTIVEMQ_MSGS": ("ID", "CONTAINER", "MSGID_PROD", "MSGID_SEQ", "EXPIRATION", "MSG", "PRIORITY", "XID"),
    "ACTIVEMQ_ACKS": (
        *("CONTAINER", "SUB_DEST", "CLIENT_ID", "SUB_NAME", "SELECTOR", "LAST_ACKED_ID", "PRIORITY", "XID"),
    ),
}


def load_recording(recording: Path, database: Path) -> str:
    """Create an SQLite file with rows recorded from a real ActiveMQ; returns its URL.

    They are inserted by plain SQL: the tables contain only the bytes that ActiveMQ wrote.

    :raises ConfigurationError: the file cannot be read, or is not a recording
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
        raise ConfigurationError(f"{recording} is not a recording of ActiveMQ's rows: {error!r}") from error
