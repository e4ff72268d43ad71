"""SQLAlchemy dialects for what is reached through JDBC: plain SQL, and each vendor's way to end a query."""

# ruff: noqa: ARG002 (SQLAlchemy passes more than these need)

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, BigInteger, Integer, LargeBinary, Numeric, SmallInteger, String
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql.compiler import DDLCompiler, SQLCompiler
from sqlalchemy.types import NullType, TypeEngine

from jdbcstore.database.adapters.base import Failure, failure_of
from jdbcstore.database.adapters.urls import URL_PROPERTY


class MaxRowsCompiler(SQLCompiler):
    """The driver is told how many rows are wanted, and the statement says nothing of it."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        return f" {{maxrows {self.process(select._limit_clause, **kw)}}}"


class LimitCompiler(SQLCompiler):
    def limit_clause(self, select: Any, **kw: Any) -> str:
        return f"\n LIMIT {self.process(select._limit_clause, **kw)}"


class FetchCompiler(SQLCompiler):
    def limit_clause(self, select: Any, **kw: Any) -> str:
        return f"\n FETCH FIRST {self.process(select._limit_clause, **kw)} ROWS ONLY"


class DerbyCompiler(FetchCompiler):
    """Without WITH RS the lock is gone once the row has been read."""

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        return " FOR UPDATE WITH RS"


class Db2Compiler(FetchCompiler):
    """As Derby's; there the lock must be asked for by its kind."""

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        return " FOR UPDATE WITH RS USE AND KEEP UPDATE LOCKS"


class JdbcDialect(DefaultDialect):
    """The URL's query holds the JDBC URL. Tables are those of the connection's own schema."""

    name = "jdbc"
    driver = "jpype"
    default_paramstyle = "qmark"
    statement_compiler: Any = MaxRowsCompiler
    supports_statement_cache = True
    supports_sane_multi_rowcount = False
    supports_default_values = False
    max_identifier_length = 128

    @classmethod
    def import_dbapi(cls) -> Any:
        from jdbcstore.database.adapters.jdbc import dbapi

        return dbapi

    def create_connect_args(self, url: URL) -> Any:
        return (url.query[URL_PROPERTY], url.username, url.password), {}

    def get_isolation_level_values(self, connection: Any) -> Any:
        return ("AUTOCOMMIT", "READ COMMITTED")

    def set_isolation_level(self, connection: Any, level: str) -> None:
        connection.autocommit = level == "AUTOCOMMIT"
        if level != "AUTOCOMMIT":
            connection.read_committed()

    def get_isolation_level(self, connection: Any) -> Any:
        return "AUTOCOMMIT" if connection.autocommit else "READ COMMITTED"

    def get_default_isolation_level(self, connection: Any) -> Any:
        return "READ COMMITTED"

    def do_begin(self, connection: Any) -> None:
        """Nothing to say: a connection that is not in autocommit mode is always in a transaction."""

    def is_disconnect(self, error: Any, connection: Any, cursor: Any) -> bool:
        from jdbcstore.database.adapters.jdbc.dbapi import states

        return any(failure_of(state) is Failure.DISCONNECTED for state, _ in states(error))

    def _get_default_schema_name(self, connection: Any) -> Any:
        return self._metadata(connection).schema()

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        return self._metadata(connection).table(table_name) is not None

    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> Any:
        return self._metadata(connection).table_names()

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        metadata = self._metadata(connection)
        return [_column(row) for row in metadata.columns(self._table(metadata, table_name))]

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        metadata = self._metadata(connection)
        name, columns = metadata.primary_key(self._table(metadata, table_name))
        return {"name": name, "constrained_columns": columns}

    def get_indexes(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        metadata = self._metadata(connection)
        indexes = metadata.indexes(self._table(metadata, table_name)).items()
        return [
            {"name": name, "column_names": columns, "unique": unique} for name, (unique, columns) in indexes
        ]

    @staticmethod
    def _metadata(connection: Any) -> Any:
        from jdbcstore.database.adapters.jdbc.reflection import Metadata

        return Metadata(connection.connection.dbapi_connection)

    @staticmethod
    def _table(metadata: Any, name: str) -> str:
        found: str | None = metadata.table(name)
        if found is None:
            raise NoSuchTableError(name)
        return found


_TYPES: dict[int, type[TypeEngine[Any]]] = {
    **dict.fromkeys((-2, -3, -4, 2004), LargeBinary),
    **dict.fromkeys((2, 3), Numeric),
    -5: BigInteger,
    4: Integer,
    5: SmallInteger,
}
"""By the codes of ``java.sql.Types``."""


def _column(row: dict[str, Any]) -> dict[str, Any]:
    code = int(row["DATA_TYPE"])
    type_ = String(int(row["COLUMN_SIZE"])) if code in (1, 12, -9, -15) else _TYPES.get(code, NullType)()
    return {
        "name": row["COLUMN_NAME"],
        "type": type_,
        "nullable": row["NULLABLE"] != "0",
        "default": row["COLUMN_DEF"],
        "comment": None,
    }


class SybaseDdlCompiler(DDLCompiler):
    """There a column of which nothing is said cannot be NULL."""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        specification = super().get_column_specification(column, **kw)
        return f"{specification} NULL" if column.nullable else specification


class LimitDialect(JdbcDialect):
    statement_compiler = LimitCompiler
    supports_statement_cache = True


class DerbyDialect(JdbcDialect):
    statement_compiler = DerbyCompiler
    supports_statement_cache = True


class Db2Dialect(JdbcDialect):
    statement_compiler = Db2Compiler
    supports_statement_cache = True


class SybaseDialect(JdbcDialect):
    ddl_compiler = SybaseDdlCompiler
    supports_statement_cache = True
