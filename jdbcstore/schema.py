"""ActiveMQ's three tables as each vendor's broker makes them, and two tables of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    Engine,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import quoted_name

from jdbcstore.adapters.base import Adapter
from jdbcstore.config import StoreConfig
from jdbcstore.errors import SchemaError
from jdbcstore.names import NAME_LENGTH

LOCK_ROW = 1
SEQUENCE_ROW = "sequence"


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables under their configured names. ``acknowledged`` and ``state`` are ours."""

    messages: Table
    acks: Table
    lock: Table
    acknowledged: Table
    """Durable acknowledgements that are ahead of LAST_ACKED_ID."""
    state: Table
    """Named numbers; the row ``sequence`` is the highest sequence that was ever reserved."""

    @property
    def all(self) -> tuple[Table, ...]:
        return (self.messages, self.acks, self.lock, self.acknowledged, self.state)

    @property
    def ours(self) -> tuple[Table, ...]:
        return (self.acknowledged, self.state)


def define_tables(adapter: Adapter, config: StoreConfig) -> Tables:
    """The tables for a vendor, named so that they are the ones an ActiveMQ of it made."""
    metadata = MetaData()
    define = _Definer(adapter, metadata)
    prefix = config.table_prefix
    return Tables(
        messages=_messages(define, prefix + config.message_table_name),
        acks=_acks(define, prefix + config.durable_sub_acks_table_name),
        lock=_lock(define, prefix + config.lock_table_name),
        acknowledged=_acknowledged(define, prefix + "JDBCSTORE_ACKS"),
        state=_state(define, prefix + "JDBCSTORE_STATE"),
    )


class _Definer:
    def __init__(self, adapter: Adapter, metadata: MetaData) -> None:
        self.adapter = adapter
        self.metadata = metadata

    def name(self, name: str) -> quoted_name:
        return quoted_name(name if self.adapter.fold_upper else name.lower(), quote=True)

    def column(self, name: str, type_: Any, **options: Any) -> Column[Any]:
        # The key is the lower-case name on every vendor, whatever the database calls the column.
        return Column(self.name(name), type_, key=name.lower(), **options)

    def text(self, name: str, **options: Any) -> Column[Any]:
        return self.column(name, String(NAME_LENGTH), **options)

    def number(self, name: str, **options: Any) -> Column[Any]:
        return self.column(name, self.adapter.long_type, autoincrement=False, **options)

    def sequence(self, name: str, **options: Any) -> Column[Any]:
        return self.column(name, self.adapter.sequence_type, autoincrement=False, **options)

    def table(self, name: str, *parts: Any) -> Table:
        return Table(self.name(name), self.metadata, *parts, **self.adapter.table_options)

    def index(self, table: str, suffix: str, *columns: str) -> Index:
        return Index(self.name(f"{table}_{suffix}"), *columns)


def _messages(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.sequence("ID", primary_key=True),
        define.text("CONTAINER", nullable=False),
        define.text("MSGID_PROD"),
        define.number("MSGID_SEQ"),
        define.number("EXPIRATION"),
        define.column("MSG", define.adapter.binary_type),
        define.number("PRIORITY"),
        define.text("XID"),
        define.index(name, "MIDX", "msgid_prod", "msgid_seq"),
        define.index(name, "CIDX", "container"),
        define.index(name, "EIDX", "expiration"),
        define.index(name, "PIDX", "priority"),
        define.index(name, "XIDX", "xid"),
        define.index(name, "IIDX", "id", "xid", "container"),
    )


def _acks(define: _Definer, name: str) -> Table:
    key = ["container", "client_id", "sub_name"]
    if define.adapter.acks_key_has_priority:
        key.append("priority")
    # ActiveMQ leaves the prefix out of this name, and cannot make the table of a second prefix.
    key_name = define.name(f"PK_{name}") if define.adapter.acks_key_is_named else None
    return define.table(
        name,
        define.text("CONTAINER", nullable=False),
        define.text("SUB_DEST"),
        define.text("CLIENT_ID", nullable=False),
        define.text("SUB_NAME", nullable=False),
        define.text("SELECTOR"),
        define.number("LAST_ACKED_ID"),
        define.number("PRIORITY", nullable=False, server_default=text("5")),
        define.text("XID"),
        PrimaryKeyConstraint(*key, name=key_name),
        define.index(name, "XIDX", "xid"),
    )


def _lock(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.sequence("ID", primary_key=True),
        define.number("TIME"),
        define.text("BROKER_NAME"),
    )


def _acknowledged(define: _Definer, name: str) -> Table:
    # The producer's id is kept beside ID: a broker that restarts IDs must not have a new message
    # taken for one acknowledged before.
    return define.table(
        name,
        define.text("CONTAINER", nullable=False),
        define.text("CLIENT_ID", nullable=False),
        define.text("SUB_NAME", nullable=False),
        define.number("ID", nullable=False),
        define.text("MSGID_PROD"),
        define.number("MSGID_SEQ"),
        PrimaryKeyConstraint("container", "client_id", "sub_name", "id"),
    )


def _state(define: _Definer, name: str) -> Table:
    return define.table(name, define.text("NAME", primary_key=True), define.number("NUMBER", nullable=False))


