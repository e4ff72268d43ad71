"""The schema of a database: whether the tables exist and fit, and creating them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Dialect,
    Engine,
    Index,
    Inspector,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    bindparam,
    inspect,
    select,
    text,
    true,
)
from sqlalchemy.engine.interfaces import ReflectedColumn, ReflectedIndex
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import AddConstraint

from jdbcstore.config.statements import BY_NAME, StatementValue
from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.schema_lock import schema_lock
from jdbcstore.database.tables import Tables
from jdbcstore.errors import SchemaError

log = logging.getLogger(__name__)

LOCK_ROW = 1
SEQUENCE_ROW = "sequence"
JOURNAL_ROWS = (
    *("journal", "journal_applied", "journal_written", "journal_referred"),
    *("journal_store", "journal_writer"),
)
"""The positions of a journal, once there has been one."""
CLAIMS_ROW = "claims"
"""Present once messages have been claimed here: then there may be sessions that share the tables."""
BEGUN_ROW = "claims_begun"
"""The number of times that processes have begun to claim messages here, or a journal without a locker."""
EPOCH_ROW = "epoch"
"""The number of the last epoch that a master has begun."""
BESIDE = "beside "
"""The prefix of the row that is written beside a number, where the nodes of a cluster share no locks."""
ROUTING_ROW = "routing"
"""The number of changes of queues, exchanges and bindings, so that they can be kept in memory."""
FLOW_ROW = "flow"
"""The number of changes of the limits of queues; present once one was set."""
CLOCK_ROW = "clock"
"""The latest time of the database's clock that processes that claim messages have noted, in milliseconds."""
LARGE_ROW = "large"
"""Present once a body was kept in pieces here."""
JOURNAL_LEFT = "journal_left_{:016x}"
"""The position at which the journal of this number was abandoned."""
HEAD = "jdbcstore_3"
"""The revision of this schema among those in ``migrations/versions``."""
LATER_COLUMNS = frozenset({"priority", "xid"})
"""Columns that tables of earlier versions lack."""
ACKS_KEY = ("container", "client_id", "sub_name", "priority")
"""The primary key of ACTIVEMQ_ACKS with a row for each priority."""

_TRIES = 4


@dataclass(frozen=True, slots=True)
class Present:
    """The tables, columns and indexes that a database had when it was inspected."""

    columns: dict[Table, list[str]]
    """The names of the columns of each table that exists."""
    indexes: dict[Table, set[str]]
    """The names of its indexes, in lower case."""

    def missing(self, tables: Iterable[Table]) -> list[Table]:
        """Return those of the tables that did not exist."""
        return [table for table in tables if table not in self.columns]

    def has_index(self, index: Index) -> bool:
        """Return whether it exists: an administrator may have created the tables, and may have dropped it."""
        return index.table in self.indexes and _name(index) in self.indexes[index.table]


def inspect_tables(engine: Engine, adapter: Adapter, tables: Iterable[Table]) -> Present:
    """Inspect the database for the tables, with as few queries as the vendor allows."""
    columns: dict[str, list[str]] = {}
    indexes: dict[str, set[str]] = {}
    names = [str(table.name) for table in tables]
    with engine.connect() as connection:
        if adapter.described:
            query = text(adapter.described).bindparams(bindparam("names", expanding=True))
            for name, part, is_index in connection.execute(query, {"names": names}):
                columns.setdefault(name, [])
                if is_index:
                    indexes.setdefault(name, set()).add(str(part).lower())
                else:
                    columns[name].append(part)
        else:
            inspector = inspect(connection)
            for (_, name), reflected in inspector.get_multi_columns(filter_names=names).items():
                columns[name] = _column_names(reflected)
            for (_, name), those in inspector.get_multi_indexes(filter_names=names).items():
                indexes[name] = {_name(index) for index in those}
        missing = [name for name in names if name not in columns]
        inspector = inspect(connection)
        for name in _under_another_case(inspector, missing):
            columns[name] = _column_names(inspector.get_columns(name))
            indexes[name] = {_name(index) for index in inspector.get_indexes(name)}
    present = [table for table in tables if str(table.name) in columns]
    return Present(
        {table: columns[str(table.name)] for table in present},
        {table: indexes.get(str(table.name), set()) for table in present},
    )


