"""SQL Server 2016 and later through pyodbc."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sqlalchemy import URL, Dialect, Select
from sqlalchemy.dialects.mssql import NVARCHAR, VARBINARY
from sqlalchemy.types import TypeEngine

from jdbcstore.config.data_source import unbraced
from jdbcstore.database.adapters.base import Adapter, Failure, odbc_error
from jdbcstore.database.adapters.codes import MSSQL, failure_of
from jdbcstore.database.adapters.control import ServerControl
from jdbcstore.database.adapters.writing import Writing
from jdbcstore.errors import ConfigurationError

_EXACT = "Latin1_General_100_BIN2"
_URL = re.compile(
    r"jdbc:(?:microsoft:|jtds:)?sqlserver://(?P<host>\[[^\]]+\]|[^:;/\\]*)(?:\\[^:;]*)?(?::(?P<port>\d+))?"
    r"(?:/(?P<database>[^;]*))?(?P<properties>(?:;[^;]*)*)",
    re.IGNORECASE,
)

_PROPERTY = re.compile(r";\s*(?P<name>[^=;]+?)\s*=(?P<value>\{(?:[^}]|\}\})*\}|[^;]*)")
_SAME = {"database": "databasename", "port": "portnumber", "server": "servername", "username": "user"}
"""Second names of the JDBC driver's properties."""


class MssqlWriting(Writing):
    """Statements of up to 2,100 parameters."""

    begin_statement = "BEGIN TRANSACTION"
    # The server takes 2100 parameters in one statement; a row has eight.
    rows_per_insert = 250
    keys_per_delete = 1999

    def rollback(self, cursor: Any) -> None:
        # After a deadlock there is no transaction, and ROLLBACK alone would be an error.
        cursor.execute("IF @@TRANCOUNT > 0 ROLLBACK")


class MssqlControl(ServerControl):
    """Of SQL Server."""

    def limit_lock_wait(self, seconds: float) -> None:
        self._cursor.execute(f"SET LOCK_TIMEOUT {round(seconds * 1000)}")


class MssqlAdapter(Adapter):
    """Names are compared exactly under every collation, and hold all of Unicode."""

    name = "mssql"
    writing = MssqlWriting()
    control = MssqlControl
    drops_if_exists = True
    drivers: ClassVar = {"mssql+pyodbc": ("pyodbc", "mssql")}
    jdbc_subprotocols = ("sqlserver", "jtds", "microsoft")
    acks_key_is_named = True
    drop_acks_key = "DROP CONSTRAINT {name}"
    statement_end = ";\nGO"
    owner_grants = (
        "GRANT CREATE TABLE TO {owner}",
        "GRANT ALTER, SELECT, INSERT, UPDATE, DELETE ON SCHEMA::dbo TO {owner}",
    )
    now_ms = "DATEDIFF_BIG(MILLISECOND, '19700101', SYSUTCDATETIME())"
    size_function = "datalength"  # LEN counts characters, without trailing blanks
    odbc_driver: ClassVar[str] = "ODBC Driver 18 for SQL Server"
    binary_type: ClassVar[TypeEngine[Any]] = VARBINARY("max")  # type: ignore[no-untyped-call]
    # In VARCHAR a character that the code page lacks silently becomes a question mark.
    container_name_type: ClassVar[TypeEngine[Any]] = NVARCHAR(250, collation=_EXACT)
    msg_id_type: ClassVar[TypeEngine[Any]] = NVARCHAR(250, collation=_EXACT)
    string_id_type: ClassVar[TypeEngine[Any]] = NVARCHAR(250, collation=_EXACT)
    # A key of three such names exceeds the size limit of a clustered index.
    key_options: ClassVar = {"mssql_clustered": False}

    @classmethod
    def url_from_jdbc(cls, text: str) -> URL:
        match = _URL.fullmatch(text)
        given = {
            _SAME.get(name := pair["name"].lower(), name): unbraced(pair["value"])
            for pair in _PROPERTY.finditer(match["properties"] if match else "")
        }
        port = (match and match["port"]) or given.get("portnumber", "")
        if match is None or not re.fullmatch(r"\d{0,5}", port):
            raise ConfigurationError(
                "the SQL Server JDBC URL cannot be parsed; write jdbc:sqlserver://host:1433;databaseName=name"
            )
        return URL.create(
            next(iter(cls.drivers)),
            given.get("user"),
            given.get("password"),
            (match["host"] or given.get("servername", "")).strip("[]") or None,
            int(port) if port else None,
            match["database"] or given.get("databasename"),
        )

    @classmethod
    def offline_dialect(cls) -> Dialect:
        dialect: Any = super().offline_dialect()
        # Otherwise it numbers all rows of a table for a page, as for SQL Server 2008.
        dialect._supports_offset_fetch = True
        dialect.deprecate_large_types = True
        return dialect  # type: ignore[no-any-return]

    def normalise(self, url: URL) -> URL:
        if "driver" in url.query or "odbc_connect" in url.query:
            return url
        return url.update_query_dict({"driver": self.odbc_driver})

    def engine_options(self, url: URL) -> dict[str, Any]:  # noqa: ARG002
        return {"connect_args": {"autocommit": True, "timeout": 10}}

    def on_connect(self, connection: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        # An error inside a transaction rolls all of it back, not only its statement.
        cursor.execute("SET XACT_ABORT ON")
        cursor.close()

    def locked(self, query: Select[Any]) -> Select[Any]:
        # FOR UPDATE would be dropped silently.
        for table in query.get_final_froms():
            query = query.with_hint(table, "WITH (UPDLOCK, ROWLOCK)", "mssql")
        return query

    def limit_query(self, connection: Any, seconds: float) -> None:
        connection.timeout = max(1, round(seconds))

    def classify(self, error: BaseException) -> Failure:
        state = error.args[0] if error.args and isinstance(error.args[0], str) else None
        code, function = odbc_error(error)
        if state == "HYT00" and function == "SQLDriverConnect":
            # Also where nothing listens: the driver tries until its time is up.
            return Failure.DISCONNECTED
        return MSSQL.get(code) or failure_of(state)
