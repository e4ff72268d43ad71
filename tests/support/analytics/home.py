"""A home of Spark whose Python workers start with everything imported.

Spark puts ``pyspark.zip`` on the path of its workers, which each compile what they import from there, and
forks each worker from a daemon that has imported little: two to four seconds of a processor for each. In this
home, ``pyspark.zip`` is a directory with the installed package, and daemons import what workers would.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.support import tiers

_STARTING = """
import gc
import importlib
import sys

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    for name in (
        "jdbcstore.analytics.decoding",
        "jdbcstore.analytics.format.source",
        "jdbcstore.analytics.streaming.reading",
        "psycopg",
        "pyarrow.compute",
        "pymysql.cursors",
        "pyspark.sql.datasource_internal",
        "pyspark.sql.pandas.serializers",
        "pyspark.sql.worker.plan_data_source_read",
        "sqlalchemy.dialects.mysql.pymysql",
        "sqlalchemy.dialects.postgresql.psycopg",
        "sqlalchemy.dialects.sqlite.pysqlite",
    ):
        try:
            importlib.import_module(name)
        except Exception:  # the worker that needs it says so
            pass
    gc.freeze()
"""


def make(folder: Path) -> Path:
    """Make such a home of the installed Spark there."""
    tiers.starts("spark")
    pyspark = _package("pyspark")
    for part in pyspark.iterdir():
        if part.name != "python":
            (folder / part.name).symlink_to(part)
    libraries = folder / "python" / "lib"
    for zipped in (pyspark / "python" / "lib").glob("*.zip"):
        name = zipped.name.partition("-")[0].removesuffix(".zip")
        (libraries / zipped.name).mkdir(parents=True)
        (libraries / zipped.name / name).symlink_to(_package(name))
    (libraries / "pyspark.zip" / "sitecustomize.py").write_text(_STARTING)
    return folder


@contextmanager
def used(home: Path) -> Iterator[None]:
    """Start Spark in the block from this home."""
    before = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]
        if before is not None:
            os.environ["SPARK_HOME"] = before


def _package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