def _column_names(columns: Iterable[ReflectedColumn]) -> list[str]:
    return [str(column["name"]) for column in columns]


def _under_another_case(inspector: Inspector, names: list[str]) -> list[str]:
    """Return those of the names that the server matches to its tables regardless of case."""
    written = {name.lower() for name in inspector.get_table_names()} if names else set()
    return [name for name in names if name.lower() in written and inspector.has_table(name)]


def refuse_other_case(engine: Engine, missing: Iterable[Table]) -> None:
    """Refuse tables whose names differ from missing ones only in case, where case distinguishes tables.

    New tables beside them would hide all messages.

    :raises SchemaError: there are some
    """
    inspector = inspect(engine)
    written = {name.lower(): name for name in inspector.get_table_names()}
    names = [name for table in missing if (name := str(table.name)).lower() in written]
    # Another process may have created one in the meantime.
    tables = [written[name.lower()] for name in names if not inspector.has_table(name)]
    if tables:
        raise SchemaError(
            f"this server has the tables {', '.join(tables)}, whose names differ from the configured ones in"
            " case: configure message_table_name, durable_sub_acks_table_name and lock_table_name as they are"
            " written there",
            found=", ".join(tables),
            expected=", ".join(str(table.name) for table in missing),
        )


def check_table(table: Table, names: Iterable[str], without: Set[str] = frozenset()) -> None:
    """Make sure that a table has its columns, except those ``without`` which it may be.

    :raises SchemaError: it lacks one
    """
    missing = _missing_columns(table, names) - without
    if missing:
        cure = "it is not ActiveMQ's; choose a table_prefix"
        if missing <= LATER_COLUMNS:
            cure = "an earlier version made it; run jdbcstore migrate, which keeps every row"
        raise SchemaError(
            f"the table {table.name} has no column"
            f" {' and no '.join(name.upper() for name in sorted(missing))}: {cure}",
            found=", ".join(names),
            expected=", ".join(table.columns.keys()),
        )


def _missing_columns(table: Table, names: Iterable[str]) -> set[str]:
    return set(table.columns.keys()) - {name.lower() for name in names}


def check_transactions(engine: Engine, present: Present, adapter: Adapter) -> None:
    """Make sure that writes to the tables can be rolled back.

    :raises SchemaError: the server keeps a table without transactions
    """
    with engine.connect() as connection:
        names = [str(table.name) for table in present.columns]
        without = adapter.without_transactions(connection, names) if names else {}
    for table, kept_by in without.items():
        raise SchemaError(
            f"the server keeps the table {table} with {kept_by}, which has no transactions, and half of a"
            " batch could be stored; run jdbcstore migrate, which keeps every row",
            found=kept_by,
        )


def create_tables(
    engine: Engine, adapter: Adapter, tables: Tables, present: Present, theirs: Collection[Table] = ()
) -> None:
    """Create missing tables, indexes and initial rows.

    ``theirs`` are tables that are created elsewhere, with the indexes chosen there.

    Several processes may do so at once, and the work of one that was killed is completed. Where there was no
    table, the process that creates the first one records the schema's revision: the tables of others may be
    of any revision.

    :raises SchemaError: the database refused
    """
    made: list[Table] = []
    for table in tables.all:
        if table in theirs:
            continue
        if table not in present.columns and create_table(engine, adapter, table):
            made.append(table)
        else:
            _create_indexes(engine, adapter, table, present.indexes.get(table))
    _insert_row(engine, tables.lock, tables.lock.c.id == LOCK_ROW, id=LOCK_ROW)
    _insert_row(engine, tables.state, tables.state.c.name == SEQUENCE_ROW, name=SEQUENCE_ROW, number=0)
    if made and made[0] is tables.all[0] and not (theirs or present.columns):
        create_table(engine, adapter, tables.version)
        _insert_row(engine, tables.version, true(), version_num=HEAD)


