"""Databases without an adapter class of their own: vendors known by a table of facts, and any other.

They are reached through any JDBC driver, or any SQLAlchemy dialect.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from sqlalchemy import URL, BigInteger, LargeBinary, String
from sqlalchemy.dialects import registry
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.types import TypeEngine

from jdbcstore.config.statements import Template
from jdbcstore.database.adapters.base import Adapter, Failure, Worded
from jdbcstore.database.adapters.codes import failure_of
from jdbcstore.database.adapters.urls import URL_PROPERTY, bridged
from jdbcstore.database.adapters.writing import SwitchedWriting, Writing
from jdbcstore.errors import ConfigurationError

log = logging.getLogger(__name__)

for _name, _dialect in {
    "derby": "DerbyDialect",
    "db2": "Db2Dialect",
    "h2": "LimitDialect",
    "hsqldb": "LimitDialect",
    "sybase": "SybaseDialect",
    "any": "JdbcDialect",
}.items():
    registry.register(f"jdbc.{_name}", "jdbcstore.database.adapters.jdbc.dialect", _dialect)

BRIDGE = ("jpype", "jdbc")
"""Python module and extra."""


class JdbcAdapter(Adapter):
    """A vendor reached through its JDBC driver, in this process's Java machine; errors judged by SQLSTATE."""

    writing = SwitchedWriting()
    failures: ClassVar[dict[str | int, Failure]] = {}
    """The meaning of this vendor's own SQLSTATEs and error numbers."""
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "BLOB")
    write_at_once: ClassVar[str] = ""
    """A statement, for administrators, that makes the server flush a commit before it acknowledges it."""

    def __init__(self) -> None:
        super().__init__()
        self._warned = False

    @classmethod
    def url_from_jdbc(cls, text: str) -> URL:
        return bridged(text, next(iter(cls.drivers)))

    @classmethod
    def with_driver(cls, url: URL) -> URL:
        if URL_PROPERTY in url.query:
            return url
        raise ConfigurationError(f"{cls.name} is reached through its JDBC driver; write a URL jdbc:...")

    def engine_options(self, url: URL) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def on_connect(self, connection: Any) -> None:
        connection.read_committed()
        if self.write_at_once:
            self._write_at_once(connection)

    def _write_at_once(self, connection: Any) -> None:
        from jpype.dbapi2 import Error

        cursor = connection.cursor()
        try:
            cursor.execute(self.write_at_once)
        except Error as error:
            if self._warned:
                return
            self._warned = True
            log.warning(
                "%s may acknowledge a commit before it is on disk, unless an administrator has run %s: %s",
                self.name,
                self.write_at_once,
                error,
            )
        finally:
            cursor.close()

    def limit_answers(self, connection: Any, seconds: float) -> None:
        connection.limit_answers(seconds)

    def limit_query(self, connection: Any, seconds: float) -> None:
        connection.limit_query(seconds)

    def abort(self, connection: Any) -> None:
        connection.abort()

    def check_statement(self, cursor: Any, template: Template, *, reads: bool) -> int | None:
        count: int | None = cursor.connection.describe(template.render(lambda *_: "?"))
        return count if reads else None

    def classify(self, error: BaseException) -> Failure:
        from jdbcstore.database.adapters.jdbc.dbapi import states

        failures = [
            self.failures.get(state) or self.failures.get(number) or failure_of(state)
            for state, number in states(error)
        ]
        unspecific = (Failure.OTHER, Failure.UNKNOWN)
        known = (failure for failure in failures if failure not in unspecific)
        return next(known, Failure.OTHER if Failure.OTHER in failures else Failure.UNKNOWN)


def _untried(name: str, **facts: Any) -> type[JdbcAdapter]:
    """Return the adapter class of a vendor by the attributes in which it differs."""
    usual = {"drivers": {"jdbc+any": BRIDGE}, "now_ms": "", "touches_to_lock": True}
    return type(f"{name.capitalize()}Adapter", (JdbcAdapter,), {"name": name, **usual, **facts})


