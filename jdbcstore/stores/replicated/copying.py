"""Copies of an SQLite database, consistent even while another process writes it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from jdbcstore.config.data_source import sqlite_url
from jdbcstore.errors import StoreError, StoreUnavailable
from jdbcstore.stores.jdbc.store import JdbcStore

_TIMEOUT = 30.0
_MODE = 0o640


def copy_database(file: Path, copy: Path) -> int:
    """Copy the database in a file as it is at one moment; return the last record of the journal that it has.

    :raises StoreUnavailable: it cannot be read, or there is no room
    """
    _copy(file, copy)
    with JdbcStore(sqlite_url(copy), read_only=True, journaled=True) as store:
        mark = store.journal_mark()
    if mark is None or not mark.journal:
        raise StoreError(f"{file} has no mark of a journal")
    return mark.applied


def restore(copy: Path, file: Path, kept: Path) -> None:
    """Put a copy in place of the content of a database, which is copied to ``kept`` first.

    Each is one transaction: a process that is killed leaves the old content or the new one.

    :raises StoreUnavailable: the database is being used, or there is no room
    """
    _copy(file, kept)
    _copy(copy, file)


def _copy(source: Path, target: Path) -> None:
    # Renaming a file would leave the write-ahead log of the one before beside it.
    try:
        # SQLite would let every user of the machine read a new file.
        target.touch(source.stat().st_mode & _MODE)
        with (
            closing(sqlite3.connect(source, timeout=_TIMEOUT)) as reading,
            closing(sqlite3.connect(target, timeout=_TIMEOUT)) as writing,
        ):
            reading.backup(writing)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f"{source} cannot be copied to {target}: {error}") from error
