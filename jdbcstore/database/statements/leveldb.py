"""The statements of an import from ActiveMQ's LevelDB store, in its private SQLite file."""

from __future__ import annotations

STATE_TABLES = (
    """CREATE TABLE entries (
        collection INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER, size INTEGER, meta BLOB,
        PRIMARY KEY (collection, seq)) WITHOUT ROWID""",
    """CREATE TABLE indexed (
        key BLOB NOT NULL PRIMARY KEY, sequence INTEGER NOT NULL, value BLOB) WITHOUT ROWID""",
)
ADD_INDEXED = (
    "INSERT INTO indexed (key, sequence, value) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
    " SET sequence = excluded.sequence, value = excluded.value WHERE excluded.sequence >= sequence"
)
FIND_INDEXED = "SELECT key, value FROM indexed WHERE value IS NOT NULL ORDER BY key"
REMOVE_INDEXED = "DELETE FROM indexed"
SET_ENTRY = "INSERT OR REPLACE INTO entries (collection, seq, at, size, meta) VALUES (?, ?, ?, ?, ?)"
REMOVE_ENTRY = "DELETE FROM entries WHERE collection = ? AND seq = ?"
REMOVE_COLLECTION = "DELETE FROM entries WHERE collection = ?"
FIND_COLLECTIONS = "SELECT DISTINCT collection FROM entries ORDER BY collection"
FIND_ENTRIES = "SELECT seq, at, size, meta FROM entries WHERE collection = ? ORDER BY seq"
FIND_ENTRY = "SELECT at, size FROM entries WHERE collection = ? AND seq = ?"
