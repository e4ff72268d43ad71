"""Messages as a stream of Arrow record batches, for polars, DuckDB and pandas; without Spark or Java."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jdbcstore.config import Configuration, StoreConfig
from jdbcstore.errors import ConfigurationError, installation

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader

__all__ = ["read_arrow"]


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
    try:
        from jdbcstore.analytics.arrow.reading import database_of, read
    except ModuleNotFoundError as error:
        if error.name not in ("pyarrow", "numpy"):
            raise
        raise ConfigurationError(f"{error.name} is not installed; run: {installation('arrow')}") from error
    return read(database_of(source, config), columns, where)
