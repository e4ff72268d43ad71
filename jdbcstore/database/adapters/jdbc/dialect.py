"""SQLAlchemy dialects over JDBC: plain SQL, the vendors' row limits, and reflection by DatabaseMetaData."""

# ruff: noqa: ARG002 (SQLAlchemy passes more than these need)

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from sqlalchemy import URL, BigInteger, Integer, LargeBinary, Numeric, SmallInteger, String
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql.compiler import DDLCompiler, SQLCompiler
from sqlalchemy.types import NullType, TypeEngine

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.codes import failure_of
from jdbcstore.database.adapters.urls import URL_PROPERTY

_TRIES = 20


class MaxRowsCompiler(SQLCompiler):
    """The row limit is passed to the driver, for vendors without a known LIMIT clause."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        return f" {{maxrows {self.process(select._limit_clause, **kw)}}}"


class LimitCompiler(SQLCompiler):
    def limit_clause(self, select: Any, **kw: Any) -> str:
        return f"\n LIMIT {self.process(select._limit_clause, **kw)}"


class FetchCompiler(SQLCompiler):
    def limit_clause(self, select: Any, **kw: Any) -> str:
        return f"\n FETCH FIRST {self.process(select._limit_clause, **kw)} ROWS ONLY"


class DerbyCompiler(FetchCompiler):
    """Without WITH RS the lock is released once the row has been read."""

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        return " FOR UPDATE WITH RS"


class Db2Compiler(FetchCompiler):
    """Derby's, with the kind of lock."""

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        return " FOR UPDATE WITH RS USE AND KEEP UPDATE LOCKS"


class JdbcDialect(DefaultDialect):
    """The JDBC URL is in the URL's query. Tables are those of the connection's own schema."""

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
        """Do nothing: a connection that is not in autocommit mode is always in a transaction."""

    def is_disconnect(self, error: Any, connection: Any, cursor: Any) -> bool:
        from jdbcstore.database.adapters.jdbc.dbapi import states

        return any(failure_of(state) is Failure.DISCONNECTED for state, _ in states(error))

    def _get_default_schema_name(self, connection: Any) -> Any:
        return _metadata(connection).schema()

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        return _metadata(connection).find(table_name) is not None

    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> Any:
        return _metadata(connection).table_names()

    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return [_column(row) for row in _metadata(connection).columns(table_name)]

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        name, columns = _metadata(connection).primary_key(table_name)
        return {"name": name, "constrained_columns": columns}

    def get_indexes(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        indexes = _metadata(connection).indexes(table_name).items()
        return [
            {"name": name, "column_names": columns, "unique": unique} for name, (unique, columns) in indexes
        ]


_TYPES: dict[int, type[TypeEngine[Any]]] = {
    **dict.fromkeys((-2, -3, -4, 2004), LargeBinary),
    **dict.fromkeys((2, 3), Numeric),
    -5: BigInteger,
    4: Integer,
    5: SmallInteger,
}
"""By code of ``java.sql.Types``."""


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
    """Columns are NOT NULL by default there."""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        untyped: Any = super()  # before SQLAlchemy 2.1
        specification: str = untyped.get_column_specification(column, **kw)
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


def _metadata(connection: Any) -> Metadata:
    return Metadata(connection.connection.dbapi_connection)


class Metadata:
    """Reflection of the connection's own schema, for any vendor; names match regardless of case.

    :raises NoSuchTableError: the table does not exist
    """

    def __init__(self, connection: Any) -> None:
        self._java = connection.java
        self._data = connection.java.getMetaData()

    def table_names(self) -> list[Any]:
        types = ["TABLE", "BASE TABLE"]
        tables = _read(lambda: self._data.getTables(self._catalog(), self.schema(), "%", types))
        return [row["TABLE_NAME"] for row in tables]

    def find(self, name: str) -> str | None:
        """Return the table's name in the database; None if it does not exist."""
        names = self.table_names()
        return name if name in names else next((n for n in names if n.lower() == name.lower()), None)

    def _table(self, name: str) -> str:
        table = self.find(name)
        if table is None:
            raise NoSuchTableError(name)
        return table

    def columns(self, name: str) -> list[dict[str, Any]]:
        table = self._table(name)
        pattern = self._pattern(table)
        rows = _read(lambda: self._data.getColumns(self._catalog(), self.schema(), pattern, "%"))
        return [row for row in rows if row["TABLE_NAME"] == table]

    def primary_key(self, name: str) -> tuple[str | None, list[str]]:
        """Return the key's name, and its columns in order."""
        table = self._table(name)
        rows = _read(lambda: self._data.getPrimaryKeys(self._catalog(), self.schema(), table))
        rows.sort(key=lambda row: int(row["KEY_SEQ"]))
        return (rows[0]["PK_NAME"] if rows else None), [row["COLUMN_NAME"] for row in rows]

    def indexes(self, name: str) -> dict[str, tuple[bool, list[str]]]:
        """Name -> whether it is unique, and its columns in order."""
        table = self._table(name)
        index_rows = _read(
            lambda: self._data.getIndexInfo(self._catalog(), self.schema(), table, False, True)
        )
        rows = [row for row in index_rows if row["INDEX_NAME"] is not None]
        rows.sort(key=lambda row: int(row["ORDINAL_POSITION"]))
        indexes: dict[str, tuple[bool, list[str]]] = {}
        for row in rows:
            unique = row["NON_UNIQUE"] in ("0", "false", "FALSE")
            indexes.setdefault(row["INDEX_NAME"], (unique, []))[1].append(row["COLUMN_NAME"])
        return indexes

    def schema(self) -> str | None:
        name = self._java.getSchema()
        return None if name is None else str(name)

    def _catalog(self) -> str | None:
        name = self._java.getCatalog()
        return str(name) if name else None

    def _pattern(self, name: str) -> str:
        escape = str(self._data.getSearchStringEscape() or "")
        return name.replace("_", f"{escape}_") if escape else name


def _read(ask: Callable[[], Any]) -> list[dict[str, Any]]:
    """Return the rows of the catalogue."""
    left = _TRIES
    while True:
        left -= 1
        try:
            return [*_rows(ask())]
        except Exception as error:
            # H2 walks its list of a table's indexes while another connection creates one.
            if "ConcurrentModificationException" not in str(error) or not left:
                raise


def _rows(result: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows, with every column as a string or None."""
    meta = result.getMetaData()
    names = [str(meta.getColumnLabel(index)) for index in range(1, meta.getColumnCount() + 1)]
    with closing(result):
        while result.next():
            values = [result.getString(index) for index in range(1, len(names) + 1)]
            yield {n: None if v is None else str(v) for n, v in zip(names, values, strict=True)}
