"""The record of everything that was sent, acknowledged and received, in an SQLite file of its own.

It does not use the store, because the store is under test.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sent (
    message_id TEXT PRIMARY KEY,
    attempts INTEGER NOT NULL DEFAULT 1,
    acknowledged INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS received (
    delivery INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    redelivery_counter INTEGER NOT NULL,
    intact INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS received_message ON received (message_id, delivery);
"""


@dataclass(frozen=True, slots=True)
class Counts:
    """The progress of all processes."""

    sent: int
    acknowledged: int
    received: int


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The final counts of messages, read from the files of the processes."""

    sent: int
    retried: int
    acknowledged: int
    received: int
    redelivered: int
    unmarked: int
    damaged: int
    lost: int
    unknown: int
    left_in_store: int

    @property
    def kept_the_promise(self) -> bool:
        """Whether every acknowledged message was received, and every duplicate marked as redelivered."""
        wrong = self.unmarked + self.damaged + self.lost + self.unknown + self.left_in_store
        return wrong == 0 and self.sent == self.acknowledged == self.received


class Ledger(AbstractContextManager["Ledger"]):
    """One process's connection to the ledger, which the first process creates."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=60.0, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        # Its writers are not killed, and a crash of the machine ends the demo, so no sync is needed.
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.executescript(_SCHEMA)

    def sending(self, message_id: str, acknowledged: str | None) -> None:
        """Record that a message is about to be sent, and that the previous one was acknowledged."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            if acknowledged is not None:
                self.acknowledged(acknowledged)
            self._connection.execute("INSERT INTO sent (message_id) VALUES (?)", (message_id,))

    def resending(self, message_id: str) -> None:
        self._connection.execute(
            "UPDATE sent SET attempts = attempts + 1 WHERE message_id = ?", (message_id,)
        )

    def acknowledged(self, message_id: str) -> None:
        self._connection.execute("UPDATE sent SET acknowledged = 1 WHERE message_id = ?", (message_id,))

    def received(self, deliveries: Iterable[tuple[str, int, bool]]) -> None:
        """Record deliveries: message id, redelivery counter, and whether the body is intact."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO received (message_id, redelivery_counter, intact) VALUES (?, ?, ?)", deliveries
            )

    def counts(self) -> Counts:
        return Counts(*self._row(_COUNTS))

    def outcome(self, left_in_store: int) -> DemoOutcome:
        return DemoOutcome(*[*self._row(_OUTCOME), left_in_store])

    def _row(self, sql: str) -> Sequence[int]:
        row: Sequence[int] = self._connection.execute(sql).fetchone()
        return row

    def __exit__(self, *_exc: object) -> None:
        self._connection.close()


_COUNTS = """
SELECT COUNT(*), COALESCE(SUM(acknowledged), 0), (SELECT COUNT(DISTINCT message_id) FROM received)
FROM sent
"""

# Every delivery of a message after its first must be marked as redelivered.
_OUTCOME = """
SELECT
    (SELECT COUNT(*) FROM sent),
    (SELECT COUNT(*) FROM sent WHERE attempts > 1),
    (SELECT COUNT(*) FROM sent WHERE acknowledged),
    (SELECT COUNT(DISTINCT message_id) FROM received),
    (SELECT COUNT(*) FROM received WHERE redelivery_counter > 0),
    (SELECT COUNT(*) FROM received AS again WHERE redelivery_counter = 0 AND EXISTS (
        SELECT 1 FROM received AS first
        WHERE first.message_id = again.message_id AND first.delivery < again.delivery)),
    (SELECT COUNT(*) FROM received WHERE NOT intact),
    (SELECT COUNT(*) FROM sent WHERE acknowledged AND message_id NOT IN (SELECT message_id FROM received)),
    (SELECT COUNT(*) FROM received WHERE message_id NOT IN (SELECT message_id FROM sent))
"""
