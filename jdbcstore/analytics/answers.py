"""Answers as text, and errors as sentences."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jdbcstore.errors import QueryFailed, StoreUnavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def as_json(frame: DataFrame) -> Iterator[str]:
    """Each row as one JSON object with all its columns, one partition after the other."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = F.struct(*(frame[f"`{name.replace('`', '``')}`"] for name in frame.columns))
    rows = frame.select(F.to_json(columns, {"ignoreNullFields": "false"}).alias("row"))
    return (row.row for row in rows.toLocalIterator())


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Spark's errors in the block, as :class:`QueryFailed` in one sentence."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise QueryFailed(_first_sentence(str(error))) from error
    except Py4JJavaError as error:
        raise QueryFailed(_first_sentence(_first_cause(error.java_exception))) from error


@contextlib.contextmanager
def connecting() -> Iterator[None]:
    """Spark's errors in the block, as :class:`StoreUnavailable` with what the driver said."""
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        yield
    except CapturedException as error:
        said = _first_cause(error._origin) if error._origin is not None else str(error)
        raise StoreUnavailable(f"Spark has no connection: {_first_sentence(said)}") from error


def _first_cause(thrown: Any) -> str:
    while thrown.getCause() is not None:
        thrown = thrown.getCause()
    return str(thrown.getMessage())


def _first_sentence(text: str) -> str:
    return text.strip().partition("\n")[0]
