"""SQLite: a local file, in WAL mode with every commit synced to disk."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from sqlalchemy import URL, Insert, Integer, Table
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.types import TypeEngine

from jdbcstore.config.statements import Template
from jdbcstore.database.adapters.base import Adapter, Failure, TransactionState
from jdbcstore.database.adapters.control import ServerControl
from jdbcstore.database.adapters.engines import EngineFacts
from jdbcstore.database.adapters.sql import count_columns
from jdbcstore.database.adapters.sqlite_health import SqliteHealth
from jdbcstore.database.adapters.writing import Writing
from jdbcstore.errors import ConfigurationError, SchemaError, StoreUnavailable
from jdbcstore.util.files import OS_FILES
from jdbcstore.util.server_view import ServerView

_TIMEOUT = 30.0
"""Seconds to wait for another process's lock, unless the URL has ``?timeout=``."""


class SqliteWriting(Writing):
    """Statements of up to a hundred rows."""

    # The write lock is acquired at once: acquired later in a transaction, it fails without waiting.
    begin_statement = "BEGIN IMMEDIATE"
    guards_insert = True
    # No faster with more. executemany would acquire the interpreter's lock for every row.
    rows_per_insert = keys_per_delete = 100


class SqliteControl(ServerControl):
    """Of SQLite, which has no server."""

    def limit_lock_wait(self, seconds: float) -> None:
        self._cursor.execute(f"PRAGMA busy_timeout = {max(1, round(seconds * 1000))}")


class SqliteAdapter(Adapter):
    """Requires only Python. One process writes at a time; others wait for it."""

    name = "sqlite"
    drivers: ClassVar = {"sqlite": ("sqlite3", "")}
    jdbc_subprotocols = ("sqlite",)
    writing = SqliteWriting()
    control = SqliteControl
    health = SqliteHealth
    limit_clause = "LIMIT"
    alters_by_copy = True
    can_forbid_null = True
    has_users = False
    drops_if_exists = True
    transactional_ddl = True
    locks_rows = False
    checks_values = False
    shares_queues = True
    in_files = True
    notifies = True
    now_ms = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    # Only the exact type INTEGER makes ID the rowid, by which every index is ordered.
    sequence_type: ClassVar[TypeEngine[Any]] = Integer()
    counter_type: ClassVar[TypeEngine[Any]] = Integer()

    def check_exists(self, url: URL) -> None:
        file = _file(url)
        if file is None:
            return
        if not file.exists():
            _refuse_lost(file)
            raise SchemaError(
                f"there is no SQLite file {file}; mount its disk, or run jdbcstore init to create it"
            )
        if "immutable" in url.query or all(os.access(path, os.W_OK) for path in (file, file.parent)):
            return
        raise ConfigurationError(
            f"the SQLite file {file} cannot be read without the right to write to it and its folder, where"
            " SQLite keeps the index of its log; get that right or read a copy; a file that nothing writes to"
            f" is read as sqlite:///file:{file}?immutable=1&uri=true"
        )

    def file_identity(self, url: URL) -> tuple[int, int] | None:
        file = _file(url)
        try:
            status = None if file is None else file.stat()
        except FileNotFoundError:
            return None
        return None if status is None else (status.st_dev, status.st_ino)

    def lock_directory(self, url: URL) -> str | None:
        # Beside the file itself, even if it is opened through a link, and distinct for each file.
        file = _file(url)
        return None if file is None else f"{file.resolve()}-lock"

    def wakeup_file(self, url: URL) -> str | None:
        file = _file(url)
        return None if file is None else f"{file.resolve()}-wakeups"

    def view(
        self,
        connection: Any,  # noqa: ARG002
        engine: EngineFacts | None,  # noqa: ARG002
        variables: Mapping[str, str | None],  # noqa: ARG002
    ) -> ServerView:
        return ServerView(engine="SQLite", version=sqlite3.sqlite_version)

    def engine_options(self, url: URL) -> dict[str, Any]:
        file = _file(url)
        if file is None:
            raise ConfigurationError(
                "SQLite needs a file that several connections share: sqlite:///path/to/file.db;"
                " for a store that lasts as long as its process, jdbcstore.open('memory:')"
            )
        folder = file.parent
        if not folder.is_dir():
            raise ConfigurationError(
                f"the folder {folder} of the SQLite file does not exist; mount its disk, or make it first"
            )
        if "uri" not in url.query and not file.exists():
            _refuse_lost(file)
            # SQLite would let every user read it, and its log, which gets the mode of the file. Where this
            # fails, connecting says why.
            with contextlib.suppress(OSError):
                OS_FILES.close(OS_FILES.create(file))
        timeout = float(str(url.query.get("timeout", _TIMEOUT)))
        return {"connect_args": {"isolation_level": None, "timeout": timeout, "check_same_thread": False}}

    def address(self, url: URL) -> URL:
        file = _file(url)
        if file is None or "uri" in url.query:
            return url
        # Connecting once more must not create a second, empty database where the disk is gone.
        named = url.set(database=f"file:{quote(str(file.absolute()))}")
        return named.update_query_dict({"mode": "rw", "uri": "true"})

    def on_connect(self, connection: Any) -> None:
        cursor = connection.cursor()
        _enter_wal(cursor)
        cursor.execute("PRAGMA synchronous=FULL")
        # Some builds overwrite all that is deleted: a full disk would have no room to remove a large body.
        cursor.execute("PRAGMA secure_delete=FAST")
        cursor.close()

    def plain_cursor(self, connection: Any) -> Any:
        cursor = connection.cursor()
        cursor.row_factory = None
        return cursor

    def transaction_state(self, connection: Any) -> TransactionState:
        # Without a level, or with the attribute of Python 3.12, the driver begins none by itself.
        begins = connection.isolation_level is not None and getattr(connection, "autocommit", -1) is not True
        open_ = connection.in_transaction or begins
        return TransactionState.OPEN if open_ else TransactionState.AUTOCOMMIT

    def insert_once(self, table: Table) -> Insert:
        return insert(table).on_conflict_do_nothing()

    def abort(self, connection: Any) -> None:
        connection.interrupt()

    def check_statement(self, cursor: Any, template: Template, *, reads: bool) -> int | None:
        text = template.render(lambda *_: "?")
        cursor.execute(f"EXPLAIN {text}", [None] * len(template.names))
        cursor.fetchall()
        return count_columns(cursor, template) if reads else None

    def max_message_size(self, cursor: Any) -> int:
        # The limit is on the whole row; the other columns take less than this margin.
        limit: int = cursor.connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        return limit - 8192

    def advice(self, error: BaseException) -> str:
        return _ADVICE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "")

    def classify(self, error: BaseException) -> Failure:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            return Failure.TOO_LARGE if isinstance(error, OverflowError) else Failure.OTHER
        if code in (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE):
            return Failure.DUPLICATE
        primary = code & 0xFF
        if primary == sqlite3.SQLITE_ERROR and "no such" in str(error):
            return Failure.NO_TABLE
        # The library itself answers: a refused statement had no effect.
        return _BY_CODE.get(primary, Failure.OTHER)


