"""The statements of a private SQLite file, in which an import computes the remaining messages of a source.

It holds positions, never bodies; see ``tools/importing/replay.py``.
"""

from __future__ import annotations

SETTINGS = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA temp_store = FILE",
    "PRAGMA cache_size = -65536",
)
"""Settings of each private file, which ends with the process."""
TABLES = (
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY, destination INTEGER NOT NULL, name TEXT NOT NULL, file INTEGER NOT NULL,
        at INTEGER NOT NULL, size INTEGER NOT NULL, priority INTEGER, waiting INTEGER, xid INTEGER,
        due INTEGER, repeats INTEGER, cron INTEGER)""",
    "CREATE UNIQUE INDEX messages_name ON messages (destination, name)",
    """CREATE TABLE acknowledged (
        id INTEGER NOT NULL, subscription INTEGER NOT NULL, xid INTEGER, PRIMARY KEY (id, subscription)
        ) WITHOUT ROWID""",
    """CREATE TABLE gone (
        destination INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (destination, name)) WITHOUT ROWID""",
)
ADD_MESSAGE = (
    "INSERT OR IGNORE INTO messages (id, destination, name, file, at, size, priority, waiting, xid, due,"
    " repeats, cron) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
UPDATE_MESSAGE = (
    "UPDATE messages SET file = ?, at = ?, size = ?, priority = ? WHERE destination = ? AND name = ?"
)
REMOVE_NAMED = "DELETE FROM messages WHERE destination = ? AND name = ?"
FIND_NAMED = "SELECT id, waiting FROM messages WHERE destination = ? AND name = ?"
FIND_PLACE = "SELECT file, at, size FROM messages WHERE destination = ? AND name = ?"
NOTE_GONE = "INSERT OR IGNORE INTO gone (destination, name) VALUES (?, ?)"
COUNT_OUT_OF_ORDER = (
    "SELECT COUNT(*) FROM gone JOIN messages USING (destination, name) WHERE messages.xid IS NULL"
)

ADD_ACKNOWLEDGED = "INSERT OR IGNORE INTO acknowledged (id, subscription, xid) VALUES (?, ?, ?)"
WAIT_LESS = "UPDATE messages SET waiting = waiting - 1 WHERE id = ?"
REMOVE_MESSAGE = "DELETE FROM messages WHERE id = ?"
REMOVE_ACKNOWLEDGED = "DELETE FROM acknowledged WHERE id = ?"
WAIT_MORE_HERE = "UPDATE messages SET waiting = waiting + 1 WHERE destination = ?"
WAIT_LESS_HERE = (
    "UPDATE messages SET waiting = waiting - 1 WHERE destination = ? AND id >= ? AND NOT EXISTS"
    " (SELECT 1 FROM acknowledged AS a WHERE a.id = messages.id AND a.subscription = ?)"
)
REMOVE_UNWANTED_HERE = "DELETE FROM messages WHERE destination = ? AND waiting <= 0"
REMOVE_SUBSCRIPTION = "DELETE FROM acknowledged WHERE subscription = ?"
REMOVE_ACKNOWLEDGED_HERE = (
    "DELETE FROM acknowledged WHERE id IN (SELECT id FROM messages WHERE destination = ?)"
)
REMOVE_HERE = "DELETE FROM messages WHERE destination = ?"

FLAG_NAMED = "UPDATE messages SET xid = ? WHERE destination = ? AND name = ? AND xid IS NULL"

RESCHEDULE = (
    "UPDATE messages SET due = ?, repeats = CASE WHEN cron = 0 AND repeats > 0 THEN MAX(repeats - ?, 0)"
    " ELSE repeats END WHERE destination = ? AND name = ?"
)
REMOVE_DUE = "DELETE FROM messages WHERE destination = ? AND due BETWEEN ? AND ?"

INDEX_ORDER = "CREATE INDEX messages_order ON messages (destination, id)"
FIND_MESSAGES = (
    "SELECT id, destination, name, file, at, size, priority, xid, due, repeats, cron FROM messages"
    " WHERE id > ? ORDER BY id LIMIT ?"
)
COUNT_MESSAGES = "SELECT COUNT(*) FROM messages"
COUNT_HERE = (
    "SELECT destination, COUNT(*), SUM(size), SUM(xid IS NOT NULL) FROM messages GROUP BY destination"
)
HAS_PRIORITIES = "SELECT EXISTS (SELECT 1 FROM messages WHERE destination = ? AND priority IS NOT NULL)"
FIND_STATES = (
    "SELECT m.id, m.name, m.priority, a.id IS NOT NULL, a.xid FROM messages AS m LEFT JOIN acknowledged AS a"
    " ON a.id = m.id AND a.subscription = ? WHERE m.destination = ? AND m.xid IS NULL AND m.id > ?"
    " ORDER BY m.id LIMIT ?"
)
"""The messages of a topic, and what one of its subscriptions has acknowledged."""
