"""SAP MaxDB 7 through its JDBC driver."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import BigInteger, LargeBinary, String
from sqlalchemy.types import TypeEngine

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.bridged import BRIDGE, BridgedAdapter
from jdbcstore.database.adapters.types import Worded


class MaxdbAdapter(BridgedAdapter):
    """ActiveMQ's INTEGER has 32 bits here, too few for a time in milliseconds: ours is FIXED(19)."""

    name = "maxdb"
    drivers: ClassVar = {"jdbc+any": BRIDGE}
    jdbc_subprotocols = ("sapdb",)
    touches_to_lock = True
    now_ms = ""
    sequence_type: ClassVar[TypeEngine[Any]] = Worded(BigInteger(), "FIXED(19)")
    long_type: ClassVar[TypeEngine[Any]] = Worded(BigInteger(), "FIXED(19)")
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "LONG BYTE")
    container_name_type: ClassVar[TypeEngine[Any]] = Worded(String(250), "VARCHAR(250) ASCII")
    string_id_type: ClassVar[TypeEngine[Any]] = Worded(String(250), "VARCHAR(250) ASCII")
    failures: ClassVar = {
        **dict.fromkeys((200, 250), Failure.DUPLICATE),
        **dict.fromkeys((500, 600), Failure.TRANSIENT),
        **dict.fromkeys((-4004, -4005), Failure.NO_TABLE),
        -4008: Failure.REFUSED,
    }
