"""MariaDB: MySQL's page under its own URL scheme and drivers."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import URL

from jdbcstore.database.adapters.mysql import MysqlAdapter


class MariadbAdapter(MysqlAdapter):
    """MariaDB 10.6 and later."""

    name = "mariadb"
    drivers: ClassVar = {
        "mariadb+pymysql": ("pymysql", "mysql"),
        "mariadb+pyodbc": ("pyodbc", "odbc"),
    }
    jdbc_subprotocols = ("mariadb",)
    odbc_driver = "MariaDB Unicode"
    odbc_timeouts = ("READ_TIMEOUT", "WRITE_TIMEOUT")

    def network_arguments(self, url: URL, seconds: float) -> dict[str, Any]:
        arguments = super().network_arguments(url, seconds)
        if url.drivername.endswith("+pyodbc"):
            # The time that ODBC gives to a login ends with the TCP connection: of a server that is
            # stopped, its greeting would be waited for without end.
            arguments["CONN_TIMEOUT"] = arguments["timeout"]
        return arguments

    def limit_query(self, connection: Any, seconds: float) -> None:
        connection.cursor().execute(f"SET SESSION max_statement_time = {seconds:f}")

    def limit_silence(self, cursor: Any, seconds: float) -> None:
        cursor.execute(f"SET SESSION idle_transaction_timeout = {max(1, round(seconds))}")
