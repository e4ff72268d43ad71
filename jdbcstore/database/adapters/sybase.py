"""Sybase ASE 15 and later through its JDBC driver, jConnect or jTDS."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import BigInteger, LargeBinary, func
from sqlalchemy.sql import ColumnElement
from sqlalchemy.types import TypeEngine

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.bridged import BRIDGE, BridgedAdapter
from jdbcstore.database.adapters.types import Worded


class SybaseAdapter(BridgedAdapter):
    """A column that may be NULL has to say so here."""

    name = "sybase"
    drivers: ClassVar = {"jdbc+sybase": BRIDGE}
    jdbc_subprotocols = ("sybase",)
    quotes_names = False
    statement_end = "\nGO"
    touches_to_lock = True
    acks_key_is_named = True
    drop_acks_key = "DROP CONSTRAINT {name}"
    now_ms = "CAST(DATEDIFF(SS, '19700101', GETUTCDATE()) AS BIGINT) * 1000"
    sequence_type: ClassVar[TypeEngine[Any]] = Worded(BigInteger(), "DECIMAL")
    long_type: ClassVar[TypeEngine[Any]] = Worded(BigInteger(), "DECIMAL")
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "IMAGE")
    failures: ClassVar = {
        **dict.fromkeys((2601, 2615), Failure.DUPLICATE),
        1205: Failure.TRANSIENT,
        **dict.fromkeys((207, 208), Failure.NO_TABLE),
        1105: Failure.FULL,
        4002: Failure.REFUSED,
    }

    def size(self, column: ColumnElement[bytes]) -> ColumnElement[int]:
        return func.datalength(column)
