"""A second file system for Spark: ``unatomic:///folder``, without locks and without an atomic rename."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "jdbcstore.tests.Unatomic"


def add(spark: SparkSession, folder: Path) -> None:
    """Teach a running Spark the scheme; ``folder`` gets the class."""
    java: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    settings = context.hadoopConfiguration()
    if settings.get("fs.unatomic.impl") is not None:
        return
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(Path(__file__).with_name("Unatomic.java").read_text())
    jar = folder / "unatomic.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        classes = compiler.getBytecodes()
        for name in classes:
            archive.writestr(f"{name.replace('.', '/')}.class", bytes(classes[name]))
    context.sc().addJar(str(jar))  # for the tasks
    loader.addURL(java.java.io.File(str(jar)).toURI().toURL())
    settings.setClassLoader(loader)
    settings.set("fs.unatomic.impl", _CLASS)


def url_of(folder: Path) -> str:
    return f"unatomic://{folder}"
