"""Messages as a stream of Arrow record batches, for polars, DuckDB and pandas; without Spark or Java."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jdbcstore.errors import ConfigurationError, installation

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader

    from jdbcstore.config import Configuration, StoreConfig

__all__ = ["decode", "read_arrow"]


def read_arrow(
    source: str | Configuration,
    columns: Sequence[str] | None = None,
    where: Any = None,
    *,
    config: StoreConfig | None = None,
) -> RecordBatchReader:
    """Return the messages of a store as a stream of Arrow record batches, decoded column by column.

    Columns have the names and types of Spark's view ``messages_decoded``. Only named columns, and those that
    ``where`` needs, are read and decoded. The order of the messages is not defined.

    The messages are a consistent snapshot: one statement reads them. It starts with this call, and its
    connection is closed after the last batch, or as soon as nothing refers to the reader any more. Memory
    holds one batch, of about 8 MiB, for any number of messages. Nothing is written.

    ``where`` is a condition, or a list of conditions that all must hold. A condition is

    - a tuple ``(column, operator, value)``, with ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` and
      ``not in``. Those on ``id``, ``destination``, ``msgid_prod``, ``msgid_seq``, ``expiration``,
      ``priority`` and ``xid`` are evaluated by the database where its indexes and comparisons allow
    - a string: a JMS selector, such as ``"table = 7 AND JMSPriority > 4"``
    - an expression of ``pyarrow.compute`` over the columns

    As in SQL, a comparison with null does not hold. A message that does not decode has null in its columns
    and the reason in ``error``.

    >>> reader = jdbcstore.read_arrow("sqlite:///mq.db", ["id", "body_text"], "table = 7")
    >>> frame = polars.from_arrow(reader.read_all())

    :param source: a SQLAlchemy or JDBC URL, or a :class:`Configuration`
    :param columns: the columns to return, in this order; None for all
    :param config: the store's options, in place of the configuration's: names of tables
    :raises ConfigurationError: a column or condition is not valid, or pyarrow is not installed
    :raises InvalidSelector: a selector is not valid
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are missing
    """
    with _installed():
        from jdbcstore.analytics.arrow.reading import database_of, read
    return read(database_of(source, config), columns, where)


def decode(frame: Any, column: str = "msg") -> Any:
    """Decode a column of MSG bytes that is outside a store, such as a dump of ``ACTIVEMQ_MSGS``.

    The result has the columns of the frame, then the columns that ``messages_decoded`` decodes from MSG. A
    row that does not decode has null in these columns, and the reason in ``error``.

    >>> reader = analytics.decode(pyarrow.parquet.read_table("dump.parquet"))
    >>> reader = analytics.decode(duckdb.sql("SELECT * FROM 'dump.parquet'").to_arrow_table())
    >>> frame = analytics.decode(spark.read.parquet("dump.parquet"))

    :param frame: a Spark DataFrame, from Spark 3.5, which makes the result one; or a stream of Arrow: a table
        or reader of pyarrow, or a frame of polars, which make it a ``pyarrow.RecordBatchReader`` that holds
        one batch in memory
    :param column: the binary column to decode
    :raises ConfigurationError: there is no such column, the frame has a column of a decoded column's name, or
        pyarrow is not installed
    """
    with _installed():
        from jdbcstore.analytics.arrow.decoding import decoded_frame, decoded_stream
    return decoded_frame(frame, column) if hasattr(frame, "mapInArrow") else decoded_stream(frame, column)


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("pyarrow", "numpy"):
            raise
        raise ConfigurationError(f"{error.name} is not installed; run: {installation('arrow')}") from error
