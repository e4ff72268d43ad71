"""Where the long runs, which are no tests of pytest's, have their files and databases."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.backends import BACKENDS
from tests.support.databases import Database, SqliteDatabase


@contextmanager
def a_folder(parent: Path | None) -> Iterator[Path]:
    """A new one, there or where temporary files are."""
    with tempfile.TemporaryDirectory(prefix="jdbcstore-long-run-", dir=parent) as place:
        yield Path(place)


@contextmanager
def a_database(name: str, place: Path) -> Iterator[Database]:
    """An empty one; on a private server, if it is a server's."""
    backend = next(backend for backend in BACKENDS if backend.id == name)
    if backend.private is None:
        yield SqliteDatabase(place)
        return
    server = backend.private()
    try:
        database = backend.database(backend.private_url(server))
        yield database
        database.close()
    finally:
        server.close()
