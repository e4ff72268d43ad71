"""Running a statement about some messages, given by their IDs, in as many parts as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Runs
from jdbcstore.database.statements.claims import OfIds


def fetch(connection: Runs, of_ids: OfIds, ids: Sequence[int], **values: Any) -> list[Row]:
    """Return the rows of a statement about these messages."""
    return [row for sql, some in of_ids.parts(ids) for row in connection.fetch(sql, **some, **values)]


def execute(connection: Runs, of_ids: OfIds, ids: Sequence[int], **values: Any) -> None:
    """Run a statement about these messages."""
    for sql, some in of_ids.parts(ids):
        connection.execute(sql, **some, **values)
