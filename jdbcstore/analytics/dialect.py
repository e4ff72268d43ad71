"""Dialects of Spark's for the databases of stores: compiled where it runs, by the compiler inside Spark.

Spark's own push down what means something else in the database. They stay as they are for whatever else
the session reads: ours serve URLs that only a driver of ours knows, which goes on to the vendor's.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from typing import TYPE_CHECKING, Any

from jdbcstore.analytics.meaning import Meaning
from jdbcstore.analytics.resources import resource
from jdbcstore.analytics.scratch import scratch
from jdbcstore.analytics.vendors import Vendor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "jdbcstore.StoreDriver"
_DIALECT = "jdbcstore.StoreDialect"
_taught: dict[str, set[str]] = {}
"""By application, the prefixes of URLs that it has a dialect for."""


def teach(spark: SparkSession, vendor: Vendor, url: str, meaning: Meaning) -> str:
    """Have Spark ask the database under this JDBC URL no more than what means the same there.

    Returns the URL by which Spark has to call it, with the driver :data:`DRIVER`.
    """
    facts = [url.split(":")[1], meaning.settings, sorted(meaning.texts), sorted(meaning.wholes)]
    name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]
    prefix = f"jdbc:jdbcstore:{name}:"
    application = spark.sparkContext.applicationId
    java: Any = spark._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    if application not in _taught:
        _load(spark, java, loader)
    if prefix not in _taught.setdefault(application, set()):
        _register(spark, java, loader, prefix, url, meaning)
        _taught[application].add(prefix)
    return f"{prefix}{vendor.driver}:{url.removeprefix('jdbc:')}"


def _load(spark: SparkSession, java: Any, loader: Any) -> None:
    jar = scratch("dialect") / "dialect.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for written in (DRIVER, _DIALECT):
            compiler = java.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(resource(f"{written.partition('.')[2]}.java"))
            classes = compiler.getBytecodes()
            for name in classes:
                archive.writestr(f"{name.replace('.', '/')}.class", bytes(classes[name]))
    spark.sparkContext._jsc.sc().addJar(str(jar))  # for the tasks
    loader.addURL(java.java.io.File(str(jar)).toURI().toURL())  # for the planner


def _register(spark: SparkSession, java: Any, loader: Any, prefix: str, url: str, meaning: Meaning) -> None:
    dialects = java.org.apache.spark.sql.jdbc.JdbcDialects
    before = dialects.get(prefix)
    if before.getClass().getName() == _DIALECT:
        dialects.unregisterDialect(before)  # an earlier application's
    types = dialects.get(url)
    known = types.getClass().getSimpleName() != "NoopDialect$"
    settings, texts, wholes = java.java.util.HashMap(), java.java.util.ArrayList(), java.java.util.ArrayList()
    for name, value in meaning.settings.items():
        settings.put(name, value)
    for columns, names in ((texts, meaning.texts), (wholes, meaning.wholes)):
        for name in sorted(names):
            columns.add(name)
    arguments = spark.sparkContext._gateway.new_array(java.Object, 5)  # type: ignore[union-attr]
    for place, argument in enumerate((prefix, types if known else None, settings, texts, wholes)):
        arguments[place] = argument
    made = loader.loadClass(_DIALECT).getConstructors()[0]
    dialects.registerDialect(made.newInstance(arguments))
