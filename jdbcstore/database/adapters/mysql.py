"""MySQL 8 and MariaDB 10.6 through pymysql or pyodbc: one INSERT of many rows, one DELETE of many keys."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar, Self

from sqlalchemy import (
    URL,
    Connection,
    Dialect,
    Insert,
    Select,
    Table,
    bindparam,
    collate,
    func,
    insert,
    literal_column,
    text,
)
from sqlalchemy.dialects.mysql import LONGBLOB, LONGTEXT, VARCHAR
from sqlalchemy.sql import ColumnElement
from sqlalchemy.types import TypeEngine

from jdbcstore.config.statements import Template
from jdbcstore.database.adapters.base import CROWDED, Adapter, Failure, TransactionState, error_number
from jdbcstore.database.adapters.codes import MYSQL, MYSQL_TEXTS
from jdbcstore.database.adapters.control import Notifier, ServerControl
from jdbcstore.database.adapters.engines import MYSQL as MYSQL_ENGINES
from jdbcstore.database.adapters.engines import EngineFacts
from jdbcstore.database.adapters.mysql_health import MariadbHealth, MysqlHealth
from jdbcstore.database.adapters.mysql_sending import (
    SentQuery,
    cut,
    forget_prepared,
    packet_of,
    prepare_if_due,
)
from jdbcstore.database.adapters.sending import SentWrite
from jdbcstore.database.adapters.sql import (
    MSG,
    UNGUARDED,
    Batch,
    Guards,
    Key,
    Row,
    Sql,
    WriteStatements,
    count_columns,
    guarded_row,
    in_pairs,
    multi_row,
)
from jdbcstore.database.adapters.urls import host_and_port
from jdbcstore.database.adapters.writing import Writing
from jdbcstore.errors import ConfigurationError, StoreUnavailable
from jdbcstore.util.server_view import PRIMARY, STANDBY, ServerView

_ROWS = 250
"""Rows of one INSERT, keys of one DELETE: few distinct texts, far below 65,535 parameters."""
_OVERHEAD = 8192
"""An upper bound for the statement and the columns other than MSG, in bytes."""
_SEVERAL_ROWS = 1242
"""The server's error for a query with several rows in place of a value."""
_FAILS = ", (SELECT 1 UNION ALL SELECT 2))"
"""The end of an IF that raises it. NULL would not, in a column that numbers rows by itself."""
_NOT_PREPARED = (1243, 1615)
"""The server's errors for a prepared statement that it does not have, or cannot prepare again."""
_NEVER_PREPARED = 1295
"""The server's error for statements that it cannot prepare, such as LOCK TABLES."""
_PORT = 3306
_IN_TRANSACTION = 1
"""The flag of the server's status."""
_NO_THREAD, _NOT_OWNER = 1094, 1095
_INTERRUPTED = 1317
_SLEEPING = "SELECT /* {} */ SLEEP("
_SLEEPERS = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE "
_DELETE = "DELETE "
# An identity of the server that survives a restart: only MySQL has a @@server_uuid.
_SESSION = (
    "SELECT ID, USER, HOST, DB, CONCAT_WS(' ', @@hostname, @@port, @@datadir, @@server_id)"
    " FROM information_schema.PROCESSLIST WHERE ID = "
)
_CLUSTER = (
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'read_only',"
    " 'aurora_version', 'wsrep_on', 'wsrep_sync_wait', 'group_replication_consistency',"
    " 'group_replication_group_name', 'group_replication_single_primary_mode')"
)
_REFUSED = (1142, 1227)
"""The server's errors for a table that this user may not read."""

_SETTINGS = (
    # A value that is too long is an error, and never silently truncated. MariaDB does not see that two
    # conversions of a column are the same, in a query and in its GROUP BY.
    "sql_mode = CONCAT(REPLACE(@@sql_mode, 'ONLY_FULL_GROUP_BY', ''), ',STRICT_ALL_TABLES')",
    # PyMySQL believes the greeting of a server, in which MySQL always says 1.
    "autocommit = 1",
    # Otherwise a COMMIT begins another transaction, which is never committed.
    "completion_type = 0",
    "sql_safe_updates = 0",
    "sql_big_selects = 1",
    "sql_select_limit = 18446744073709551615",
    # SQLAlchemy reads the definitions of tables.
    "sql_quote_show_create = 1",
)
"""Assignments that override the server's defaults. None needs a privilege."""