def missing_tables(engine: Engine, tables: Tables) -> list[Table]:
    """Those of the tables that the database does not have."""
    present = {name.lower() for name in inspect(engine).get_table_names()}
    # A quoted name answers lower() with itself.
    return [table for table in tables.all if str(table.name).lower() not in present]


def check_columns(engine: Engine, tables: Tables) -> None:
    """Whether the tables that are there are the ones meant.

    :raises SchemaError: a table lacks a column
    """
    inspector = inspect(engine)
    for table in tables.all:
        if not inspector.has_table(table.name):
            continue
        found = [str(column["name"]) for column in inspector.get_columns(table.name)]
        missing = set(table.columns.keys()) - {name.lower() for name in found}
        if missing:
            raise SchemaError(
                f"the table {table.name} has no column {' and no '.join(sorted(missing)).upper()}: it is not"
                " ActiveMQ's, or of a version before 5.7; choose a table_prefix, or let ActiveMQ upgrade it",
                found=", ".join(found),
                expected=", ".join(table.columns.keys()),
            )


def create_tables(engine: Engine, tables: Tables) -> None:
    """Create what is absent: tables, indexes, and the rows they start with.

    Several processes may do so at once, and one that was killed in between is made good.

    :raises SchemaError: the database refused
    """
    for table in tables.all:
        _create(engine, table)
    _insert_row(engine, tables.lock, tables.lock.c.id == LOCK_ROW, id=LOCK_ROW)
    _insert_row(engine, tables.state, tables.state.c.name == SEQUENCE_ROW, name=SEQUENCE_ROW, number=0)


def drop_tables(engine: Engine, tables: Tables) -> None:
    """Drop all five tables, with everything in them."""
    tables.messages.metadata.drop_all(engine, tables=tables.all)


def _create(engine: Engine, table: Table) -> None:
    try:
        if not inspect(engine).has_table(table.name):
            with engine.begin() as connection:
                table.create(connection)
            return
    except DBAPIError as error:
        if not inspect(engine).has_table(table.name):
            raise SchemaError(
                f"cannot create the table {table.name}: {error.orig}; let a database administrator"
                " create it, or give this user the right to"
            ) from error
    _create_indexes(engine, table)


def _create_indexes(engine: Engine, table: Table) -> None:
    present = _index_names(engine, table)
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        if str(index.name).lower() in present:
            continue
        try:
            index.create(engine)
        except DBAPIError as error:
            # Another process was faster, or the user may not: slower, but nothing is lost.
            if str(index.name).lower() not in _index_names(engine, table):
                raise SchemaError(f"cannot create the index {index.name}: {error.orig}") from error


def container_index(tables: Tables) -> Index:
    """The index on CONTAINER, by which a queue is found."""
    [index] = [i for i in tables.messages.indexes if [c.key for c in i.columns] == ["container"]]
    return index


def has_container_index(engine: Engine, tables: Tables) -> bool:
    """Whether it is there: a database administrator may have made the tables, and may have dropped it."""
    return str(container_index(tables).name).lower() in _index_names(engine, tables.messages)


def _index_names(engine: Engine, table: Table) -> set[str]:
    return {str(index["name"]).lower() for index in inspect(engine).get_indexes(table.name)}


def _insert_row(engine: Engine, table: Table, condition: Any, **values: Any) -> None:
    with engine.begin() as connection:
        if connection.execute(select(table).where(condition)).first() is not None:
            return
    try:
        with engine.begin() as connection:
            connection.execute(table.insert().values(**values))
    except DBAPIError as error:
        with engine.begin() as connection:
            if connection.execute(select(table).where(condition)).first() is None:
                raise SchemaError(f"cannot fill the table {table.name}: {error.orig}") from error


def widen_acks_key(engine: Engine, tables: Tables, adapter: Adapter) -> None:
    """Make room in ACTIVEMQ_ACKS for ten rows per subscription, one for each priority.

    ActiveMQ means to do so at every start, but on PostgreSQL its statement names the wrong
    constraint, and prioritised durable subscriptions fail. Does nothing where the key has PRIORITY.

    :raises SchemaError: the database refused
    """
    acks = tables.acks
    key = inspect(engine).get_pk_constraint(acks.name)
    if "priority" in {column.lower() for column in key["constrained_columns"]}:
        return
    quote = engine.dialect.identifier_preparer.quote
    columns = ", ".join(
        quote(acks.c[name].name) for name in ("container", "client_id", "sub_name", "priority")
    )
    drop = adapter.drop_acks_key.format(name=quote(key["name"] or ""))
    try:
        with engine.begin() as connection:
            # One statement, so that the table is never without a key.
            connection.execute(text(f"ALTER TABLE {quote(acks.name)} {drop}, ADD PRIMARY KEY ({columns})"))
    except DBAPIError as error:
        raise SchemaError(
            f"a prioritised durable subscription needs PRIORITY in the primary key of {acks.name}:"
            f" {error.orig}; let a database administrator change the key",
            found=", ".join(key["constrained_columns"]),
            expected="container, client_id, sub_name, priority",
        ) from error
