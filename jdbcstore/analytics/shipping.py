"""What the workers of a cluster need of this package: itself."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import jdbcstore
from jdbcstore.analytics.scratch import scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_shipped: set[str] = set()
"""The applications whose workers have it."""


def ship(spark: SparkSession) -> None:
    """Give the workers of a cluster this jdbcstore, whichever is installed there, or none.

    Workers of this machine's own cores have what the driver has.
    """
    context = spark.sparkContext
    if str(context.master).partition("[")[0] == "local" or context.applicationId in _shipped:
        return
    context.addPyFile(str(_packed()))
    _shipped.add(context.applicationId)


def _packed() -> Path:
    """A zip with this package: that which it was imported from, where ``--py-files`` named one."""
    package = Path(jdbcstore.__file__).parent
    if not package.is_dir():
        return package.parent
    archive = scratch("package") / "jdbcstore.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted(package.rglob("*.py")):
            file.write(module, module.relative_to(package.parent))
    return archive
