"""Database: the adapter and the engines of one URL, and the translation of driver errors."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from sqlalchemy import URL, Engine, Table, create_engine, event
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    NoSuchTableError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from jdbcstore.config import Configuration, StoreConfig
from jdbcstore.database.adapters.base import READ_ONLY, Failure
from jdbcstore.database.adapters.registry import adapter_for
from jdbcstore.database.adapters.urls import without_secrets
from jdbcstore.database.tables import define_tables
from jdbcstore.errors import (
    AuthenticationFailed,
    ConfigurationError,
    DatabaseLocked,
    InvalidMessage,
    SchemaError,
    StorageFull,
    StoreError,
    StoreUnavailable,
)

log = logging.getLogger(__name__)

_TRANSLATIONS: dict[Failure, tuple[type[StoreError], str]] = {
    Failure.DISCONNECTED: (StoreUnavailable, "cannot use {place}: {reason}"),
    Failure.READ_ONLY: (StoreUnavailable, "cannot use {place}: {reason}"),
    Failure.REFUSED: (
        AuthenticationFailed,
        "{place} refused the login; check user, password and rights",
    ),
    Failure.NO_TABLE: (
        SchemaError,
        "{reason}; the tables are missing or are not ActiveMQ's: run jdbcstore init",
    ),
    Failure.OTHER: (StoreError, "{place} refused a statement: {reason}"),
    Failure.DUPLICATE: (StoreError, "{place} refused a statement: {reason}"),
    Failure.FULL: (StorageFull, "{place} has no space left: {reason}; free some and try again"),
    Failure.TRANSIENT: (StoreUnavailable, "other writers are in the way: {reason}; try again"),
    **dict.fromkeys(
        (Failure.BAD_VALUE, Failure.TOO_LARGE), (InvalidMessage, "{place} cannot hold this: {reason}")
    ),
}


GENERATION = "generation"
"""The key of a pooled connection's generation in what SQLAlchemy keeps with it."""
_POOL = "pool"
"""The key of the pool that a connection was made for."""
_LONGEST = 2_147_483.0
"""The most seconds of a timeout: drivers and servers count milliseconds, in 32 bits."""


