"""H2 2 through its JDBC driver, as a server or a file in this process."""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import func
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.bridged import BRIDGE, BridgedAdapter


class H2Adapter(BridgedAdapter):
    """Its BLOB is as large as a message can be."""

    name = "h2"
    drivers: ClassVar = {"jdbc+h2": BRIDGE}
    jdbc_subprotocols = ("h2",)
    write_at_once = "SET WRITE_DELAY 0"
    now_ms = "CAST(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP) * 1000 AS BIGINT)"
    failures: ClassVar = {
        # The connection is broken, the database closed, the file locked by another process.
        **dict.fromkeys((90007, 90020, 90067, 90098, 90121, 90126), Failure.DISCONNECTED),
        **dict.fromkeys((42102, 42104, 42122), Failure.NO_TABLE),
        90131: Failure.TRANSIENT,  # the row was changed meanwhile
    }

    def size(self, column: ColumnElement[bytes]) -> ColumnElement[int]:
        # LENGTH counts characters, of bytes that it takes for UTF-8.
        return func.octet_length(column)
