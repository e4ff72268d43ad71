"""A cluster application that queries each store: a script, which needs nothing of the tests.

Its argument is a JSON file: ``command``, what the command line is asked first, which starts the session;
``urls``, the stores by name; ``questions``, those for each; ``file``, a store that is a file on the driver
only; ``archive``, a folder that is on the driver only, for the first of the stores; and ``stream``, a store
whose messages are counted by a stream, in a folder ``output``. Those that are missing are left out. The
answers are printed as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jdbcstore import analytics, load_config
from jdbcstore.cli import main
from jdbcstore.errors import ConfigurationError, QueryFailed
from jdbcstore.tools import archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def where(_number: int) -> tuple[str, list[str], int]:
    """Where a task finds the package, what else it imported, and by which executor it was begun."""
    import jdbcstore
    import jdbcstore.analytics.decoding as used

    assert used
    packages = {name.partition(".")[0] for name in sys.modules} & {"sqlalchemy", "lark", "crc32c", "alembic"}
    return str(jdbcstore.__file__), sorted(packages), os.getppid()


def count(spark: SparkSession, url: str, output: str) -> int:
    """The messages that a stream writes to files."""
    options = {"url": url, "startingOffsets": "earliest", "settleSeconds": "0"}
    rows = spark.readStream.format("jdbcstore").options(**options).load().select("id", "body_text")
    writer = rows.writeStream.format("parquet").option("checkpointLocation", f"{output}/checkpoint")
    writer.trigger(availableNow=True).start(f"{output}/rows").awaitTermination()
    return spark.read.parquet(f"{output}/rows").distinct().count()


def run(asked: dict[str, Any]) -> dict[str, Any]:
    printed = io.StringIO()
    code = 0
    if "command" in asked:
        with contextlib.redirect_stdout(printed):
            code = main(asked["command"])
    spark = analytics.session()
    answers = {}
    for name, url in asked["urls"].items():
        with analytics.connect(spark, url) as views, views.picture(partitions=2):
            answers[name] = [
                [[*row] for row in spark.sql(text).collect()] for text in asked["questions"][name]
            ]
    error = ""
    if "file" in asked:
        with analytics.connect(spark, asked["file"]):
            try:
                with analytics.explained():
                    spark.sql("SELECT body_text FROM messages_decoded").collect()
            except QueryFailed as failed:
                error = str(failed)
    unseen = ""
    if "archive" in asked:
        store = load_config(url=next(iter(asked["urls"].values())))
        try:
            archive.write(spark, store, asked["archive"], archive.Window())
        except ConfigurationError as failed:
            unseen = str(failed)
    streamed: int | str = 0
    if "stream" in asked:
        try:
            analytics.register(spark)
            streamed = count(spark, asked["stream"], asked["output"])
        except ConfigurationError as failed:
            streamed = str(failed)
    places = spark.sparkContext.parallelize(range(8), 8).map(where).collect()
    answered = {"code": code, "printed": printed.getvalue(), "answers": answers, "error": error}
    answered["unseen"] = unseen
    answered |= {
        "places": places,
        "streamed": streamed,
        "version": spark.version,
        "application": spark.sparkContext.applicationId,
    }
    spark.stop()
    return answered


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    sys.stdout.write(json.dumps(run(given)) + "\n")