def create_table(engine: Engine, adapter: Adapter, table: Table, others: Iterable[str] = ()) -> bool:
    """Create a table with its indexes, and ``others`` with it; false if another process did so first."""

    def create(connection: Connection) -> None:
        table.create(connection)
        for statement in others:
            connection.exec_driver_sql(statement)

    try:
        _run(engine, adapter, create)
    except DBAPIError as error:
        _pass_outage(adapter, error)
        if not inspect(engine).has_table(table.name):
            raise SchemaError(
                f"cannot create the table {table.name}: {error.orig}; let a database administrator"
                " create it, or give this user the right to"
            ) from error
        return False
    return True


def create_rows_beside(engine: Engine, tables: Tables) -> None:
    """Create the rows beside numbers that transactions hold, on a cluster whose nodes share no locks."""
    for row in (SEQUENCE_ROW, EPOCH_ROW, BEGUN_ROW):
        name = BESIDE + row
        _insert_row(engine, tables.state, tables.state.c.name == name, name=name, number=0)


def create_claim_tables(engine: Engine, adapter: Adapter, tables: Tables) -> None:
    """Create what processes that claim messages share: tables, sequence, index, and the row that says so.

    :raises SchemaError: the database refused
    """
    for table in (tables.claims, tables.claim_sessions):
        create_table(engine, adapter, table)
    if adapter.series and not inspect(engine).has_sequence(str(tables.claim_ids.name)):
        try:
            _run(engine, adapter, lambda connection: tables.claim_ids.create(connection, checkfirst=False))
        except DBAPIError as error:
            _pass_outage(adapter, error)
            if not inspect(engine).has_sequence(str(tables.claim_ids.name)):
                raise SchemaError(
                    f"cannot create the sequence {tables.claim_ids.name}: {error.orig}"
                ) from error
    index = tables.claim_index
    if _name(index) not in _index_names(engine, tables.messages):
        try:
            _run(engine, adapter, index.create)
        except DBAPIError as error:
            _pass_outage(adapter, error)
            if _name(index) not in _index_names(engine, tables.messages):
                raise SchemaError(f"cannot create the index {index.name}: {error.orig}") from error
    _insert_row(engine, tables.state, tables.state.c.name == CLAIMS_ROW, name=CLAIMS_ROW, number=0)


def create_routing_tables(engine: Engine, adapter: Adapter, tables: Tables, missing: Sequence[Table]) -> None:
    """Create missing tables of queues, exchanges and bindings, and the row of their changes.

    :raises SchemaError: the database refused
    """
    for table in missing:
        create_table(engine, adapter, table)
    _insert_row(engine, tables.state, tables.state.c.name == ROUTING_ROW, name=ROUTING_ROW, number=0)


def create_flow_tables(engine: Engine, adapter: Adapter, tables: Tables) -> None:
    """Create the tables of the limits of queues and keys, and the row of their changes.

    :raises SchemaError: the database refused
    """
    for table in tables.of_flow:
        create_table(engine, adapter, table)
    _insert_row(engine, tables.state, tables.state.c.name == FLOW_ROW, name=FLOW_ROW, number=0)


def create_large_tables(engine: Engine, adapter: Adapter, tables: Tables) -> None:
    """Create the tables of large bodies, and the row that says so.

    :raises SchemaError: the database refused
    """
    for table in tables.of_large:
        create_table(engine, adapter, table)
    _insert_row(engine, tables.state, tables.state.c.name == LARGE_ROW, name=LARGE_ROW, number=0)


