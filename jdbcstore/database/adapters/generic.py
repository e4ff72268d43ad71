"""For a database that has no adapter: neutral SQL through any SQLAlchemy dialect or any JDBC driver.

They differ in the type of MSG. Nothing is known of the vendor, so they take no short cuts: one statement
for each row, and errors judged by SQLSTATE and by what SQLAlchemy's dialect says.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import URL, LargeBinary
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.types import TypeEngine

from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.adapters.bridged import BRIDGE
from jdbcstore.database.adapters.sqlstate import failure_of
from jdbcstore.database.adapters.types import Worded
from jdbcstore.database.adapters.urls import bridged
from jdbcstore.errors import ConfigurationError


class DefaultAdapter(Adapter):
    """MSG is BLOB. On MySQL and its kin that ends at 64 KB: choose their own adapter there."""

    name = "default"
    drivers: ClassVar = {"jdbc+any": BRIDGE}
    jdbc_subprotocols = ()
    quotes_names = False
    touches_to_lock = True
    now_ms = ""
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "BLOB")

    def __init__(self) -> None:
        self._dialect: Any

    @classmethod
    def url_from_jdbc(cls, text: str) -> URL:
        return bridged(text, next(iter(cls.drivers)))

    @classmethod
    def with_driver(cls, url: URL) -> URL:
        return url

    def normalise(self, url: URL) -> URL:
        try:
            kind: Any = url.get_dialect()
            self._dialect = kind(dbapi=kind.import_dbapi())
        except NoSuchModuleError:
            raise ConfigurationError(
                f"SQLAlchemy has no dialect {url.drivername!r}; install the package that brings it, or use"
                " a JDBC URL"
            ) from None
        except ImportError as error:
            raise ConfigurationError(
                f"the driver of {url.drivername} cannot be loaded: {error}; install it, or name another"
                " driver in the URL"
            ) from error
        # Written without quotes, names are what this vendor makes of them, as ActiveMQ's are.
        self.fold_upper = not isinstance(self._dialect, PGDialect)  # type: ignore[misc]
        return url

    def engine_options(self, url: URL) -> dict[str, Any]:  # noqa: ARG002
        return {"isolation_level": "AUTOCOMMIT"}

    def begin(self, cursor: Any) -> None:
        connection = cursor.connection
        levels = self._dialect.get_isolation_level_values(connection)
        level = "READ COMMITTED" if "READ COMMITTED" in levels else "SERIALIZABLE"
        self._dialect.set_isolation_level(connection, level)

    def commit(self, cursor: Any) -> None:
        cursor.connection.commit()
        self._dialect.set_isolation_level(cursor.connection, "AUTOCOMMIT")

    def rollback(self, cursor: Any) -> None:
        cursor.connection.rollback()
        self._dialect.set_isolation_level(cursor.connection, "AUTOCOMMIT")

    def max_message_size(self, cursor: Any) -> int:  # noqa: ARG002
        return 2**31 - 1

    def classify(self, error: BaseException) -> Failure:
        failure = failure_of(_state_of(error))
        if failure is not Failure.OTHER:
            return failure
        if self._dialect.is_disconnect(error, None, None):
            return Failure.DISCONNECTED
        return _BY_CLASS.get(type(error).__name__, Failure.OTHER)


_BY_CLASS = {
    "DataError": Failure.BAD_VALUE,
    "IntegrityError": Failure.DUPLICATE,
    "InterfaceError": Failure.DISCONNECTED,
}
"""What the DBAPI's classes of errors say, where there is no SQLSTATE."""


def _state_of(error: BaseException) -> str | None:
    """The SQLSTATE, where the driver has put it: an attribute, or ODBC's first argument, or Java's."""
    if hasattr(error, "getSQLState"):
        return str(error.getSQLState() or "")
    state = getattr(error, "sqlstate", None) or (error.args[0] if error.args else None)
    return state if isinstance(state, str) and len(state) == 5 else None


class BlobAdapter(DefaultAdapter):
    """As the default; ActiveMQ's writes in two steps, which no driver needs any more."""

    name = "blob"


class BytesAdapter(DefaultAdapter):
    """MSG is BYTEA, for what calls itself PostgreSQL."""

    name = "bytes"
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "BYTEA")


class ImageAdapter(DefaultAdapter):
    """MSG is IMAGE, for what descends from Sybase."""

    name = "image"
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "IMAGE")