_WITHOUT_TRANSACTIONS = text(
    "SELECT t.TABLE_NAME, t.ENGINE FROM information_schema.TABLES t"
    " JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE"
    " WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME IN :tables AND e.TRANSACTIONS <> 'YES'"
).bindparams(bindparam("tables", expanding=True))
_COLLATIONS = text(
    "SELECT COLUMN_NAME, COLLATION_NAME FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = :name"
)


@lru_cache
def _held(guards: tuple[str, ...]) -> str:
    """Return the beginning of an expression that fails if the query of a guard finds no row.

    Its value and :data:`_FAILS` follow. It saves the round trips of a transaction: its locks stay
    until its statement has committed itself.
    """
    held = " AND ".join(f"(SELECT 1 FROM {guard.split('FROM ', 1)[1]})" for guard in guards)  # noqa: S608
    return f"IF({held}, "


@lru_cache(maxsize=1024)
def _guarded_insert(text: str, held: str, count: int) -> str:
    """Return an INSERT of one row, as a guarded one of ``count`` rows: the guard is in the first value."""
    head, values = text.rsplit("VALUES (", 1)
    first, others = values.split(", ", 1)
    rows = ", ".join([f"({held}{first}{_FAILS}, {others}", *[f"({values}"] * (count - 1)])
    return f"{head}VALUES {rows}"


def _deletion(sql: Sql, keys: Sequence[Key]) -> tuple[str, list[Any]]:
    """Return the DELETE of messages by their keys, and its values."""
    # Always in the same order: concurrent deletes cannot deadlock.
    ordered = sorted(keys, key=itemgetter(1))
    return in_pairs(sql.text, len(keys)), [*[id_ for _, id_ in ordered], *chain.from_iterable(ordered)]


