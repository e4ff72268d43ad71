"""SQLite's dialect for Spark, which has none: compiled where it runs, by the compiler inside Spark."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jdbcstore.analytics.scratch import scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "jdbcstore.SqliteDialect"
_SOURCE = Path(__file__).with_name("SqliteDialect.java")
_registered: set[str] = set()
"""The applications that have it."""


def register_sqlite(spark: SparkSession) -> None:
    """Teach Spark SQLite's types, and which aggregates and limits it may push down to it.

    Without it the key of a table is taken for 32 bits, and other numbers for decimals.
    """
    application = spark.sparkContext.applicationId
    if application in _registered:
        return
    jar = scratch("dialect") / "dialect.jar"
    java: Any = spark._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    _compile(java, loader, jar)
    spark.sparkContext._jsc.sc().addJar(str(jar))  # for the tasks
    loader.addURL(java.java.io.File(str(jar)).toURI().toURL())  # for the planner
    dialects = java.org.apache.spark.sql.jdbc.JdbcDialects
    before = dialects.get("jdbc:sqlite:")
    if before.getClass().getName() == _CLASS:
        # Of two that serve a URL Spark makes one, which pushes nothing down.
        dialects.unregisterDialect(before)
    dialects.registerDialect(loader.loadClass(_CLASS).newInstance())
    _registered.add(application)


def _compile(java: Any, loader: Any, jar: Path) -> None:
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(_SOURCE.read_text(encoding="utf-8"))
    classes = compiler.getBytecodes()
    with zipfile.ZipFile(jar, "w") as archive:
        for name in classes:
            archive.writestr(f"{name.replace('.', '/')}.class", bytes(classes[name]))
