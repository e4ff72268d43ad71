"""The outbox as a table of SQLAlchemy, for the statements of applications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, LargeBinary, MetaData, Table, Text
from sqlalchemy.sql import quoted_name
from sqlalchemy.types import TypeEngine

_COLUMNS: Mapping[str, TypeEngine[Any]] = {
    **dict.fromkeys(("DESTINATION", "BODY", "BODY_TYPE", "CORRELATION_ID", "REPLY_TO", "JMS_TYPE"), Text()),
    **dict.fromkeys(("GROUP_ID", "SEND_ID"), Text()),
    **dict.fromkeys(("PRIORITY", "PERSISTENT", "DELAY", "EXPIRES"), BigInteger()),
    "BODY_BYTES": LargeBinary(),
    "PROPERTIES": JSON(none_as_null=True),
}

# Without ID: an INSERT would return it, for which an application needs the right to SELECT.
OUTBOX = Table(
    quoted_name("JDBCSTORE_OUTBOX", quote=False),
    MetaData(),
    *(Column(quoted_name(name, quote=False), type_, key=name.lower()) for name, type_ in _COLUMNS.items()),
)
"""JDBCSTORE_OUTBOX, for ``insert(OUTBOX).values(destination="queue://ORDERS", body="two pints")``.

``properties`` takes a dictionary.
"""
