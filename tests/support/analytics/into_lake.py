"""A stream of a store into a Delta or an Iceberg table: a script, which needs nothing of the tests.

``into_lake.py URL KIND JARS FOLDER`` streams until it is killed; with ``--to-the-end``, until all present
messages are in the table, whose IDs it then prints as JSON, with Spark's version.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from jdbcstore import analytics

_SETTINGS = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.warehouse": "{folder}/warehouse",
    "spark.sql.shuffle.partitions": "1",
}
_DELTA = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
}
_TABLE = "lake.mq.messages"
"""Of Iceberg; Delta's is a folder."""


def main(url: str, kind: str, jars: str, folder: str, *end: str) -> dict[str, Any]:
    settings = {name: value.format(folder=folder) for name, value in _SETTINGS.items()}
    settings |= {"spark.jars": ",".join(map(str, Path(jars).glob("*.jar")))}
    spark = analytics.session("local[2]", **settings, **(_DELTA if kind == "delta" else {}))
    analytics.register(spark)
    messages = spark.readStream.format("jdbcstore").option("url", url).option("startingOffsets", "earliest")
    writer = messages.load().writeStream.format(kind).option("checkpointLocation", f"{folder}/checkpoint")
    if end == ("--to-the-end",):
        writer = writer.trigger(availableNow=True)
    if kind == "delta":
        writer.start(f"{folder}/table").awaitTermination()
        table = spark.read.format("delta").load(f"{folder}/table")
    else:
        writer.toTable(_TABLE).awaitTermination()
        table = spark.table(_TABLE)
    return {"ids": [row.id for row in table.select("id").collect()], "version": spark.version}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
