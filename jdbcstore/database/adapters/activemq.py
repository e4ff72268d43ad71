"""ActiveMQ's own names of adapters, and the adapter each means here."""

from __future__ import annotations

import re

_ADAPTERS = {
    "axion": "axion",
    "blob": "blob",
    "bytes": "bytes",
    "db2": "db2",
    "default": "default",
    "h2": "h2",
    "hsqldb": "hsqldb",
    "imagebased": "image",
    "informix": "informix",
    "maxdb": "maxdb",
    "mysql": "mysql",
    "oracle": "oracle",
    "oracleblob": "oracle",
    "postgresql": "postgresql",
    "sqlserver": "mssql",
    # Streams are how its JDBC driver wants the same column.
    "stream": "default",
    "sybase": "sybase",
    "transact": "mssql",
}
"""What is left of a class or element name without ``jdbc`` and ``adapter``."""


def adapter_of_activemq(name: str) -> str | None:
    """The adapter for one of ActiveMQ's: its class, or its element in XML; None if it has no such."""
    last = name.strip().rpartition(".")[2].lower()
    return _ADAPTERS.get(re.sub(r"-|jdbc|adapt[eo]r", "", last)) if "jdbc" in last else None
