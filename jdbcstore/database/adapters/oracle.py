"""Oracle 12.2 and later through oracledb, which needs no Oracle software of its own.

An empty string is NULL to Oracle: an empty selector reads back as none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from sqlalchemy import URL
from sqlalchemy.dialects.oracle import BLOB, NUMBER
from sqlalchemy.types import TypeEngine

from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.adapters.codes import ORACLE
from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.adapters.urls import from_jdbc, take_login
from jdbcstore.database.adapters.writing import SwitchedWriting
from jdbcstore.errors import ConfigurationError

_THIN = re.compile(
    r"jdbc:oracle:(?:thin|oci):(?:(?P<user>[^/@]*)/(?P<password>.*))?@(?://)?"
    r"(?P<host>\[[^\]]+\]|[^:/@()]+)"
    r"(?::(?P<port>\d{1,5})(?=[:/]))?(?P<kind>(?(port)[:/]|/))(?P<name>[^:/?]+)",
    re.IGNORECASE,
)


class OracleWriting(SwitchedWriting):
    """One statement for each row."""

    def execute_many(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        _bind_blobs(cursor, rows)
        super().execute_many(cursor, sql, rows)


class OracleAdapter(Adapter):
    """Numbers are NUMBER, as ActiveMQ's are. A page is FETCH FIRST, which cannot lock rows."""

    name = "oracle"
    writing = OracleWriting()
    drivers: ClassVar = {"oracle+oracledb": ("oracledb", "oracle")}
    jdbc_subprotocols = ("oracle",)
    sequence_type: ClassVar[TypeEngine[Any]] = NUMBER()  # type: ignore[no-untyped-call]
    long_type: ClassVar[TypeEngine[Any]] = NUMBER()  # type: ignore[no-untyped-call]
    binary_type: ClassVar[TypeEngine[Any]] = BLOB()
    max_blob = 1024**3  # sent by the driver in one piece
    can_forbid_null = True
    statement_end = "\n/"
    owner_grants = ("GRANT CREATE SESSION, CREATE TABLE TO {owner}",)
    now_ms = (
        "((TRUNC(SYS_EXTRACT_UTC(SYSTIMESTAMP)) - DATE '1970-01-01') * 86400000"
        " + EXTRACT(HOUR FROM SYS_EXTRACT_UTC(SYSTIMESTAMP)) * 3600000"
        " + EXTRACT(MINUTE FROM SYS_EXTRACT_UTC(SYSTIMESTAMP)) * 60000"
        " + TRUNC(EXTRACT(SECOND FROM SYS_EXTRACT_UTC(SYSTIMESTAMP)) * 1000))"
    )

    @classmethod
    def url_from_jdbc(cls, text: str) -> URL:
        login, rest = take_login(text)
        match = _THIN.fullmatch(rest)
        if match is None:
            raise ConfigurationError(
                "the Oracle JDBC URL cannot be parsed; write jdbc:oracle:thin:@//host:1521/service, or"
                " jdbc:oracle:thin:@host:1521:SID"
            )
        driver = next(iter(cls.drivers))
        url = from_jdbc(f"jdbc:oracle://{match['host']}:{match['port'] or 1521}", driver)
        url = url.set(
            username=match["user"] or login.get("user"), password=match["password"] or login.get("password")
        )
        if match["kind"] == "/":
            return url.set(query={"service_name": match["name"]})
        return url.set(database=match["name"])

    def engine_options(self, url: URL) -> dict[str, Any]:  # noqa: ARG002
        # Otherwise every number is sent as a string.
        return {"coerce_to_decimal": False, "connect_args": {"tcp_connect_timeout": 10.0}}

    def on_connect(self, connection: Any) -> None:
        connection.autocommit = True

    def limit_answers(self, connection: Any, seconds: float) -> None:
        connection.call_timeout = max(1, round(seconds * 1000))

    def limit_query(self, connection: Any, seconds: float) -> None:
        # It may interrupt a commit as well: then the connection is closed, and the outcome looked up.
        connection.call_timeout = max(1, round(seconds * 1000))

    def classify(self, error: BaseException) -> Failure:
        detail = error.args[0] if error.args else None
        code = getattr(detail, "code", 0)
        if code in ORACLE:
            return ORACLE[code]
        lost = getattr(detail, "isrecoverable", False) or getattr(detail, "full_code", "") in _LOST
        return Failure.DISCONNECTED if lost else Failure.UNKNOWN


def _bind_blobs(cursor: Any, rows: Sequence[Row]) -> None:
    """Have the driver bind bytes as LONG RAW for a BLOB: RAW ends at 32,767."""
    import oracledb

    binary = [index for index, value in enumerate(rows[0]) if isinstance(value, bytes)]
    if binary:
        sizes = [oracledb.DB_TYPE_LONG_RAW if index in binary else None for index in range(len(rows[0]))]
        cursor.setinputsizes(*sizes)


_LOST = ("DPY-1001", "DPY-4011", "DPY-4024", "DPY-6000", "DPY-6001", "DPY-6005")
