"""JDBC drivers: found on this machine, or explained."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from jdbcstore.analytics.vendors import VENDORS, Vendor
from jdbcstore.errors import ConfigurationError

JARS_VARIABLE = "JDBCSTORE_JARS"
"""Names a directory of jars."""
_SYSTEM = (Path("/usr/share/java"), Path("/usr/local/share/java"))


def find_jar(vendor: Vendor) -> Path | None:
    """The vendor's driver: in the directory that JDBCSTORE_JARS names, or where the system keeps jars."""
    for directory in _directories():
        for pattern in vendor.jars:
            for jar in sorted(directory.glob(pattern), reverse=True):
                return jar
    return None


def _directories() -> Iterator[Path]:
    named = os.environ.get(JARS_VARIABLE)
    if named:
        yield Path(named)
    yield from _SYSTEM


def jars_found() -> list[Path]:
    """Every driver that is here, for a session that reads any vendor."""
    found = (find_jar(vendor) for vendor in VENDORS.values())
    return sorted({jar for jar in found if jar is not None})


def missing_driver(name: str, vendor: Vendor) -> ConfigurationError:
    """That Spark has no driver for this vendor, and the three ways to give it one."""
    return ConfigurationError(
        f"Spark has no JDBC driver for {name} ({vendor.driver}); install Debian's {vendor.debian}, or put the"
        f" jar into a directory that {JARS_VARIABLE} names, or start the session with"
        f" spark.jars.packages={vendor.package}"
    )
