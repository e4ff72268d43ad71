"""JDBC drivers: found on this machine, or explained."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from jdbcstore.analytics.vendors import VENDORS, Vendor
from jdbcstore.errors import ConfigurationError

JARS_VARIABLE = "JDBCSTORE_JARS"
"""Names a directory of jars, or for who can reach Maven's repository ``group:artifact:version,...``."""
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+(,[\w.-]+:[\w.-]+:[\w.-]+)*")
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
    if named and not packages():
        yield Path(named)
    yield from _SYSTEM


def jars_found() -> list[Path]:
    """Every driver that is here, for a session that reads any vendor."""
    found = (find_jar(vendor) for vendor in VENDORS.values())
    return sorted({jar for jar in found if jar is not None})


def packages() -> str:
    """The coordinates of drivers for Spark to fetch from Maven's repository; empty without any."""
    named = os.environ.get(JARS_VARIABLE, "").strip()
    return named if _COORDINATES.fullmatch(named) else ""


def cure(vendor: Vendor) -> str:
    """How to get a driver that is missing."""
    return (
        f"install Debian's {vendor.debian}, or let {JARS_VARIABLE} name a directory with the jar,"
        f" or where Maven's repository is reached {JARS_VARIABLE}={vendor.package}"
    )


def missing_driver(name: str, vendor: Vendor) -> ConfigurationError:
    """That Spark has no driver for this vendor, and how to give it one."""
    jar = find_jar(vendor)
    if jar is not None:
        return ConfigurationError(
            f"this Spark session was started without the JDBC driver for {name}, which is here: start it with"
            f" spark-submit --jars {jar}, or set spark.jars={jar} before a session of your own starts"
        )
    return ConfigurationError(f"Spark has no JDBC driver for {name} ({vendor.driver}); {cure(vendor)}")
