"""Rows of messages as they are stored, with what is in them beside it: for whoever keeps or compares them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jdbcstore.analytics.columns import COLUMNS
from jdbcstore.analytics.decoding import decoded
from jdbcstore.analytics.queries import as_text, last_id, nth_id_behind, stored
from jdbcstore.analytics.reading import Reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RAW = ("id", "container", "msgid_prod", "msgid_seq", "expiration", "priority", "msg")


@dataclass(frozen=True, slots=True)
class Stored:
    """The messages of one store that are not in doubt, by ranges of IDs.

    Each range is read by several tasks, each in a statement of its own, so that they do not show one
    moment; but no row is in two.
    """

    reading: Reading

    def last_id(self) -> int:
        """The highest there is; -1 if there is none."""
        return self._ids(last_id(self.reading.source.session.tables))[0]

    def ranges(self, after: int, up_to: int, count: int) -> Iterator[tuple[int, int]]:
        """Both, cut into ranges of so many messages: behind the first ID, up to the second."""
        tables = self.reading.source.session.tables
        while after < up_to:
            found = self._ids(nth_id_behind(tables, after, count, up_to))
            end = found[0] if found else up_to
            yield after, end
            after = end

    def frame(self, ranges: list[tuple[int, int]], *, acknowledged: bool = False) -> DataFrame:
        """The columns :data:`RAW` of these ranges, one partition each.

        ``acknowledged``: only what every durable subscription of its topic has acknowledged.
        """
        source = self.reading.source
        session = source.session
        query = stored(session.tables, session.adapter, ours=session.has_own_tables, done=acknowledged)
        id_ = session.engine.dialect.identifier_preparer.quote(session.tables.messages.c.id.name)
        frame = self.reading.partitions(
            f"({as_text(query, session.engine.dialect)}) stored",
            [f"{id_} > {after} AND {id_} <= {up_to}" for after, up_to in ranges],
        )
        return frame.select(*RAW)

    def _ids(self, query: object) -> list[int]:
        session = self.reading.source.session
        with session.translated(), session.engine.connect() as connection:
            return [int(id_) for (id_,) in connection.execute(query)]  # type: ignore[call-overload]


def decoded_columns(blob: Column) -> list[Column]:
    """What ``messages_decoded`` makes of the column MSG."""
    return [decoded(column, blob) for column in COLUMNS]
