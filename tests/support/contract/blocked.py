"""A writer that does not come to its work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.support.databases import Database


@contextlib.contextmanager
def blocked(database: Database) -> Iterator[None]:
    """Someone else holds what the first write of a store needs."""
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE JDBCSTORE_STATE SET NUMBER = NUMBER + 0")
        yield