class MysqlWriting(Writing):
    """Many rows in one statement, as far as the server takes its size."""

    begin_statement = "START TRANSACTION"
    starts_writes = True

    def __init__(self, *, shares_locks: bool = True) -> None:
        self._packet = 1024 * 1024
        # Otherwise guards write a row, so they are statements of their own.
        self.guards_insert = shares_locks

    def limit_packet(self, size: int) -> None:
        """Send no statement larger than this, in bytes."""
        self._packet = size

    def write(
        self, cursor: Any, statements: WriteStatements, batch: Batch, guards: Guards = UNGUARDED
    ) -> None:
        statement = self._statement(statements, batch, guards)
        if statement is None:
            super().write(cursor, statements, batch, guards)
            return
        prepare_if_due(cursor.connection, *statement)
        sent = self._send(cursor, statement, statements, batch, guards)
        if sent is not None:
            sent.finish()
            return
        try:
            cursor.execute(*statement)
        except Exception as error:
            self._refuse(cursor, guards, error)
            raise
        if cursor.rowcount == 0:
            self._check_gone(cursor, statements, batch, guards)

    def start_write(
        self, cursor: Any, statements: WriteStatements, batch: Batch, guards: Guards = UNGUARDED
    ) -> SentWrite | None:
        statement = self._statement(statements, batch, guards)
        return None if statement is None else self._send(cursor, statement, statements, batch, guards)

    def _send(
        self,
        cursor: Any,
        statement: tuple[str, Sequence[Any]],
        statements: WriteStatements,
        batch: Batch,
        guards: Guards,
    ) -> SentWrite | None:
        packet = packet_of(cursor, *statement)
        if packet is None:
            return None
        return SentQuery(
            cursor.connection,
            packet,
            lambda _: self._check_gone(cursor, statements, batch, guards),
            lambda error: self._refuse(cursor, guards, error),
        )

    def _statement(
        self, statements: WriteStatements, batch: Batch, guards: Guards
    ) -> tuple[str, Sequence[Any]] | None:
        """Return the one statement that writes a batch, and its values; None if it takes several.

        If a guard does not hold, it fails with :data:`_SEVERAL_ROWS`, or adds no row if it adds only one.
        """
        adds, removes = batch.adds, batch.removes
        if guards.last or not (adds or removes) or not self._is_one_statement(batch):
            return None
        if guards.first and not self.guards_insert:
            return None
        if self.guards_insert and self._is_one_guarded_row(batch, guards):
            [row], [guard] = adds, guards.first
            return guarded_row(statements.add_message.text, guard.sql.text), (*row, *guard.values)
        held = _held(tuple([guard.sql.text for guard in guards.first])) if guards.first else ""
        values = [value for guard in guards.first for value in guard.values]
        if adds:
            text = statements.add_message.text
            text = _guarded_insert(text, held, len(adds)) if held else multi_row(text, len(adds))
            return text, [*values, *chain.from_iterable(adds)]
        text, keys = _deletion(statements.remove_message, removes)
        return (f"{text} AND {held}1{_FAILS}" if held else text), [*keys, *values]

    def _refuse(self, cursor: Any, guards: Guards, error: Exception) -> None:
        """Raise the refusal of a guard, if it has made a statement of :meth:`_statement` fail."""
        if error_number(error) in _NOT_PREPARED:
            forget_prepared(cursor.connection)
        if error_number(error) != _SEVERAL_ROWS:
            return
        self.begin(cursor)
        for guard in guards.first:
            self.check(cursor, guard)
        # The guards hold again; the same work may succeed now.
        raise guards.first[-1].refusal()

    def _is_one_statement(self, batch: Batch) -> bool:
        if super()._is_one_statement(batch):
            return True
        others = any(rows for _, rows in batch.others)
        if others or batch.updates or (batch.adds and batch.removes):
            return False
        if batch.removes:
            return len(batch.removes) <= _ROWS
        return len(list(self._chunks(batch.adds))) == 1

    def insert_messages(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        for chunk in self._chunks(rows):
            cursor.execute(multi_row(sql.text, len(chunk)), [value for row in chunk for value in row])

    def delete_messages(self, cursor: Any, sql: Sql, keys: Sequence[Key]) -> None:
        ordered = sorted(keys, key=itemgetter(1))
        for start in range(0, len(ordered), _ROWS):
            text, values = _deletion(sql, ordered[start : start + _ROWS])
            cursor.execute(text, values)
            self.check_done(cursor, text, values)

    def _check_gone(self, cursor: Any, statements: WriteStatements, batch: Batch, guards: Guards) -> None:
        """Make sure that no row was written because there is none to delete, and not because of a guard."""
        if batch.adds:
            raise guards.first[0].refusal()
        self._check_none(cursor, *_deletion(statements.remove_message, batch.removes))

    def check_done(self, cursor: Any, text: str, row: Sequence[Any]) -> None:
        if cursor.rowcount == 0 and text.startswith(_DELETE):
            self._check_none(cursor, text, row)

    @staticmethod
    def _check_none(cursor: Any, text: str, row: Sequence[Any]) -> None:
        # MariaDB reports a DELETE ended by KILL QUERY or max_statement_time as one without rows.
        cursor.execute(f"SELECT COUNT(*) {text.removeprefix(_DELETE)}", row)
        if cursor.fetchall()[0][0]:
            raise StoreUnavailable("the server has cancelled a DELETE, and reported success; try again")

    def execute_many(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        if not sql.text.startswith(_DELETE):
            super().execute_many(cursor, sql, rows)
            return
        for row in rows:
            cursor.execute(sql.text, row)
            self.check_done(cursor, sql.text, row)

    def _chunks(self, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
        limit = self._packet // 2 - _OVERHEAD
        start, size = 0, 0
        for index, row in enumerate(rows):
            needed = len(row[MSG]) + 2048
            if index > start and (size + needed > limit or index - start == _ROWS):
                yield rows[start:index]
                start, size = index, 0
            size += needed
        yield rows[start:]


def _settings_of_cluster(cursor: Any) -> dict[str, str]:
    cursor.execute(_CLUSTER)
    return {str(name): str(value) for name, value in cursor.fetchall()}


class MysqlControl(ServerControl):
    """Of MySQL."""

    def limit_lock_wait(self, seconds: float) -> None:
        self._cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {max(1, round(seconds))}")

    def limit_silence(self, seconds: float) -> None:
        # Closes a connection without a transaction as well: the next statement opens a new one.
        self._cursor.execute(f"SET SESSION wait_timeout = {max(1, round(seconds))}")

    def identify(self) -> Row | None:
        self._cursor.execute(f"{_SESSION}CONNECTION_ID()")
        row = self._cursor.fetchone()
        return None if row is None else tuple(row)

    def has_session(self, session: Row) -> bool:
        # A restarted server counts from 1 again; HOST includes the client's port.
        self._cursor.execute(f"{_SESSION}{int(session[0])}")
        return session in [tuple(row) for row in self._cursor.fetchall()]

    def end_session(self, session: Row) -> None:
        self._cursor.execute(f"KILL CONNECTION {int(session[0])}")

    @contextlib.contextmanager
    def seeing_all(self) -> Iterator[None]:
        settings = _settings_of_cluster(self._cursor)
        waits = []
        if consistency := settings.get("group_replication_consistency"):
            waits.append(("group_replication_consistency", "'BEFORE'", f"'{consistency}'"))
        if settings.get("wsrep_on") == "ON":
            waits.append(("wsrep_sync_wait", "1", settings["wsrep_sync_wait"]))
        for name, value, _ in waits:
            self._cursor.execute(f"SET SESSION {name} = {value}")
        yield
        for name, _, before in waits:
            self._cursor.execute(f"SET SESSION {name} = {before}")


class MariadbControl(MysqlControl):
    """Of MariaDB, which has sequences, and a limit for transactions alone."""

    def raise_sequence(self, sequence: str, number: int) -> None:
        self._cursor.execute(f"SELECT SETVAL({sequence}, {int(number)})")
        self._cursor.fetchall()

    def limit_silence(self, seconds: float) -> None:
        self._cursor.execute(f"SET SESSION idle_transaction_timeout = {max(1, round(seconds))}")


class SleepNotifier(Notifier):
    """A query that sleeps is what others can end."""

    def listen(self, channel: str) -> None:
        """Nothing to prepare."""

    def received(self, channel: str, seconds: float) -> list[str]:
        cursor = self._connection.cursor()
        try:
            cursor.execute(f"{_SLEEPING.format(channel)}{seconds:f})")
            [(ended,)] = cursor.fetchall()
        except Exception as error:
            if error_number(error) != _INTERRUPTED:
                raise
            ended = 1
        return [""] * bool(ended)

    def send(self, channel: str, payload: str) -> None:  # noqa: ARG002
        cursor = self._connection.cursor()
        # Those of the same user, unless it may see all.
        cursor.execute(f"{_SLEEPERS}'{_SLEEPING.format(channel)}%'")
        for (number,) in cursor.fetchall():
            try:
                cursor.execute(f"KILL QUERY {int(number)}")
            except Exception as error:
                if error_number(error) not in (_NO_THREAD, _NOT_OWNER):
                    raise


class MysqlAdapter(Adapter):
    """Names keep their case; tables are InnoDB, regardless of the server's default engine."""

    name = "mysql"
    drivers: ClassVar = {
        "mysql+pymysql": ("pymysql", "mysql"),
        "mysql+pyodbc": ("pyodbc", "odbc"),
    }
    jdbc_subprotocols = ("mysql",)
    control = MysqlControl
    health = MysqlHealth
    notifier = SleepNotifier
    limit_clause = "LIMIT"
    odbc_driver: ClassVar[str] = "MySQL ODBC 8.0 Unicode Driver"
    odbc_timeouts: ClassVar[tuple[str, ...]] = ("READTIMEOUT", "WRITETIMEOUT")
    joins_alterations = True
    can_forbid_null = True
    drops_if_exists = True
    owner_grants = ("GRANT CREATE, ALTER, INDEX, DROP, SELECT, INSERT, UPDATE, DELETE ON * TO {owner}",)
    # A lock's name has 64 characters at most, that of a database too. MySQL 9 does not have MD5.
    lock_migrations = "SELECT GET_LOCK(CONCAT('jdbcstore ', LEFT(SHA2(DATABASE(), 256), 40)), 31536000)"
    make_transactional = "ALTER TABLE {table} ENGINE=InnoDB"
    small_binary_types = frozenset({"TINYBLOB", "BLOB"})
    shares_queues = True
    takes_numbers_apart = True
    # A query that sleeps is what others can end. Each further one is a question to the server.
    notifies = True
    whereabouts = "SELECT @@hostname, @@port, @@datadir, DATABASE()"
    listens_for = 5.0
    # NOW() is a local time, in which the hour at the end of daylight saving comes twice.
    now_ms = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000"
    binary_type: ClassVar[TypeEngine[Any]] = LONGBLOB()
    text_type: ClassVar[TypeEngine[Any]] = LONGTEXT(charset="utf8mb4")
    own_name_type: ClassVar = VARCHAR(250, charset="utf8mb4", collation="utf8mb4_bin")
    table_options: ClassVar = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}
    # To read a page in order, the planner scans the primary key, past all other destinations' messages.
    index_hint = "FORCE INDEX ({index})"
    # Of two such indexes it would read all that both have, to sort it.
    settings: ClassVar[tuple[str, ...]] = (*_SETTINGS, "optimizer_switch = 'index_merge_intersection=off'")

    unrelated = Adapter.unrelated | {"writing", "_batches"}
    engines = MYSQL_ENGINES

    def __init__(self) -> None:
        self.writing = self._batches = MysqlWriting()

    def of_server(self, connection: Any) -> Self:
        known = super().of_server(connection)
        known.writing = known._batches = MysqlWriting(shares_locks=not known.certifies)
        return known

    def variables(self, connection: Any) -> dict[str, str | None]:
        with contextlib.closing(connection.cursor()) as cursor:
            # It comes before the session's settings, and reads a view: a low max_join_size would refuse it.
            cursor.execute("SET SESSION sql_big_selects = 1")
            return {**_settings_of_cluster(cursor)}

    def view(
        self, connection: Any, engine: EngineFacts | None, variables: Mapping[str, str | None]
    ) -> ServerView:
        counts = [_MEMBERS[name] for name in _MEMBERS if engine and name in engine.signs]
        version = variables.get("version") or ""
        return ServerView(
            engine=_unknown(variables) if engine is None else engine.name,
            version=version,
            role=PRIMARY if variables.get("read_only") == "OFF" else STANDBY,
            nodes=_count(connection, counts[0]) if counts else None,
            is_tested=engine is not None and engine.is_tested,
        )

    def is_of_another(self, dialect: Dialect) -> bool:
        return self.name == "mysql" and bool(getattr(dialect, "is_mariadb", False))

    def normalise(self, url: URL) -> URL:
        # pyodbc takes the port only as a keyword of its own: "host,port" is SQL Server's form.
        if not url.drivername.endswith("+pyodbc") or "odbc_connect" in url.query:
            return url
        query = {"driver": self.odbc_driver, "charset": "utf8mb4", **url.query}
        if url.port is not None:
            query["port"] = str(url.port)
        return url.set(query=query)._replace(port=None)

    def engine_options(self, url: URL) -> dict[str, Any]:
        if url.drivername.endswith("+pyodbc"):
            return {"connect_args": {"autocommit": True, "timeout": 10}}
        arguments: dict[str, Any] = {"autocommit": True, "connect_timeout": 10, "charset": "utf8mb4"}
        if url.password is not None:
            # Of a string PyMySQL sends Latin-1, where the servers' own clients and Java's drivers send UTF-8.
            arguments["password"] = str(url.password).encode()
        return {"paramstyle": "format", "connect_args": arguments}

    def network_arguments(self, url: URL, seconds: float) -> dict[str, Any]:
        if url.drivername.endswith("+pyodbc"):
            whole = max(1, round(seconds))
            return {"timeout": min(10, whole), **dict.fromkeys(self.odbc_timeouts, whole)}
        return {"connect_timeout": min(10.0, seconds), "read_timeout": seconds, "write_timeout": seconds}

    def hosts(self, url: URL) -> list[tuple[str, int]]:
        named = url.query.get("host", ())
        if "pymysql" in url.drivername:
            return [host_and_port(host, _PORT) for host in ([named] if isinstance(named, str) else named)]
        if isinstance(named, tuple) and named:
            raise ConfigurationError("only pymysql takes several hosts: use that driver", option="url")
        return []

    def accepts_writes(self, connection: Any) -> bool:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute("SELECT @@global.read_only")
            [(only,)] = cursor.fetchall()
        return not only

    def on_connect(self, connection: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute(f"SET SESSION {', '.join(self.settings)}")
        cursor.close()

    def plain_cursor(self, connection: Any) -> Any:
        if "pymysql" not in type(connection).__module__:
            return connection.cursor()
        from pymysql.cursors import Cursor

        return connection.cursor(Cursor)

    def transaction_state(self, connection: Any) -> TransactionState:
        if "pymysql" not in type(connection).__module__:
            return super().transaction_state(connection)
        if not connection.open:
            return TransactionState.CLOSED
        commits = connection.get_autocommit() and not connection.server_status & _IN_TRANSACTION
        return TransactionState.AUTOCOMMIT if commits else TransactionState.OPEN

    def streaming_cursor(self, connection: Any) -> Any:
        if "pymysql" not in type(connection).__module__:
            return connection.cursor()
        from pymysql.cursors import SSCursor

        return connection.cursor(SSCursor)

    def abandon_rows(self, connection: Any) -> None:
        # PyMySQL would read them all, and from a closed connection.
        if (result := getattr(connection, "_result", None)) is not None:
            result.unbuffered_active = False

    def exact(self, column: ColumnElement[str]) -> ColumnElement[str]:
        # The usual collations compare Orders equal to orders. Any column converts to utf8mb4.
        return collate(func.convert(column.op("USING")(literal_column("utf8mb4"))), "utf8mb4_bin")

    def insert_once(self, table: Table) -> Insert:
        return insert(table).prefix_with("IGNORE")

    def shared(self, query: Select[Any]) -> Select[Any]:
        return query.with_for_update(read=True)

    def limit_query(self, connection: Any, seconds: float) -> None:
        # Only for queries: the server has no limit for statements that write.
        connection.cursor().execute(f"SET SESSION max_execution_time = {max(1, round(seconds * 1000))}")

    def abort(self, connection: Any) -> None:
        cut(connection)

    def without_transactions(self, connection: Connection, tables: Sequence[str]) -> dict[str, str]:
        # MyISAM was the default engine when the oldest of ActiveMQ's tables were created.
        rows = connection.execute(_WITHOUT_TRANSACTIONS, {"tables": [*tables]})
        return {str(table): str(engine) for table, engine in rows}

    def collations(self, connection: Connection, table: str) -> dict[str, str | None]:
        # The table's own collations are not in its definition, from which SQLAlchemy reads them.
        return {
            str(name).lower(): collation
            for name, collation in connection.execute(_COLLATIONS, {"name": table})
        }

    def redefined(self, table: str, columns: Sequence[str]) -> str:
        # In one statement: each by itself would copy the table.
        return f"ALTER TABLE {table} {', '.join(f'MODIFY {column}' for column in columns)}"

    def check_statement(self, cursor: Any, template: Template, *, reads: bool) -> int | None:
        text = template.render(lambda *_: "?").encode().hex()
        cursor.execute(f"SET @jdbcstore_text = CONVERT(0x{text} USING utf8mb4)")
        try:
            cursor.execute("PREPARE jdbcstore_check FROM @jdbcstore_text")
        except Exception as error:
            if error_number(error) == _NEVER_PREPARED:
                return None
            raise
        cursor.execute("DEALLOCATE PREPARE jdbcstore_check")
        return count_columns(cursor, template) if reads else None

    def max_message_size(self, cursor: Any) -> int:
        cursor.execute("SELECT @@max_allowed_packet")
        packet = int(cursor.fetchone()[0])
        self._batches.limit_packet(packet)
        return packet - _OVERHEAD

    def sent_size(self, blob: bytes) -> int:
        # pymysql writes two hexadecimal digits for each byte, and before 1.2 escaped some of them.
        return 2 * len(blob)

    def classify(self, error: BaseException) -> Failure:
        code = error_number(error)
        if code in MYSQL_TEXTS:
            return next(failure for text, failure in MYSQL_TEXTS[code] if text in str(error))
        if code in MYSQL:
            return MYSQL[code]
        state = error.args[0] if error.args else None
        # pymysql closes a connection whose answer it cannot read: Galera may end a query within its answer.
        if isinstance(state, str) and state.startswith(("08", "Packet sequence number")):
            return Failure.DISCONNECTED
        if type(error).__name__ in ("DataError", "IntegrityError"):
            return Failure.BAD_VALUE
        return Failure.DISCONNECTED if type(error).__name__ == "InterfaceError" else Failure.UNKNOWN

    def advice(self, error: BaseException) -> str:
        return _ADVICE.get(error_number(error)) or super().advice(error)


class MariadbAdapter(MysqlAdapter):
    """MariaDB 10.6 and later."""

    name = "mariadb"
    drivers: ClassVar = {
        "mariadb+pymysql": ("pymysql", "mysql"),
        "mariadb+pyodbc": ("pyodbc", "odbc"),
    }
    control = MariadbControl
    health = MariadbHealth
    jdbc_subprotocols = ("mariadb",)
    # Of a SELECT that KILL QUERY has ended at the wrong moment.
    cuts_pages = True
    takes_numbers_apart = False
    series = "seq_1_to_256"
    # As AUTO_INCREMENT: by one, and on Galera each node has numbers of its own.
    sequence_increment = 0
    sequence_grant = "GRANT SELECT, INSERT ON {sequence} TO {user}"
    last_number = "next_not_cached_value"
    takes_numbers_in_blocks = True
    settings = _SETTINGS
    odbc_driver = "MariaDB Unicode"
    odbc_timeouts = ("READ_TIMEOUT", "WRITE_TIMEOUT")

    def network_arguments(self, url: URL, seconds: float) -> dict[str, Any]:
        arguments = super().network_arguments(url, seconds)
        if url.drivername.endswith("+pyodbc"):
            # ODBC's login timeout ends with the TCP connection: a stopped server's greeting would be waited
            # for without a limit.
            arguments["CONN_TIMEOUT"] = arguments["timeout"]
        return arguments

    def limit_query(self, connection: Any, seconds: float) -> None:
        connection.cursor().execute(f"SET SESSION max_statement_time = {seconds:f}")


_MEMBERS = {
    # Not a SELECT, which a node that has left its cluster refuses.
    "wsrep_on": "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'",
    "group_replication_group_name": "SELECT COUNT(*) FROM performance_schema.replication_group_members"
    " WHERE MEMBER_STATE = 'ONLINE'",
}
"""By the variable that is a sign of a cluster, the query for the number of its nodes."""


def _count(connection: Any, query: str) -> int | None:
    """Return the number of nodes; None if this user may not read it."""
    with contextlib.closing(connection.cursor()) as cursor:
        try:
            cursor.execute(query)
            [row] = cursor.fetchall()
        except Exception as error:
            if error_number(error) not in _REFUSED:
                raise
            return None
    return int(row[-1])


def _unknown(variables: Mapping[str, str | None]) -> str:
    """Return a name for a server of an engine that is not in the table."""
    return variables.get("version_comment") or "a server of an unknown name"


_ADVICE = {
    **dict.fromkeys((1040, 1203, 1226), CROWDED),
    1047: "the server has left its cluster: connect to another node, or wait until it is back",
    1665: "set binlog_format = ROW or MIXED on the server: jdbcstore works in READ COMMITTED",
}