def create_outbox_tables(engine: Engine, adapter: Adapter, tables: Tables, missing: Sequence[Table]) -> None:
    """Create missing tables of the outbox, with the trigger.

    :raises SchemaError: the database refused
    """
    for table in missing:
        create_table(
            engine, adapter, table, outbox_trigger(adapter, tables) if table is tables.outbox else ()
        )


def drop_outbox(engine: Engine, adapter: Adapter, tables: Tables) -> None:
    """Drop the table of the outbox with its trigger."""

    def drop(connection: Connection) -> None:
        tables.outbox.drop(connection, checkfirst=True)
        if adapter.outbox_trigger_end:
            connection.exec_driver_sql(adapter.outbox_trigger_end.format(name=tables.outbox.name))

    _run(engine, adapter, drop)


def outbox_trigger(adapter: Adapter, tables: Tables) -> list[str]:
    """Return the statements that create the trigger of the outbox."""
    names = {"name": tables.outbox.name, "messages": tables.messages.name}
    return [statement.format(**names) for statement in adapter.outbox_trigger]


def _create_indexes(engine: Engine, adapter: Adapter, table: Table, present: set[str] | None) -> None:
    if present is None:
        present = _index_names(engine, table)
    for index in sorted(table.indexes, key=_name):
        if _name(index) in present:
            continue
        try:
            _run(engine, adapter, index.create)
        except DBAPIError as error:
            _pass_outage(adapter, error)
            # Another process was faster, or the user may not create indexes: then reads are slower.
            if _name(index) not in _index_names(engine, table):
                raise SchemaError(f"cannot create the index {index.name}: {error.orig}") from error


def _run(engine: Engine, adapter: Adapter, create: Callable[[Connection], None]) -> None:
    """Create something in its own transaction; again if another process was in the way."""
    for left in reversed(range(_TRIES)):
        try:
            with schema_lock(engine, adapter), engine.begin() as connection:
                create(connection)
            return
        except DBAPIError as error:
            # On Derby two processes that create the same index deadlock, and one of them fails.
            transient = error.orig is not None and adapter.classify(error.orig) is Failure.TRANSIENT
            if not transient or left == 0:
                raise


def _pass_outage(adapter: Adapter, error: DBAPIError) -> None:
    """Raise an error that is not about the schema: the caller translates it, and may try again."""
    outages = (
        *(Failure.DISCONNECTED, Failure.READ_ONLY, Failure.TRANSIENT, Failure.REFUSED),
        Failure.FULL,
    )
    if error.orig is not None and adapter.classify(error.orig) in outages:
        raise error


def _index_names(engine: Engine, table: Table) -> set[str]:
    return {_name(index) for index in inspect(engine).get_indexes(table.name)}


def _name(index: Index | ReflectedIndex) -> str:
    # A quoted name answers lower() with itself.
    return str(index.name if isinstance(index, Index) else index["name"]).lower()


def _insert_row(engine: Engine, table: Table, condition: Any, **values: Any) -> None:
    """Insert a row that another process may insert, too; a cluster may roll back both."""
    for left in reversed(range(_TRIES)):
        with engine.begin() as connection:
            if connection.execute(select(table).where(condition)).first() is not None:
                return
        try:
            with engine.begin() as connection:
                connection.execute(table.insert().values(**values))
        except DBAPIError as error:
            if not left:
                raise SchemaError(f"cannot fill the table {table.name}: {error.orig}") from error
        else:
            return


