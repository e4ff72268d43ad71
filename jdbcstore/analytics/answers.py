"""Answers as text, and errors as sentences."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jdbcstore.errors import QueryFailed

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
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise QueryFailed(_first_sentence(str(cause.getMessage()))) from error


def _first_sentence(text: str) -> str:
    return text.strip().partition("\n")[0]