_VENDORS = (
    # DB2 LUW 11. BLOB alone would be BLOB(1M), which is what ActiveMQ makes.
    _untried(
        "db2",
        jdbc_subprotocols=("db2",),
        drivers={"jdbc+db2": BRIDGE},
        now_ms=(
            "((BIGINT(DAYS(CURRENT TIMESTAMP - CURRENT TIMEZONE)) - DAYS('1970-01-01')) * 86400000"
            " + BIGINT(MIDNIGHT_SECONDS(CURRENT TIMESTAMP - CURRENT TIMEZONE)) * 1000"
            " + MICROSECOND(CURRENT TIMESTAMP) / 1000)"
        ),
        binary_type=Worded(LargeBinary(), "BLOB(1G)"),
        touches_to_lock=False,
        max_blob=2**30,
        failures={-4499: Failure.DISCONNECTED, -4214: Failure.REFUSED},
    ),
    # Informix 12. Quotes mean a string here, and three names of more than 150 characters exceed a key.
    _untried(
        "informix",
        jdbc_subprotocols=("informix-sqli",),
        fold_upper=False,
        quotes_names=False,
        now_ms="CAST(DBINFO('utc_current') AS BIGINT) * 1000",
        sequence_type=Worded(BigInteger(), "INT8"),
        long_type=Worded(BigInteger(), "INT8"),
        binary_type=Worded(LargeBinary(), "BYTE"),
        container_name_type=String(150),
        string_id_type=String(150),
        drop_acks_key="DROP CONSTRAINT {name}",
        failures={
            **dict.fromkeys((-239, -268), Failure.DUPLICATE),
            **dict.fromkeys((-143, -144, -107, -113), Failure.TRANSIENT),
            **dict.fromkeys((-206, -217), Failure.NO_TABLE),
            **dict.fromkeys((-908, -25580, -79716, -79730), Failure.DISCONNECTED),
            -951: Failure.REFUSED,
        },
    ),
    # Sybase ASE 15, through jConnect or jTDS. Its dialect says NULL for columns that may be.
    _untried(
        "sybase",
        jdbc_subprotocols=("sybase",),
        drivers={"jdbc+sybase": BRIDGE},
        quotes_names=False,
        statement_end="\nGO",
        acks_key_is_named=True,
        drop_acks_key="DROP CONSTRAINT {name}",
        now_ms="CAST(DATEDIFF(SS, '19700101', GETUTCDATE()) AS BIGINT) * 1000",
        sequence_type=Worded(BigInteger(), "DECIMAL"),
        long_type=Worded(BigInteger(), "DECIMAL"),
        binary_type=Worded(LargeBinary(), "IMAGE"),
        size_function="datalength",
        failures={
            **dict.fromkeys((2601, 2615), Failure.DUPLICATE),
            1205: Failure.TRANSIENT,
            **dict.fromkeys((207, 208), Failure.NO_TABLE),
            1105: Failure.FULL,
            4002: Failure.REFUSED,
        },
    ),
    # MaxDB. ActiveMQ's INTEGER has 32 bits here, too few for a time in milliseconds.
    _untried(
        "maxdb",
        jdbc_subprotocols=("sapdb",),
        sequence_type=Worded(BigInteger(), "FIXED(19)"),
        long_type=Worded(BigInteger(), "FIXED(19)"),
        binary_type=Worded(LargeBinary(), "LONG BYTE"),
        container_name_type=Worded(String(250), "VARCHAR(250) ASCII"),
        string_id_type=Worded(String(250), "VARCHAR(250) ASCII"),
        failures={
            **dict.fromkeys((200, 250), Failure.DUPLICATE),
            **dict.fromkeys((500, 600), Failure.TRANSIENT),
            **dict.fromkeys((-4004, -4005), Failure.NO_TABLE),
            -4008: Failure.REFUSED,
        },
    ),
    # Axion, a database inside one program, which ActiveMQ itself dropped in 6.2.
    _untried("axion", jdbc_subprotocols=("axiondb",), quotes_names=False),
)
UNTRIED = {adapter.name: adapter for adapter in _VENDORS}
"""Vendors whose SQL is compiled and compared with golden files, and was never run against a server."""


class DialectWriting(Writing):
    """A transaction is framed by the isolation level that SQLAlchemy's dialect sets."""

    def __init__(self, dialect: Any) -> None:
        self._dialect = dialect

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


class DefaultAdapter(Adapter):
    """Any SQLAlchemy dialect or JDBC driver. One statement for each row, and errors judged by SQLSTATE.

    MSG is BLOB. On MySQL and its relatives that ends at 64 KB: use their own adapter there.
    """

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
            self.writing = DialectWriting(self._dialect)
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
        # Without quotes the vendor folds names to its own case, as it does ActiveMQ's.
        from sqlalchemy.dialects.postgresql.base import PGDialect

        self.fold_upper = not isinstance(self._dialect, PGDialect)  # type: ignore[misc]
        return url

    def engine_options(self, url: URL) -> dict[str, Any]:  # noqa: ARG002
        return {"isolation_level": "AUTOCOMMIT"}

    def classify(self, error: BaseException) -> Failure:
        failure = failure_of(_state_of(error))
        if failure is not Failure.UNKNOWN:
            return failure
        if self._dialect.is_disconnect(error, None, None):
            return Failure.DISCONNECTED
        return _BY_CLASS.get(type(error).__name__, Failure.UNKNOWN)


_BY_CLASS = {
    "DataError": Failure.BAD_VALUE,
    "IntegrityError": Failure.DUPLICATE,
    "InterfaceError": Failure.DISCONNECTED,
}
"""By the DBAPI's error class, where there is no SQLSTATE."""


def _state_of(error: BaseException) -> str | None:
    """Return the SQLSTATE, wherever the driver keeps it: an attribute, ODBC's first argument, or Java's."""
    if hasattr(error, "getSQLState"):
        return str(error.getSQLState() or "")
    state = getattr(error, "sqlstate", None) or (error.args[0] if error.args else None)
    return state if isinstance(state, str) and len(state) == 5 else None


class BlobAdapter(DefaultAdapter):
    """The default; ActiveMQ's writes in two steps, which drivers no longer need."""

    name = "blob"


class BytesAdapter(DefaultAdapter):
    """MSG is BYTEA, for databases compatible with PostgreSQL."""

    name = "bytes"
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "BYTEA")


class ImageAdapter(DefaultAdapter):
    """MSG is IMAGE, for descendants of Sybase."""

    name = "image"
    binary_type: ClassVar[TypeEngine[Any]] = Worded(LargeBinary(), "IMAGE")
