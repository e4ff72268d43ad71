"""DB2 LUW 11 and later through its JDBC driver."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import LargeBinary
from sqlalchemy.types import TypeEngine

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.bridged import BRIDGE, BridgedAdapter
from jdbcstore.database.adapters.types import Worded


class Db2Adapter(BridgedAdapter):
    """BLOB alone would be BLOB(1M) here, which is what ActiveMQ makes."""

    name = "db2"
    drivers: ClassVar = {"jdbc+db2": BRIDGE}
    jdbc_subprotocols = ("db2",)
    now_ms = (
        "((BIGINT(DAYS(CURRENT TIMESTAMP - CURRENT TIMEZONE)) - DAYS('1970-01-01')) * 86400000"
        " + BIGINT(MIDNIGHT_SECONDS(CURRENT TIMESTAMP - CURRENT TIMEZONE)) * 1000"
        " + MICROSECOND(CURRENT TIMESTAMP) / 1000)"
    )
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "BLOB(1G)")
    failures: ClassVar = {
        -4499: Failure.DISCONNECTED,
        -4214: Failure.REFUSED,
    }

    def max_message_size(self, cursor: Any) -> int:  # noqa: ARG002
        return 2**30
