"""MariaDB: MySQL's page under its own URL scheme and drivers."""

from __future__ import annotations

from typing import ClassVar

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
