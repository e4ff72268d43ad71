"""MariaDB: MySQL's page under its own URL scheme and drivers."""

from __future__ import annotations

from typing import Any, ClassVar

from jdbcstore.adapters.mysql import MysqlAdapter


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

    def limit_query(self, connection: Any, seconds: float) -> None:
        connection.cursor().execute(f"SET SESSION max_statement_time = {seconds:f}")

    def limit_silence(self, cursor: Any, seconds: float) -> None:
        cursor.execute(f"SET SESSION idle_transaction_timeout = {max(1, round(seconds))}")
