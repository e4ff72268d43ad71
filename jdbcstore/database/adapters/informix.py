"""Informix 12 and later through its JDBC driver."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import BigInteger, LargeBinary, String
from sqlalchemy.types import TypeEngine

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.bridged import BRIDGE, BridgedAdapter
from jdbcstore.database.adapters.types import Worded


class InformixAdapter(BridgedAdapter):
    """Names are written without quotes, which mean a text here, and hold 150 characters."""

    name = "informix"
    drivers: ClassVar = {"jdbc+any": BRIDGE}
    jdbc_subprotocols = ("informix-sqli",)
    fold_upper = False
    quotes_names = False
    touches_to_lock = True
    now_ms = "CAST(DBINFO('utc_current') AS BIGINT) * 1000"
    sequence_type: ClassVar[TypeEngine[Any]] = Worded(BigInteger(), "INT8")
    long_type: ClassVar[TypeEngine[Any]] = Worded(BigInteger(), "INT8")
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "BYTE")
    # Three longer ones are beyond what a key takes.
    container_name_type: ClassVar[TypeEngine[Any]] = String(150)
    string_id_type: ClassVar[TypeEngine[Any]] = String(150)
    drop_acks_key = "DROP CONSTRAINT {name}"
    failures: ClassVar = {
        **dict.fromkeys((-239, -268), Failure.DUPLICATE),
        **dict.fromkeys((-143, -144, -107, -113), Failure.TRANSIENT),
        **dict.fromkeys((-206, -217), Failure.NO_TABLE),
        **dict.fromkeys((-908, -25580, -79716, -79730), Failure.DISCONNECTED),
        -951: Failure.REFUSED,
    }
