"""A client of Spark Connect that asks each store: ``python -m tests.support.analytics.connecting``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
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
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.shuffle.partitions": "2",
    # Of the wait for a Python to start, on a machine that has much else to do.
    "spark.python.authenticate.socketTimeout": "120s",
}


def remote_session() -> Any:
    """A session of Spark Connect, with a server of its own, at :func:`address`."""
    from pyspark.sql.connect.session import SparkSession

    os.environ["JAVA_HOME"] = str(make_shim(find_java()))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # As builder.remote("local[2]") does it, whose port is always the same.
    SparkSession._start_connect_server("local[2]", {**SETTINGS})
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    return SparkSession.builder.remote(address()).getOrCreate()


def address() -> str:
    """The URL of this process' server."""
    from pyspark import SparkContext

    java: Any = SparkContext._jvm
    service = getattr(java, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return f"sc://localhost:{getattr(service, 'MODULE$').localPort()}"


def commanded(url: str, *arguments: str) -> list[Any]:
    """The code, the output and the errors of ``jdbcstore sql``, run as a client of this process' server."""
    done = subprocess.run(
        [sys.executable, "-m", "jdbcstore", "--url", url, "sql", "--remote", address(), *arguments],
        env={name: value for name, value in os.environ.items() if not name.startswith("JAVA_")},
        capture_output=True,
        text=True,
    )
    return [done.returncode, done.stdout, done.stderr]


def answers(spark: Any, names: Mapping[str, str], asked: Iterable[str] = QUESTIONS) -> dict[str, Answer]:
    """What the views with these names answer to the questions."""
    return {
        name: QUESTIONS[name].normal([*map(list, spark.sql(QUESTIONS[name].asked(names)).collect())])
        for name in asked
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
    one, other = [*urls][-2:]
    for number, name in enumerate(urls):  # a session of one process asks each store all of them
        said["answers"][name] = answers(spark, quoted(name), [*QUESTIONS][number :: len(urls)])
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
    said["command"] = commanded(urls[other], "--json", "SELECT min(id) AS first FROM messages_decoded")
    said["wrong"] = commanded(urls[other], "SELECT nothing FROM messages")
    sys.stdout.write(json.dumps(said) + "\n")
    spark.stop()


def explained(spark: Any, store: str) -> str:
    """How the server would answer a question with a filter."""
    frame = spark.sql(f"SELECT id FROM `jdbcstore.{store}.messages_decoded` WHERE destination = 'queue://a'")
    return str(frame._explain_string(extended=True))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