def _refuse_lost(file: Path) -> None:
    """Refuse a missing file whose lock shows that it was there.

    :raises StoreUnavailable: the lock is there
    """
    lock = Path(f"{file.resolve()}-lock")
    if lock.exists():
        raise StoreUnavailable(
            f"there is no SQLite file {file}, but its lock {lock} is there: is the disk mounted?"
            " Restore the file; for a new, empty store remove the lock, and run jdbcstore init"
        )


def _file(url: URL) -> Path | None:
    """Return the file of a plain name or of an SQLite URI; None for a database in memory."""
    if not url.database or url.database == ":memory:":
        return None
    return Path(url.database.removeprefix("file:") if "uri" in url.query else url.database)


def _enter_wal(cursor: sqlite3.Cursor) -> None:
    """Switch to WAL, retrying: two processes that do so on a new file do not wait for each other."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


_ADVICE = {
    sqlite3.SQLITE_CANTOPEN: "is the disk mounted?",
    sqlite3.SQLITE_IOERR: "check the disk, and whether it is full",
}
_BY_CODE = {
    sqlite3.SQLITE_CONSTRAINT: Failure.BAD_VALUE,
    sqlite3.SQLITE_MISMATCH: Failure.BAD_VALUE,
    sqlite3.SQLITE_TOOBIG: Failure.TOO_LARGE,
    sqlite3.SQLITE_FULL: Failure.FULL,
    sqlite3.SQLITE_BUSY: Failure.TRANSIENT,
    sqlite3.SQLITE_LOCKED: Failure.TRANSIENT,
    sqlite3.SQLITE_INTERRUPT: Failure.TRANSIENT,
    sqlite3.SQLITE_CANTOPEN: Failure.DISCONNECTED,
    sqlite3.SQLITE_IOERR: Failure.DISCONNECTED,
}
