"""A client of Spark Connect that asks each store: ``python -m tests.support.analytics.connecting``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from jdbcstore import analytics
from jdbcstore.analytics.java import find_java, make_shim
from jdbcstore.errors import StoreError
from tests.support.analytics.questions import QUESTIONS, VIEWS, Answer
from tests.support.jvm import QUICK

SETTINGS = {
    "spark.driver.defaultJavaOptions": " ".join(QUICK),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # Of the wait for a Python to start, on a machine that has much else to do.
    "spark.python.authenticate.socketTimeout": "120s",
}


def remote_session() -> Any:
    """A session of Spark Connect, with a server of its own."""
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(make_shim(find_java()))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def answers(spark: Any, names: Mapping[str, str]) -> dict[str, Answer]:
    """What the views with these names answer."""
    return {
        name: question.normal([*map(list, spark.sql(question.asked(names)).collect())])
        for name, question in QUESTIONS.items()
    }


def quoted(store: str) -> dict[str, str]:
    """The names of a store's views, as SQL has them everywhere."""
    return {view: f"`jdbcstore.{store}.{view}`" for view in VIEWS}


JOINED = (
    "SELECT a.id, o.said FROM `jdbcstore.{0}.messages` a JOIN `jdbcstore.{1}.messages_decoded` b"
    " ON a.id = b.id AND a.destination = b.destination JOIN own o ON o.id = b.id ORDER BY a.id"
)


def main(urls: dict[str, str], lost: str) -> None:
    spark = remote_session()
    said: dict[str, Any] = {"answers": {}, "views": analytics.VIEWS}
    opened = {name: analytics.connect(spark, url, name=name) for name, url in urls.items()}
    for name in urls:
        said["answers"][name] = answers(spark, quoted(name))
    one, other = [*urls][-2:]
    spark.createDataFrame([(3, "three"), (5, "five")], "id BIGINT, said STRING").createTempView("own")
    said["joined"] = [[*row] for row in spark.sql(JOINED.format(one, other)).collect()]
    with opened[one].picture(partitions=3):
        frame = spark.table(f"`jdbcstore.{one}.messages_decoded`")
        said["picture"] = [frame.count(), frame.select("body_text").distinct().count()]
    opened[one].close()
    said["left"] = sorted(row.viewName for row in spark.sql("SHOW VIEWS").collect())
    history = spark.sql(f"SELECT state, count(*) FROM `jdbcstore.{other}.history` GROUP BY state")
    said["history"] = [[*row] for row in history.collect()]
    said["still"] = spark.sql(f"SELECT count(*) FROM `jdbcstore.{other}.messages`").first()[0]
    with analytics.connect(spark, urls[other]):
        said["plain"] = spark.sql("SELECT count(*) FROM messages").first()[0]
    said["plan"] = explained(spark, other)
    try:
        analytics.connect(spark, lost)
    except StoreError as error:
        said["lost"] = [type(error).__name__, str(error)]
    sys.stdout.write(json.dumps(said) + "\n")
    spark.stop()


def explained(spark: Any, store: str) -> str:
    """How the server would answer a question with a filter."""
    frame = spark.sql(f"SELECT id FROM `jdbcstore.{store}.messages_decoded` WHERE destination = 'queue://a'")
    return str(frame._explain_string(extended=True))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
