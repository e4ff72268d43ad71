"""Named queries that ship with the package, in ``analytics/sql``; answers as JSON, errors as one sentence."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from jdbcstore.errors import ConfigurationError, QueryFailed, StoreUnavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def folder() -> Traversable:
    return files("jdbcstore") / "analytics" / "sql"


def named(dialect: str = "") -> dict[str, str]:
    """Return the SQL of the named queries by name. The first line of each states its question.

    ``dialect``: a folder of variants for another engine.
    """
    queries = {file.name: file for file in folder().iterdir()}
    if dialect:
        queries |= {file.name: file for file in folder().joinpath(dialect).iterdir()}
    return {
        name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for name, file in sorted(queries.items())
        if name.endswith(".sql")
    }


def purpose(question: str) -> str:
    """Return the question that a named query answers: the comment in its first line."""
    return question.partition("\n")[0].removeprefix("-- ")


def as_json(frame: DataFrame) -> Iterator[str]:
    """Yield each row as a JSON object with all its columns; one partition is fetched at a time."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = F.struct(*(frame[f"`{name.replace('`', '``')}`"] for name in frame.columns))
    rows = frame.select(F.to_json(columns, {"ignoreNullFields": "false"}).alias("row"))
    return (row.row for row in rows.toLocalIterator())


_UNKNOWN = re.compile(
    r"""column "([\w.-]+)" not found|does not have a column named "([\w.-]+)\""""  # DuckDB
    r"""|^\[UNRESOLVED_COLUMN.* with name (?:`[^`]*`\.)*`([\w.-]+)`"""  # Spark
)


def hinted(said: str) -> str:
    """Add to an engine's error about an unknown column how a property of that name is read."""
    if (found := _UNKNOWN.search(said)) is None:
        return said
    return f"{said.rstrip('.')}; a property is read by properties['{found[found.lastindex or 1]}'].text"


_ENDED = (
    "Spark's Java has ended, most likely for lack of memory; set spark.driver.memory, which is 1g unless set"
    " (--conf spark.driver.memory=4g), and start again"
)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Translate Spark's errors in the block to one sentence.

    :raises QueryFailed: Spark rejected or failed a query in the block, or Java ended
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from jdbcstore.analytics.spark_session import LOST, has_ended

    try:
        yield
    except PySparkException as error:
        raise QueryFailed(hinted(_first_sentence(str(error)))) from error
    except Py4JJavaError as error:
        raise QueryFailed(_first_sentence(_first_cause(error.java_exception))) from error
    except LOST as error:
        if has_ended(error):
            raise QueryFailed(_ENDED) from error
        raise


ANOTHER = "reaches another database than the Python driver"
"""Error of our driver for another database; see ``StoreDriver.java``."""


@contextlib.contextmanager
def connecting() -> Iterator[None]:
    """Translate errors of Spark and of drivers in the block, with the driver's message.

    :raises ConfigurationError: the JDBC driver reaches another database than the Python driver
    :raises StoreUnavailable: it does not reach the database
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        thrown = error.java_exception if isinstance(error, Py4JJavaError) else error._origin
        said = _first_sentence(_first_cause(thrown) if thrown is not None else str(error))
        if ANOTHER in said:
            raise ConfigurationError(said, option="url") from error
        raise StoreUnavailable(f"Spark cannot connect: {said}") from error


def _first_cause(thrown: Any) -> str:
    while thrown.getCause() is not None:
        thrown = thrown.getCause()
    return str(thrown.getMessage())


def _first_sentence(text: str) -> str:
    return text.strip().partition("\n")[0]