def widen_acks_key(engine: Engine, tables: Tables, adapter: Adapter, drop: str | None = None) -> None:
    """Add PRIORITY to the key of ACTIVEMQ_ACKS, for ten rows per subscription.

    ``drop`` is the ALTER TABLE clause that drops the key, in place of the adapter's.

    ActiveMQ tries to do so at every start, but on PostgreSQL its statement names the wrong
    constraint, and prioritised durable subscriptions fail. Does nothing if the key has PRIORITY.

    :raises SchemaError: the database refused
    """
    acks = tables.acks
    key = inspect(engine).get_pk_constraint(acks.name)
    if "priority" in {column.lower() for column in key["constrained_columns"]}:
        return
    try:
        with schema_lock(engine, adapter), engine.begin() as connection:
            for statement in acks_key_statements(acks, adapter, engine.dialect, key["name"], drop):
                connection.execute(text(statement))
    except DBAPIError as error:
        _pass_outage(adapter, error)
        raise SchemaError(
            f"a prioritised durable subscription needs PRIORITY in the primary key of {acks.name}:"
            f" {error.orig}; let a database administrator change the key",
            found=", ".join(key["constrained_columns"]),
            expected=", ".join(ACKS_KEY),
        ) from error


def acks_key_statements(
    acks: Table, adapter: Adapter, dialect: Dialect, name: str | None, drop: str | None = None
) -> list[str]:
    """Return the statements that replace the key of ACTIVEMQ_ACKS, if named so, by one with PRIORITY."""
    quote = dialect.identifier_preparer.quote
    columns = [Column(acks.c[column].name, acks.c[column].type) for column in ACKS_KEY]
    key = PrimaryKeyConstraint(*columns, **acks.primary_key.dialect_kwargs)
    Table(acks.name, MetaData(), *columns, key)
    alter, _, add = str(AddConstraint(key).compile(dialect=dialect)).partition(" ADD ")
    drop = drop or adapter.drop_acks_key.format(name=quote(name or ""))
    # In one statement if possible, so that the table is never without a key.
    parts = [f"{drop}, ADD {add}"] if adapter.joins_alterations else [drop, f"ADD {add}"]
    return [f"{alter} {part}" for part in parts]


def given_tables(tables: Tables, given: Mapping[str, StatementValue]) -> list[Table]:
    """Return the tables that are created by statements in ``given``."""
    return [table for name, made in _made_by(tables) if name in given for table in made]


def _made_by(tables: Tables) -> list[tuple[str, tuple[Table, ...]]]:
    return [
        ("createSchemaStatements", (tables.messages, tables.acks)),
        ("createLockSchemaStatements", (tables.lock,)),
    ]


def create_given_tables(
    engine: Engine, adapter: Adapter, tables: Tables, present: Present, given: Mapping[str, StatementValue]
) -> Present:
    """Run those statements in ``given`` whose tables are not complete; what exists afterwards.

    :raises SchemaError: a table or a column is still missing
    """
    for name, made in _made_by(tables):
        texts = given.get(name)
        if isinstance(texts, tuple) and _lacking(present, made):
            with schema_lock(engine, adapter):
                refusals = _run_given(engine, texts)
            present = inspect_tables(engine, adapter, tables.all)
            if lacking := _lacking(present, made):
                reason = f": {refusals[0].statement!r}: {refusals[0].orig}" if refusals else ""
                raise SchemaError(
                    f"{BY_NAME[name].name} left the database without {lacking}{reason}; correct the"
                    " statements, or leave them out"
                ) from (refusals[0] if refusals else None)
    return present


def _run_given(engine: Engine, texts: Iterable[str]) -> list[DBAPIError]:
    """Try each, as ActiveMQ does: a failure only matters if a table is missing after the last."""
    refusals = []
    for statement in texts:
        try:
            with engine.connect().execution_options(no_parameters=True) as connection, connection.begin():
                connection.exec_driver_sql(statement)
        except DBAPIError as error:
            log.info("a statement that creates the tables was refused: %s: %s", statement, error.orig)
            refusals.append(error)
    return refusals


def _lacking(present: Present, tables: Sequence[Table]) -> str:
    """Return the first table or column that is missing, in words."""
    for table in tables:
        if table not in present.columns:
            return f"the table {table.name}"
        if missing := _missing_columns(table, present.columns[table]):
            return f"the column {min(missing).upper()} of {table.name}"
    return ""
