"""The statements of an import from Artemis: of its private SQLite file, and of Artemis's tables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnClause, ColumnElement, Select, bindparam, column, func, select, table

STATE_TABLES = (
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY, file INTEGER NOT NULL, at INTEGER NOT NULL, size INTEGER NOT NULL,
        content INTEGER NOT NULL, address INTEGER NOT NULL)""",
    """CREATE TABLE refs (
        seq INTEGER PRIMARY KEY, message INTEGER NOT NULL, queue INTEGER NOT NULL,
        deliveries INTEGER NOT NULL, due INTEGER, xid INTEGER, adds INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX refs_message ON refs (message, queue)",
    """CREATE TABLE paged (
        queue INTEGER NOT NULL, page INTEGER NOT NULL, number INTEGER NOT NULL, record INTEGER NOT NULL,
        xid INTEGER, PRIMARY KEY (queue, page, number)) WITHOUT ROWID""",
    "CREATE INDEX paged_record ON paged (record)",
)
ADD_MESSAGE = (
    "INSERT OR REPLACE INTO messages (id, file, at, size, content, address) VALUES (?, ?, ?, ?, ?, ?)"
)
REMOVE_MESSAGE = "DELETE FROM messages WHERE id = ?"
REMOVE_REFERENCES = "DELETE FROM refs WHERE message = ?"
ADD_REFERENCE = (
    "INSERT OR IGNORE INTO refs (message, queue, deliveries, due, xid, adds) VALUES (?, ?, 0, NULL, ?, ?)"
)
REMOVE_REFERENCE = "DELETE FROM refs WHERE message = ? AND queue = ?"
FLAG_REFERENCE = "UPDATE refs SET xid = ? WHERE message = ? AND queue = ? AND xid IS NULL"
SET_DELIVERIES = "UPDATE refs SET deliveries = ? WHERE message = ? AND queue = ?"
SET_DUE = "UPDATE refs SET due = ? WHERE message = ? AND queue = ?"
ADD_PAGED = "INSERT OR REPLACE INTO paged (queue, page, number, record, xid) VALUES (?, ?, ?, ?, ?)"
REMOVE_PAGED = "DELETE FROM paged WHERE record = ?"
FIND_PAGED = (
    "SELECT number, xid FROM paged WHERE queue = ? AND page = ? AND number IN (-1, ?) ORDER BY number"
)
FIND_LEFT = (
    "SELECT MIN(refs.seq), refs.message, messages.size, messages.address FROM refs LEFT JOIN messages"
    " ON messages.id = refs.message GROUP BY refs.message ORDER BY 1"
)
FIND_REFERENCES = "SELECT seq, queue, due, xid, adds FROM refs WHERE message = ? ORDER BY seq"
FIND_PLACE = (
    "SELECT messages.id, file, at, size, content, address, queue, deliveries FROM refs JOIN messages"
    " ON messages.id = refs.message WHERE seq = ?"
)
JOURNAL = frozenset({"id", "recordtype", "txid", "userrecordtype", "record", "txdata", "seq"})
FILES = frozenset({"id", "filename", "extension", "data"})
LEASES = frozenset({"id", "holder_id", "holder_expiration_time", "node_id", "state"})
"""The columns by which a table of Artemis's is recognised under any name."""


def find_records(name: str) -> Select[Any]:
    """Select the records of a journal, in their order."""
    names = ("id", "recordtype", "txid", "userrecordtype", "record", "txdata", "seq")
    columns: list[ColumnClause[Any]] = [column(name) for name in names]
    return select(*columns).select_from(table(name, *columns)).order_by(column("seq"))


def find_record(name: str) -> Select[Any]:
    """Select the content of one record, by the index that there is, on its id."""
    named = column("id") == bindparam("id")
    return select(column("record")).select_from(table(name)).where(named, column("seq") == bindparam("seq"))


def count_contents(name: str) -> Select[Any]:
    """Count the records of a journal with one of some types of contents."""
    wanted = column("userrecordtype").in_(bindparam("contents", expanding=True))
    return select(func.count()).select_from(table(name)).where(wanted)


def find_files(name: str) -> Select[Any]:
    """Select the names of files with an extension."""
    wanted = column("extension") == bindparam("extension")
    columns: list[ColumnClause[Any]] = [column("id"), column("filename")]
    return select(*columns).select_from(table(name)).where(wanted).order_by(column("id"))


def find_file(name: str, *, is_object: bool) -> Select[Any]:
    """Select the content of a file.

    :param is_object: whether the column has the number of a large object, as PostgreSQL's
    """
    data: ColumnElement[Any] = column("data")
    wanted = column("id") == bindparam("id")
    return select(func.lo_get(data) if is_object else data).select_from(table(name)).where(wanted)


def find_leases(name: str) -> Select[Any]:
    """Select who holds which lock until when, and the id of the broker."""
    columns: list[ColumnClause[Any]] = [
        column(name) for name in ("id", "holder_id", "holder_expiration_time", "node_id")
    ]
    return select(*columns).select_from(table(name, *columns))
