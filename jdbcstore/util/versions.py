"""Versions for a bug report: Python, the platform, and the installed libraries."""

from __future__ import annotations

import platform
import sys

__all__ = ["versions"]

_LIBRARIES = ("SQLAlchemy", "alembic", "click", "lark")
"""Required by the package itself."""
_OPTIONAL = (
    *("psycopg", "PyMySQL", "pyodbc", "oracledb", "JPype1"),
    *(
        "pyspark",
        "pyarrow",
        "duckdb",
        "adbc-driver-postgresql",
        "aiohttp",
        "websockets",
        "kombu",
        "celery",
        "CoilMQ",
        "textual",
    ),
)
"""Shown if they are installed: drivers first."""


def versions(own: str) -> list[tuple[str, str]]:
    """Return the name and version of each part, beginning with jdbcstore's ``own``; imports no library."""
    from importlib.metadata import PackageNotFoundError, version
    from sqlite3 import sqlite_version

    from jdbcstore.util.core import in_use

    listed = [
        ("jdbcstore", own),
        (platform.python_implementation(), platform.python_version()),
        ("platform", f"{sys.platform} {platform.machine()} {platform.release()}"),
        ("SQLite", sqlite_version),
        ("core:", in_use()),
    ]
    for name in (*_LIBRARIES, *_OPTIONAL):
        try:
            listed.append((name, version(name)))
        except PackageNotFoundError:
            if name in _LIBRARIES:
                listed.append((name, "not installed"))
    return listed
