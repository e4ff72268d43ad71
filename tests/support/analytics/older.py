"""What Spark 3.5 does with a store in SQLite, a script: its arguments are the file and a folder.

It decodes rows, reads Parquet that Arrow has written, and asks for the views, which it does not have. The
answers are printed as JSON."""

from __future__ import annotations

import json
import sqlite3
import sys
from typing import Any

import pyarrow.dataset
from pyspark.sql import DataFrame, SparkSession

import jdbcstore
from jdbcstore import analytics
from jdbcstore.errors import ConfigurationError


def answers(frame: DataFrame) -> list[list[Any]]:
    rows = frame.selectExpr("id", "jms_type", "body_text", "properties['n'].long").orderBy("id")
    return [[*row] for row in rows.collect()]


def run(file: str, folder: str) -> dict[str, Any]:
    url = f"sqlite:///{file}"
    pyarrow.dataset.write_dataset(jdbcstore.read_arrow(url), f"{folder}/parquet", format="parquet")
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    rows = sqlite3.connect(file).execute("SELECT ID, CAST(MSG AS BLOB) FROM ACTIVEMQ_MSGS").fetchall()
    frame = spark.createDataFrame([(number, bytearray(msg)) for number, msg in rows], "id BIGINT, msg BINARY")
    answered = {
        "version": spark.version,
        "parquet": answers(spark.read.parquet(f"{folder}/parquet")),
        "decoded": answers(analytics.decode(frame, "msg")),
    }
    try:
        analytics.connect(spark, url)
    except ConfigurationError as error:
        answered["connected"] = str(error)
    spark.stop()
    return answered


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(*sys.argv[1:])) + "\n")