class Database:
    """A database and the configured tables in it. Creating one does not connect.

    ``user`` and ``password`` replace those of the URL. With ``must_exist``, a database that connecting would
    create is a :class:`SchemaError`.
    """

    def __init__(
        self,
        url: str,
        config: StoreConfig,
        *,
        user: str | None = None,
        password: str | None = None,
        must_exist: bool = False,
    ) -> None:
        with _blaming_the_url():
            self.adapter, target = adapter_for(url, config.adapter)
            if user is not None:
                target = target.set(username=user)
            if password is not None:
                target = target.set(password=password)
            if must_exist:
                self.adapter.check_exists(target)
        self._target = target
        self.config = config
        self.tables = define_tables(self.adapter, config)
        self.place = without_secrets(target)
        self._asked: int | None = None
        """The generation of the connection whose server was last asked what it is."""
        self.generation = 0
        """The generation of connections that are made now."""
        self.driver_errors: tuple[type[Exception], ...] = ()
        """The driver's base error, once there is an engine."""

    @classmethod
    def configured(cls, configuration: Configuration, **options: Any) -> Self:
        """Open the database of a configuration; ``options`` are the constructor's.

        :raises ConfigurationError: no database is named, or there are several stores
        """
        with configuration.locating_errors():
            url, user, password = configuration.login()
            return cls(url, configuration.store, user=user, password=password, **options)

    @property
    def lock_directory(self) -> str | None:
        """The directory of the lock file, for a database that is a file of this machine; else None."""
        return self.adapter.lock_directory(self._target)

    @property
    def is_local(self) -> bool:
        """Whether it is a file of this machine, out of reach for brokers on other machines."""
        return self.adapter.is_local(self._target)

    def connect_with(self, *, limited: bool = False, **pool: Any) -> Engine:
        """Return an engine whose connections are in autocommit mode; ``pool`` are SQLAlchemy's pool options.

        ``limited`` connections have the timeouts of the configuration.
        """
        with _blaming_the_url():
            options = self.adapter.engine_options(self._target)
            if limited:
                options["connect_args"] = {**options.get("connect_args", {}), **self._network_arguments()}
            hosts = self.adapter.hosts(self._target)
            engine = _engine(self.adapter.address(self._target), **pool, **options)

        def connect(dialect: Any, record: Any, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
            # Before it is connected: whatever the address leads to then is of this generation at most.
            record.info[GENERATION] = self.generation

            def reach(**host: Any) -> Any:
                connection = dialect.connect(*arguments, **{**options, **host})
                if limited and self.config.network_timeout:
                    with _closing_on_error(connection):
                        self.adapter.limit_answers(connection, min(self.config.network_timeout, _LONGEST))
                return connection

            return self._connect(hosts, reach)

        def refuse_old(_connection: object, record: Any, _proxy: object) -> None:
            if record.info.get(GENERATION) != self.generation:
                raise DisconnectionError

        def prepare(connection: Any, record: Any) -> None:
            record.info.setdefault(GENERATION, self.generation)
            with _closing_on_error(connection):
                self.adapter.on_connect(connection)
                if limited and self.config.query_timeout:
                    self.adapter.limit_query(connection, min(self.config.query_timeout, _LONGEST))

        _close_abandoned(engine)
        event.listen(engine, "do_connect", connect)
        event.listen(engine, "connect", prepare)
        event.listen(engine, "checkout", refuse_old)
        self.driver_errors = (engine.dialect.loaded_dbapi.Error,)
        return engine

    def _connect(self, hosts: Sequence[tuple[str, int]], reach: Callable[..., Any]) -> Any:
        """Return a connection; the first one of a generation is asked what its server is."""
        generation = self.generation
        connection = self._connect_to_one(hosts, reach) if hosts else reach()
        if self._asked != generation:
            self._ask(connection)
            self._asked = generation
        return connection

    def _ask(self, connection: Any) -> None:
        """Learn what the server of a new connection is, before SQLAlchemy asks it anything.

        :raises ConfigurationError: its engine is not supported
        """
        known = self.adapter.server
        with _closing_on_error(connection):
            if known is None:
                self.adapter = self.adapter.of_server(connection)
            else:
                self.adapter.server = self.adapter.ask(connection)
        server = self.adapter.server
        if server is None or server == known:
            return
        log.info("connected to %s: %s", self.place, server)
        if known is not None and server.engine != known.engine:
            was = "%s was %s, and is %s now: close the store and open it again"
            log.warning(was, self.place, known.engine, server.engine)
        if known is None and self.adapter.engines and self.adapter.engine is None:
            log.warning("%s is an unknown engine, %s %s", self.place, server.engine, server.version)

    def _connect_to_one(self, hosts: Sequence[tuple[str, int]], reach: Callable[..., Any]) -> Any:
        """Return a connection to the first server that takes writes; to a standby if only those answer."""
        standby = failure = None
        for host, port in hosts:
            try:
                connection = reach(host=host, port=port)
                with _closing_on_error(connection):
                    accepts_writes = self.adapter.accepts_writes(connection)
            except self.driver_errors as error:
                failure = error
                continue
            if standby is not None:
                standby.close()
            if accepts_writes:
                return connection
            standby = connection
        if standby is None and failure is not None:
            raise failure
        return standby

    def end_generation(self) -> None:
        """Let no pooled connection be used again: the address may lead to another server by now.

        Called when a connection was lost, or its server has become read-only, and another one was made: those
        of readers may be open, to a server that is no longer the primary.
        """
        self.generation += 1

    def _network_arguments(self) -> dict[str, Any]:
        seconds = min(self.config.network_timeout, _LONGEST)
        arguments = self.adapter.network_arguments(self._target, seconds) if seconds else {}
        return {name: value for name, value in arguments.items() if name not in self._target.query}

    def check_creates(self, table: Table, script: str) -> None:
        """Make sure that a missing table may be created.

        :raises SchemaError: it may not; ``script`` does it
        """
        if not self.config.create_tables_on_startup:
            raise SchemaError(
                f"the table {table.name} is missing in {self.place}; create it with the vendor's {script}, or"
                " open with create_tables_on_startup",
                found="nothing",
                expected=str(table.name),
            )

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        # The last one is a driver's for half of a surrogate pair.
        return (SQLAlchemyError, *self.driver_errors, UnicodeEncodeError)

    @contextlib.contextmanager
    def translated(self, unknown: type[StoreError] = StoreError) -> Iterator[None]:
        """Translate driver errors that leave the block, as :meth:`translate`."""
        try:
            yield
        except self.failures as error:
            raise self.translate(error, unknown) from error

    def classify(self, error: BaseException) -> Failure:
        """Return the meaning of a driver's error, wrapped by SQLAlchemy or not."""
        if isinstance(error, DBAPIError) and error.orig is not None:
            error = error.orig
        if isinstance(error, UnicodeEncodeError):
            return Failure.BAD_VALUE
        return self.adapter.classify(error)

    def translate(self, error: BaseException, unknown: type[StoreError] = StoreError) -> StoreError:
        """Return the StoreError for an error of the driver or of SQLAlchemy.

        :param unknown: the class for an error whose code is in no table
        """
        if isinstance(error, PoolTimeout):
            return StoreUnavailable(
                f"all connections to {self.place} have been in use for too long: {error}; raise pool_size, or"
                " read from fewer threads"
            )
        if isinstance(error, NoSuchTableError):
            return SchemaError(f"the table {error} is missing in {self.place}; run jdbcstore init")
        origin = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        reason = " ".join(str(origin).split())
        failure = self.classify(origin)
        advice = READ_ONLY if failure is Failure.READ_ONLY else self.adapter.advice(origin)
        if failure is Failure.DISCONNECTED and not advice:
            return StoreUnavailable(
                f"cannot reach {self.place}: {reason}; check that the server runs and the URL is right"
            )
        if failure is Failure.TRANSIENT and self.adapter.in_files:
            return DatabaseLocked(
                f"other writers are in the way, or a transaction of this thread's own: {reason} at"
                f" {self.place}; end that one first, or try again"
            )
        kind, text = _TRANSLATIONS.get(failure, (unknown, "{place} refused a statement: {reason}"))
        return kind(text.format(place=self.place, reason="; ".join(filter(None, (reason, advice)))))


@contextlib.contextmanager
def _closing_on_error(connection: Any) -> Iterator[None]:
    """Close a new connection that cannot be prepared: its pool leaves that to garbage collection."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            connection.close()
        raise


def _close_abandoned(engine: Engine) -> None:
    """Close each connection that is returned to a pool after Engine.dispose(): nothing else would."""

    def note(_dialect: object, record: Any, *_: object) -> None:
        record.info[_POOL] = engine.pool

    def close(_connection: object, record: Any) -> None:
        if record.info.get(_POOL, engine.pool) is not engine.pool:
            record.close()

    event.listen(engine, "do_connect", note)
    event.listen(engine, "checkin", close)


@contextlib.contextmanager
def _blaming_the_url() -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        error.option = error.option or "url"
        raise


def _engine(url: URL, **options: Any) -> Engine:
    try:
        engine = create_engine(url, pool_reset_on_return=None, **options)
    except ImportError as error:
        raise ConfigurationError(
            f"the driver of {url.drivername} is installed but cannot be loaded: {error};"
            " install the system library that it names"
        ) from error
    except ArgumentError as error:
        reason = str(error).splitlines()[0]
        raise ConfigurationError(
            f"{reason}: leave out what this database does not support, such as a user and a password"
        ) from error
    if engine.driver == "pyodbc":
        # Otherwise unixODBC from 2.3.10 on keeps closed connections with their sessions until the process
        # ends.
        driver: Any = engine.dialect.loaded_dbapi
        driver.pooling = False
    return engine
