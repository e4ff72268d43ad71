"""HSQLDB 2 through its JDBC driver, as a server or a file in this process."""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import func
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.bridged import BRIDGE, BridgedAdapter


class HsqldbAdapter(BridgedAdapter):
    """A SELECT locks no row here, so an UPDATE that changes nothing does."""

    name = "hsqldb"
    drivers: ClassVar = {"jdbc+hsqldb": BRIDGE}
    jdbc_subprotocols = ("hsqldb",)
    write_at_once = "SET FILES WRITE DELAY FALSE"
    touches_to_lock = True
    now_ms = "UNIX_MILLIS()"
    failures: ClassVar = {
        "42501": Failure.NO_TABLE,  # its text speaks of rights, and means also what is not there
        "40502": Failure.DISCONNECTED,
        **dict.fromkeys((-3401, -3407), Failure.TOO_LARGE),
    }

    def size(self, column: ColumnElement[bytes]) -> ColumnElement[int]:
        return func.octet_length(column)
