"""The views of a connected store, however they are read, and the snapshots that their tasks can share."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jdbcstore.analytics.queries import count_ids, nth_id
from jdbcstore.analytics.vendors import Vendor
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import ConfigurationError
from jdbcstore.util.closing import Closing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Analytics(Closing):
    """The views of one store in the session ``spark``, until :meth:`close`; made by :func:`connect`."""

    spark: SparkSession
    """The session that has the views."""
    has_journal = False
    """Whether a journal may hold messages that these views do not show; known without Spark Connect only."""

    @abstractmethod
    def close(self) -> None:
        """Drop the views and close the connections; the views of the store connected before are restored."""

    @abstractmethod
    def explained(self) -> contextlib.AbstractContextManager[None]:
        """Translate errors of Spark in the block to one sentence.

        :raises QueryFailed: Spark rejected or failed a query in the block
        """

    @abstractmethod
    def include(self, archived: DataFrame) -> None:
        """Add messages to the view ``history`` that the store and its records do not have.

        :param archived: messages of an archive, from :func:`jdbcstore.tools.archive.read`, or
            of a journal's files, from :func:`jdbcstore.tools.journal_views.read`
        :raises ConfigurationError: this is a session of Spark Connect
        """

    @abstractmethod
    def picture(
        self, partitions: int | None = None, *, snapshot: bool = True
    ) -> contextlib.AbstractContextManager[None]:
        """Keep all views on one snapshot within the block, and read messages in many partitions.

        On PostgreSQL the moment is that of an exported snapshot, which is held until the block ends: keep the
        block short, since VACUUM cannot remove newer dead rows until it ends. DataFrames made in the block
        cannot be read after it. Other databases offer a snapshot to a single statement only: there each view
        is read as one partition, and is consistent in itself.

        :param partitions: None means one per core of the session
        :param snapshot: False means without the one moment, in many partitions on any database: each
            partition of each view is then read as of its own moment
        """


def needs_java() -> ConfigurationError:
    """Return the error for an operation that a session of Spark Connect does not support."""
    return ConfigurationError(
        "archives and comparisons need a session with Java, which a session of Spark Connect is not; use"
        " jdbcstore.analytics.session() with SPARK_REMOTE unset"
    )


@contextlib.contextmanager
def exported(session: DatabaseSession, vendor: Vendor) -> Iterator[str]:
    """Yield the name of a snapshot that other connections can read within the block."""
    with session.translated(), session.engine.connect() as connection:
        connection.exec_driver_sql(vendor.begin)
        name = connection.exec_driver_sql(vendor.export).scalar_one()
        try:
            yield str(name)
        finally:
            connection.exec_driver_sql("ROLLBACK")


def bounds_of(session: DatabaseSession, partitions: int) -> list[int]:
    """Return the IDs that divide the table into this many equal parts."""
    [count] = one(session, count_ids(session.tables))
    places = sorted({count * part // partitions for part in range(1, partitions)} - {0})
    return [one(session, nth_id(session.tables, place))[0] for place in places]


def one(session: DatabaseSession, query: Any) -> tuple[Any, ...]:
    """Return the only row of the answer."""
    with session.translated(), session.engine.connect() as connection:
        return tuple(connection.execute(query).one())
