"""A cluster application that queries each store: a script, which needs nothing of the tests.

Its argument is a JSON file: ``command``, what the command line is asked first, which starts the session;
``urls``, the stores by name; ``questions``; and ``file``, a store that is a file on the driver only. The
answers are printed as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from jdbcstore import analytics
from jdbcstore.cli import main
from jdbcstore.errors import QueryFailed


def where(_number: int) -> tuple[str, list[str], int]:
    """Where a task finds the package, what else it imported, and by which executor it was begun."""
    import jdbcstore
    import jdbcstore.analytics.decoding as used

    assert used
    packages = {name.partition(".")[0] for name in sys.modules} & {"sqlalchemy", "lark", "crc32c", "alembic"}
    return str(jdbcstore.__file__), sorted(packages), os.getppid()


def run(asked: dict[str, Any]) -> dict[str, Any]:
    printed = io.StringIO()
    code = 0
    if asked["command"]:
        with contextlib.redirect_stdout(printed):
            code = main(asked["command"])
    spark = analytics.session()
    answers = {}
    for name, url in asked["urls"].items():
        with analytics.connect(spark, url) as views, views.picture(partitions=2):
            answers[name] = [[[*row] for row in spark.sql(text).collect()] for text in asked["questions"]]
    error = ""
    if asked["file"]:
        with analytics.connect(spark, asked["file"]):
            try:
                with analytics.explained():
                    spark.sql("SELECT body_text FROM messages_decoded").collect()
            except QueryFailed as failed:
                error = str(failed)
    places = spark.sparkContext.parallelize(range(8), 8).map(where).collect()
    answered = {"code": code, "printed": printed.getvalue(), "answers": answers, "error": error}
    answered |= {"places": places, "application": spark.sparkContext.applicationId}
    spark.stop()
    return answered


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    sys.stdout.write(json.dumps(run(given)) + "\n")
