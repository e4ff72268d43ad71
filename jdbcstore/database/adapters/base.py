"""The adapter base class: what SQLAlchemy does not know of one vendor, and of its driver."""

from __future__ import annotations

import copy
import enum
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Self

from sqlalchemy import (
    URL,
    BigInteger,
    Connection,
    Dialect,
    Insert,
    LargeBinary,
    Select,
    String,
    Table,
    Text,
    func,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ColumnElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from jdbcstore.config.statements import Template
from jdbcstore.database.adapters.control import Notifier, ServerControl
from jdbcstore.database.adapters.engines import EngineFacts, recognise
from jdbcstore.database.adapters.health import Health
from jdbcstore.database.adapters.urls import from_jdbc
from jdbcstore.database.adapters.writing import Writing
from jdbcstore.errors import ConfigurationError, MissingDriver
from jdbcstore.util.server_view import ServerView


class Failure(enum.Enum):
    """The meaning of a driver's error to the store."""

    DISCONNECTED = "the connection is lost, or could not be opened"
    REFUSED = "the login was refused"
    READ_ONLY = "the server only reads, and nothing was written: another may be the primary"
    TRANSIENT = "a deadlock or serialization failure: the same work may succeed if tried again"
    DUPLICATE = "a unique key exists"
    BAD_VALUE = "this row cannot be stored"
    TOO_LARGE = "this row is beyond a size limit"
    FULL = "the database has no space left"
    NO_TABLE = "a table or column does not exist"
    OTHER = "it was refused for another reason"
    UNKNOWN = "anything else: a statement that commits may have taken effect"


class TransactionState(enum.Enum):
    """The fate of the next statement on a connection of the application's."""

    OPEN = "it is part of a transaction, which it begins if there is none"
    AUTOCOMMIT = "it is committed by itself"
    FAILED = "it is refused: the transaction can only be rolled back"
    CLOSED = "there is no connection any more"


READ_ONLY = (
    "the server accepts only reads: it is a standby, or was made read-only, as when its disk is nearly full"
)
CROWDED = (
    "the server accepts no more connections: allow more, or lower pool_size; a store needs two, and one more"
    " for each further thread that reads, and a process that claims needs four"
)
"""Advice for two states of a server that runs."""

_ODBC_ERROR = re.compile(r"\((\d+)\) \((SQL\w+)\)")


def odbc_error(error: BaseException) -> tuple[int, str]:
    """Return the server's number of an error of pyodbc, and the function of ODBC that was called.

    They follow the message, which may itself have numbers in parentheses: the key of a row that exists.
    """
    match = _ODBC_ERROR.search(str(error))
    return (int(match[1]), match[2]) if match else (0, "")


def error_number(error: BaseException) -> int:
    """Return the server's number of an error; ODBC drivers have it only in their message."""
    if error.args and isinstance(error.args[0], int):
        return error.args[0]
    return odbc_error(error)[0]


class Worded(TypeDecorator[Any]):
    """A column type that is written literally in CREATE TABLE, and is the base type everywhere else."""

    impl: TypeEngine[Any] | type[TypeEngine[Any]] = String
    cache_ok = True

    def __init__(self, base: TypeEngine[Any], text: str) -> None:
        super().__init__()
        self.impl = base
        self.text = text


@compiles(Worded)
def _write(type_: Worded, _compiler: Any, **_options: Any) -> str:
    return type_.text


class Adapter:
    """The facts of a vendor and the ways of its driver; a vendor's module overrides what differs."""

    name: ClassVar[str]
    drivers: ClassVar[dict[str, tuple[str, str]]]
    """SQLAlchemy driver name -> Python module, extra that installs it; the first is the default."""
    jdbc_subprotocols: ClassVar[tuple[str, ...]]

    writing: Writing = Writing()
    """The vendor's way of writing batches."""
    control: type[ServerControl] = ServerControl
    """Control of the server, by a connection's cursor."""
    notifier: type[Notifier] = Notifier
    """Messages between connections, by a connection of the driver; where the vendor :attr:`notifies`."""
    health: type[Health] = Health
    """The examination of the server, by a connection's cursor."""

    # Names and types of the tables
    fold_upper: ClassVar[bool] = True
    """Whether ACTIVEMQ_MSGS unquoted stays upper-case on this vendor."""
    quotes_names: ClassVar[bool] = True
    """Whether names are quoted; False where that would change their meaning."""
    sequence_type: ClassVar[TypeEngine[Any]] = BigInteger()
    long_type: ClassVar[TypeEngine[Any]] = BigInteger()
    binary_type: ClassVar[TypeEngine[Any]] = LargeBinary()
    counter_type: ClassVar[TypeEngine[Any]] = BigInteger()
    """The type of an ID that the database assigns."""
    text_type: ClassVar[TypeEngine[Any]] = Text()
    """The type of text of any length."""
    container_name_type: ClassVar[TypeEngine[Any]] = String(250)
    msg_id_type: ClassVar[TypeEngine[Any]] = String(250)
    string_id_type: ClassVar[TypeEngine[Any]] = String(250)
    own_name_type: ClassVar[TypeEngine[Any] | None] = None
    """The type of names in jdbcstore's own tables, where ActiveMQ's compare regardless of case."""
    table_options: ClassVar[dict[str, Any]] = {}
    key_options: ClassVar[dict[str, Any]] = {}
    """Options of a primary key of several names."""
    small_binary_types: ClassVar[frozenset[str]] = frozenset()
    """Types too small for messages, which an ActiveMQ with the wrong adapter gave MSG."""
    acks_key_has_priority: ClassVar[bool] = True
    """Whether a fresh ActiveMQ leaves PRIORITY in the primary key of ACTIVEMQ_ACKS."""
    acks_key_is_named: ClassVar[bool] = False

    # Changes of the schema
    drop_acks_key: ClassVar[str] = "DROP PRIMARY KEY"
    """The ALTER TABLE clause that drops a primary key; ``{name}`` is its quoted name."""
    alters_by_copy: ClassVar[bool] = False
    """Whether only new columns can be added to a table: for any other change it is copied."""
    joins_alterations: ClassVar[bool] = False
    """Whether one ALTER TABLE takes several clauses, separated by commas."""
    transactional_ddl: ClassVar[bool] = False
    """Whether changes of the schema are part of the transaction."""
    cuts_pages: ClassVar[bool] = False
    """Whether the server may end a query and report its first rows as all."""
    drops_if_exists: ClassVar[bool] = False
    """Whether DROP TABLE has IF EXISTS."""
    lock_migrations: ClassVar[str] = ""
    """A statement that waits for other migrations here; its lock ends with the transaction or session."""
    can_forbid_null: ClassVar[bool] = False
    """Whether an indexed column can be altered to NOT NULL."""
    make_transactional: ClassVar[str] = ""
    """The statement that moves ``{table}`` to an engine with transactions."""
    statement_end: ClassVar[str] = ";"
    """The end of a statement in a script for the vendor's own client."""
    has_users: ClassVar[bool] = True
    owner_grants: ClassVar[tuple[str, ...]] = ()
    """The rights that ``{owner}`` needs to create and migrate tables."""

    described: ClassVar[str] = ""
    """A query for columns and indexes of the tables in ``:names``: the table, the name, and its kind.

    Columns in the order of the table. Empty if SQLAlchemy's inspection is as fast.
    """

    now_ms: ClassVar[str]
    """An expression for the database's clock in epoch milliseconds; empty if there is none."""
    size_function: ClassVar[str] = "length"
    """The function that returns the length of a binary column in bytes."""
    limit_clause: ClassVar[str] = ""
    """The keyword, after a query and before a number, that limits its rows; empty if there is none."""
    refreshes_statistics: ClassVar[bool] = False
    """Whether :meth:`refresh_statistics` can do anything."""
    index_hint: ClassVar[str] = ""
    """The hint, after a table's name, to use ``{index}``; for planners that would not."""
    touches_to_lock: ClassVar[bool] = False
    """Whether a row is locked by an UPDATE that changes nothing, because a SELECT cannot lock it."""
    locks_rows: ClassVar[bool] = True
    """Whether one row can be locked while others are written."""
    checks_values: ClassVar[bool] = True
    """Whether values have the type of their column, and strings are valid."""
    takes_arrays: ClassVar[bool] = False
    """Whether a list of numbers can be one parameter, as in ``id = ANY (?)``."""
    shares_queues: ClassVar[bool] = False
    """Whether several processes can claim messages of one queue: locked rows are skipped, or one writes."""
    chains_writes: ClassVar[bool] = False
    """Whether one statement can lock rows, write them, and return them."""
    row_version: ClassVar[str] = ""
    """A column of every table that is another after each change of a row, where writes are chained."""
    row_place: ClassVar[str] = ""
    """A column of every table that says where the row is, where writes are chained."""
    series: ClassVar[str] = ""
    """A table of at least 256 rows, for as many numbers of a sequence; empty if there are no sequences."""
    sequence_increment: ClassVar[int | None] = None
    """The step of a sequence, if it must be given."""
    takes_numbers_apart: ClassVar[bool] = False
    """Whether numbers are taken in another transaction than the application's, where there are no sequences.
    Otherwise all callers wait for its end, and with one writer at a time they would wait forever."""
    sequence_grant: ClassVar[str] = ""
    """The rights that ``{user}`` needs to use a ``{sequence}``."""
    last_number: ClassVar[str] = ""
    """The column of a sequence with a number that is not below any that was given."""
    takes_numbers_in_blocks: ClassVar[bool] = False
    """Whether that number leaps ahead by blocks, from which the server gives numbers."""
    whereabouts: ClassVar[str] = ""
    """A query that identifies the database. Empty if reading a row identifies it without locking."""
    in_files: ClassVar[bool] = False
    """Whether this process itself reads and locks the database's files. No fork may find them open."""
    listens_for: ClassVar[float] = 0.5
    """Seconds for which :meth:`Notifier.received` waits at a time; closing waits for it, unless others can
    end it."""
    notifies: ClassVar[bool] = False
    """Whether messages can be passed between connections."""
    outbox_trigger: ClassVar[tuple[str, ...]] = ()
    """The trigger by which an insert into the outbox ``{name}`` wakes movers to the table ``{messages}``."""
    outbox_trigger_end: ClassVar[str] = ""
    """The statement that removes the rest of the trigger once the outbox is dropped."""
    max_blob: ClassVar[int] = 2**31 - 1
    """The largest MSG in bytes, where no setting of the server limits it."""

    unrelated: ClassVar[frozenset[str]] = frozenset({"server", "engine"})
    """Attributes of an instance on which neither tables nor statements depend, but for :attr:`certifies`."""

    engines: ClassVar[tuple[EngineFacts, ...]] = ()
    """The engines that this adapter may find; empty if there is only one."""
    engine: EngineFacts | None = None
    """The engine of the server; None before the first connection, and for an unknown engine."""
    server: ServerView | None = None
    """The server, as it was last asked; None before the first connection."""

    @property
    def certifies(self) -> bool:
        """Whether nodes share no locks: of two transactions that wrote the same row, one fails at COMMIT."""
        return self.engine is not None and not self.engine.shares_locks

    @property
    def writes_to_hold(self) -> bool:
        """Whether a number of JDBCSTORE_STATE is held by a statement that writes."""
        return self.touches_to_lock or self.certifies

    @property
    def is_like_its_class(self) -> bool:
        """Whether any instance has the same tables and statements: none depends on the URL."""
        return vars(self).keys() <= self.unrelated

    # Where the database is

    def lock_directory(self, url: URL) -> str | None:  # noqa: ARG002
        """Return the directory of the lock file, for a database that is a file of this machine; else None."""
        return None

    def of_server(self, connection: Any) -> Self:
        """Return the adapter for the server of the first connection.

        :raises ConfigurationError: its engine cannot keep the store's promises
        """
        variables = self.variables(connection)
        engine = recognise(self.engines, variables)
        server = self.view(connection, engine, variables)
        if engine is not None and engine.refusal:
            raise ConfigurationError(f"{server.engine} is not supported: {engine.refusal}", option="url")
        known = copy.copy(self)
        known.engine, known.server = engine, server
        return known

    def ask(self, connection: Any) -> ServerView:
        """Return what the server of another connection says of itself."""
        variables = self.variables(connection)
        return self.view(connection, recognise(self.engines, variables), variables)

    def variables(self, connection: Any) -> dict[str, str | None]:  # noqa: ARG002
        """Return those variables of the server that tell its engine and its role, on a new connection."""
        return {}

    def view(
        self,
        connection: Any,  # noqa: ARG002
        engine: EngineFacts | None,  # noqa: ARG002
        variables: Mapping[str, str | None],  # noqa: ARG002
    ) -> ServerView:
        """Return the description of a server by its variables, and those that only its engine has."""
        return ServerView(engine=self.name)

    def check_sessions(self, what: str) -> None:
        """Make sure that a connection keeps its session of the server.

        :param what: the feature that needs its session, for the error
        :raises ConfigurationError: a pooler gives each transaction another one
        """
        if self.server is not None and not self.server.keeps_sessions:
            raise ConfigurationError(
                f"a pooler in transaction mode gives each transaction another session, and {what} needs one"
                " of its own: set pool_mode = session, or connect to the server itself",
                option="url",
            )

    def is_of_another(self, dialect: Dialect) -> bool:  # noqa: ARG002
        """Return whether a dialect that has connected found a server of which another adapter knows more."""
        return False

    def is_local(self, url: URL) -> bool:
        """Return whether the database is a file of this machine, out of reach for brokers on others."""
        return self.lock_directory(url) is not None

    @classmethod
    def url_from_jdbc(cls, text: str) -> URL:
        """Return the SQLAlchemy URL for a JDBC URL of this vendor.

        :raises ConfigurationError: the text is not a JDBC URL
        """
        return from_jdbc(text, next(iter(cls.drivers)))

    @classmethod
    def with_driver(cls, url: URL) -> URL:
        """Return the URL with the vendor's default driver, if it does not name one.

        :raises ConfigurationError: it names a driver that this adapter cannot use
        """
        dialect, _, driver = url.drivername.partition("+")
        if dialect != cls.name:
            return url  # a dialect like this vendor's, chosen together with the adapter
        drivername = url.drivername if driver else next(iter(cls.drivers))
        if drivername not in cls.drivers:
            raise ConfigurationError(
                f"the driver {driver!r} is not supported; use {' or '.join(cls.drivers)} in the URL"
            )
        return url.set(drivername=drivername)

    def check_driver(self, url: URL) -> None:
        """Make sure that the driver is installed.

        :raises MissingDriver: it is not
        """
        module, extra = self.drivers.get(url.drivername, ("", ""))
        if module and importlib.util.find_spec(module) is None:
            raise MissingDriver(module, extra)

    @classmethod
    def offline_dialect(cls) -> Dialect:
        """Return the vendor's SQLAlchemy dialect as of a current server, made without driver or server."""
        return URL.create(next(iter(cls.drivers))).get_dialect()()

    def normalise(self, url: URL) -> URL:
        """Return the URL as SQLAlchemy and the driver need it."""
        return url

    def check_exists(self, url: URL) -> None:
        """Refuse a database that connecting would create; called before one is opened for reading only.

        :raises SchemaError: it does not exist
        :raises ConfigurationError: it cannot be read without the right to write
        """

    def file_identity(self, url: URL) -> tuple[int, int] | None:  # noqa: ARG002
        """Return the identity of the database's file now; None if it is missing, or no file of this
        machine."""
        return None

    # Connections

    def hosts(self, url: URL) -> list[tuple[str, int]]:  # noqa: ARG002
        """Return the servers to try in turn; empty if the URL names one, or the driver takes them all.

        :raises ConfigurationError: one cannot be parsed, or the driver takes one only
        """
        return []

    def address(self, url: URL) -> URL:
        """Return the URL that the driver gets, without the servers to try in turn."""
        return url.difference_update_query(["host"]) if self.hosts(url) else url

    def accepts_writes(self, connection: Any) -> bool:  # noqa: ARG002
        """Return whether the server of a connection accepts writes; a standby does not."""
        return True

    def engine_options(self, url: URL) -> dict[str, Any]:
        """Keyword arguments of ``create_engine`` beyond the common ones.

        :raises ConfigurationError: this URL cannot work
        """
        raise NotImplementedError

    def network_arguments(self, url: URL, seconds: float) -> dict[str, Any]:  # noqa: ARG002
        """Arguments of the driver's ``connect`` that end a wait for the server after this time.

        The error is :attr:`Failure.DISCONNECTED`. Arguments in the URL itself take precedence.
        """
        return {}

    def on_connect(self, connection: Any) -> None:
        """Prepare a new DBAPI connection."""

    def limit_answers(self, connection: Any, seconds: float) -> None:
        """Return the same limit as :meth:`network_arguments`, for drivers that take it after connecting."""

    def limit_query(self, connection: Any, seconds: float) -> None:
        """Cancel statements that run longer, as a :attr:`Failure.TRANSIENT` error; where supported."""

    def cursor(self, connection: Any) -> Any:
        """Return a cursor that returns binary columns as bytes without conversions."""
        return connection.cursor()

    def plain_cursor(self, connection: Any) -> Any:
        """Return a cursor whose rows are tuples, regardless of the connection's settings."""
        return connection.cursor()

    def transaction_state(self, connection: Any) -> TransactionState:
        """Return the fate of the next statement on a connection of the driver; nothing is sent."""
        commits = getattr(connection, "autocommit", False) is True
        return TransactionState.AUTOCOMMIT if commits else TransactionState.OPEN

    def streaming_cursor(self, connection: Any) -> Any:
        """Return a cursor of the driver whose rows are fetched as they are needed, and not all at once."""
        return connection.cursor()

    def arrow_batches(
        self,
        connection: Any,  # noqa: ARG002
        first: Sequence[str],  # noqa: ARG002
        query: str,  # noqa: ARG002
        values: Any,  # noqa: ARG002
        size: int,  # noqa: ARG002
    ) -> AbstractContextManager[Iterable[Any] | None]:
        """Return the query's rows as Arrow record batches of ``size`` bytes, with 64-bit integers.

        They are read by another connection to the same database, which begins with the statements ``first``.
        None where no driver makes them.
        """
        return nullcontext()

    def copied(
        self,
        cursor: Any,  # noqa: ARG002
        query: str,  # noqa: ARG002
        values: Any,  # noqa: ARG002
    ) -> AbstractContextManager[Iterable[Any]] | None:
        """Return the query's rows as they come from the server, in PostgreSQL's binary COPY format.

        None where neither server nor driver has it.
        """
        return None

    def abandon_rows(self, connection: Any) -> None:
        """Prepare for the closing of a connection on which such a cursor has rows left."""

    def wakeup_file(self, url: URL) -> str | None:  # noqa: ARG002
        """Return the file that is touched to wake others, where there is no server."""
        return None

    def abort(self, connection: Any) -> None:
        """Interrupt a statement that another thread is waiting for, which then gets an error.

        That thread must close the connection: closed during a statement, some drivers crash.
        Does nothing where the driver does not support it.
        """
        cancel = getattr(connection, "cancel", None)
        if cancel is not None:
            cancel()

    def classify(self, error: BaseException) -> Failure:
        """Return the meaning of a driver's error; see :mod:`jdbcstore.database.adapters.codes`."""
        raise NotImplementedError

    def advice(self, error: BaseException) -> str:  # noqa: ARG002
        """Return what helps against an error of the server, or of a connection to it."""
        return ""

    # The server

    def max_message_size(self, cursor: Any) -> int:  # noqa: ARG002
        """Return the largest MSG that this server takes, in bytes; read once, when the store opens."""
        return self.max_blob

    sent_size: Callable[[bytes], int] = staticmethod(len)
    """Returns the bytes that MSG takes in transit, to compare with :meth:`max_message_size`."""

    def without_transactions(
        self,
        connection: Connection,  # noqa: ARG002
        tables: Sequence[str],  # noqa: ARG002
    ) -> dict[str, str]:
        """Return those of the tables whose storage engine has no transactions, with that engine's name."""
        return {}

    def collations(self, connection: Connection, table: str) -> dict[str, str | None]:
        """Return the collation of each column of a table, for vendors with an ``own_name_type``."""
        raise NotImplementedError

    def redefined(self, table: str, columns: Sequence[str]) -> str:
        """Return the statement that changes columns, each given as in CREATE TABLE; for the same vendors."""
        raise NotImplementedError

    def refresh_statistics(self, cursor: Any, table: str, *, changed: bool) -> None:
        """Update the planner's statistics of a table that has changed much, or (not ``changed``) may have.

        Does nothing where the vendor keeps them up to date by itself.
        """

    def check_statement(self, cursor: Any, template: Template, *, reads: bool) -> int | None:  # noqa: ARG002
        """Have the database prepare a statement without running it; the number of columns it would return.

        A driver's error says why it cannot be run. None where the number is not known.
        """
        return None

    # SQL expressions

    def insert_once(self, table: Table) -> Insert:
        """Return an INSERT that finds no row to insert if the key exists; where :attr:`shares_queues`."""
        raise NotImplementedError

    def exact(self, column: ColumnElement[str]) -> ColumnElement[str]:
        """Return the column such that two strings are equal only if every character is."""
        return column

    def size(self, column: ColumnElement[bytes]) -> ColumnElement[int]:
        """Return the length of a binary column in bytes."""
        size: ColumnElement[int] = getattr(func, self.size_function)(column)
        return size

    def locked(self, query: Select[Any]) -> Select[Any]:
        """Return the query such that the row it finds is locked until the transaction ends."""
        return query if self.touches_to_lock else query.with_for_update()

    def shared(self, query: Select[Any]) -> Select[Any]:
        """Return the query with shared locks on its rows until the transaction ends."""
        return self.locked(query)
