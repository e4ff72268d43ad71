"""Read all messages of a store: ``python -m tests.support.analytics.large READER URL FOLDER``.

Prints as JSON how many messages it has read, how many bytes their bodies have, and the most memory, in MB,
that this process or a Python worker of Spark had. Spark's Java has 700 MB.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jdbcstore
from jdbcstore import analytics, load_config
from jdbcstore.analytics import duck
from jdbcstore.tools import archive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEAP = "700m"
TOTALS = "SELECT count(*), CAST(sum(octet_length(body_bytes)) AS BIGINT) FROM "


def _arrow(url: str, _folder: str) -> list[int]:
    rows = size = 0
    for batch in jdbcstore.read_arrow(url):
        rows += len(batch)
        size += sum(map(len, filter(None, batch.column("body_bytes").to_pylist())))
    return [rows, size]


def _duckdb(url: str, _folder: str) -> list[int]:
    with duck.connect(url) as views:
        answer: Any = views.query(TOTALS + "messages_decoded")
        return [*answer.read_all().to_pylist()[0].values()]


def _totals(frame: DataFrame) -> list[int]:
    frame.createOrReplaceTempView("read")
    return [*frame.sparkSession.sql(TOTALS + "read").collect()[0]]


def _views(spark: SparkSession, url: str, _folder: str) -> list[int]:
    with analytics.connect(spark, url):
        return _totals(spark.table("messages_decoded"))


def _format(spark: SparkSession, url: str, _folder: str) -> list[int]:
    analytics.register(spark)
    return _totals(spark.read.format("jdbcstore").option("url", url).option("partitions", "2").load())


def _stream(spark: SparkSession, url: str, folder: str) -> list[int]:
    analytics.register(spark)
    batches: list[list[int]] = []
    messages = spark.readStream.format("jdbcstore").option("url", url).option("startingOffsets", "earliest")
    writer = messages.load().writeStream.foreachBatch(lambda batch, _: batches.append(_totals(batch)))
    writer.option("checkpointLocation", folder).trigger(availableNow=True).start().awaitTermination()
    return [*map(sum, zip(*batches, strict=True))]


def _archive(spark: SparkSession, url: str, folder: str) -> list[int]:
    archive.write(spark, load_config(url=url), f"{folder}/archive", archive.Window.of(older_than=0.0))
    return _totals(archive.read(spark, f"{folder}/archive"))


Reader = Callable[["SparkSession", str, str], list[int]]
WITHOUT_SPARK: dict[str, Callable[[str, str], list[int]]] = {"arrow": _arrow, "duckdb": _duckdb}
BY_SPARK: dict[str, Reader] = {"views": _views, "format": _format, "stream": _stream, "archive": _archive}


def _peaks() -> Iterator[int]:
    """Yield the most memory that each Python of this session had, in MB."""
    session = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[3]
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status = (path / "status").read_text()
            if (path / "stat").read_text().rpartition(")")[2].split()[3] == session and "python" in status:
                yield from (int(kb) // 1024 for kb in re.findall(r"VmHWM:\s*(\d+)", status))
        except FileNotFoundError:
            continue  # ended


def main(reader: str, url: str, folder: str) -> dict[str, Any]:
    if reader in WITHOUT_SPARK:
        found = WITHOUT_SPARK[reader](url, folder)
    else:
        found = BY_SPARK[reader](analytics.session("local[2]", **{"spark.driver.memory": HEAP}), url, folder)
    return {"found": found, "python": max(_peaks())}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
