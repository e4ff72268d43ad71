"""A cluster application that queries each store: ``python -m tests.support.analytics.cluster``."""

from __future__ import annotations

import json
import sys

from jdbcstore import analytics
from tests.support.jvm import QUICK

MASTER = "local-cluster[2,1,1024]"
QUESTIONS = (
    "SELECT destination, count(*) FROM messages GROUP BY destination ORDER BY destination",
    "SELECT sum(properties['n'].long), count(DISTINCT body_text), count(error) FROM messages_decoded",
    "SELECT id, destination FROM messages ORDER BY id DESC LIMIT 2",
)
SETTINGS = {
    "spark.driver.defaultJavaOptions": " ".join(QUICK),
    "spark.executor.defaultJavaOptions": " ".join(QUICK),
    "spark.executor.memory": "768m",
    # Begin when both workers are there.
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "200s",
    # Of the wait for a Python to start, on a machine that has much else to do.
    "spark.python.authenticate.socketTimeout": "120s",
}


def where(_number: int) -> tuple[str, int]:
    """Where a task finds the package, and by which worker it was begun."""
    import os

    import jdbcstore

    return str(jdbcstore.__file__), os.getppid()


def main(urls: dict[str, str]) -> None:
    spark = analytics.session(MASTER, **SETTINGS)
    answers = {}
    for name, url in urls.items():
        with analytics.connect(spark, url) as views, views.picture(partitions=2):
            answers[name] = [[tuple(row) for row in spark.sql(text).collect()] for text in QUESTIONS]
    places = spark.sparkContext.parallelize(range(8), 8).map(where).collect()
    name = spark.sparkContext.applicationId
    sys.stdout.write(json.dumps({"application": name, "answers": answers, "places": places}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
