"""The steps that revisions are made of. Each checks whether it is needed, and can be run again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

from alembic import op
from sqlalchemy import (
    Column,
    ColumnElement,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Select,
    Table,
    exists,
    func,
    literal_column,
    not_,
    select,
    update,
)
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable, DropTable

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.migrations.found import ONE, FoundColumn, FoundSchema, FoundTable
from jdbcstore.database.schema import ACKS_KEY, acks_key_statements
from jdbcstore.errors import SchemaError

_CHUNK = 10_000
_ZERO: ColumnElement[int] = literal_column("0")
_DEFAULT: ColumnElement[int] = literal_column("5")
"""The default of PRIORITY in ACTIVEMQ_ACKS, a priority by which no subscription is looked up."""

Advance = Callable[[int], None]


class Effect(Enum):
    """Effect of a step on a large table and its users."""

    NONE = ""
    WRITES = "changes rows"
    READS = "reads the whole table; who writes waits"
    SCANS = "reads or copies the whole table; everybody waits"
    COPIES = "copies the whole table; everybody waits"


class Step(ABC):
    """One change of one table; ``title`` says which, for people, and no other step has the same."""

    effect = Effect.NONE

    def __init__(self, table: Table, title: str) -> None:
        self.table = table
        self.title = title

    @abstractmethod
    def is_needed(self, schema: FoundSchema) -> bool: ...

    @abstractmethod
    def run(self, schema: FoundSchema, advance: Advance) -> None:
        """Run it through Alembic and update ``found``, calling ``advance`` with numbers of rows done."""

    def rows(self, schema: FoundSchema) -> int | None:
        """Return the number of rows that it processes; None if unknown."""
        return 0 if self.effect is Effect.NONE else schema.rows(self.table)


class MakeTable(Step):
    """Create a missing table, without the columns that later revisions add."""

    def __init__(self, table: Table, *later: Column[Any]) -> None:
        super().__init__(table, f"create the table {table.name}")
        self._later = frozenset(later)

    def is_needed(self, schema: FoundSchema) -> bool:
        return schema.table(self.table) is None

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        made = plain(self.table, self._later)
        op.execute(CreateTable(made))
        there = schema.add(self.table)
        there.columns = {str(c.name).lower(): FoundColumn(c.type, bool(c.nullable)) for c in made.columns}
        there.key = tuple(str(c.name).lower() for c in made.primary_key.columns)
        there.key_name = made.primary_key.name and str(made.primary_key.name)


class DropTheTable(Step):
    """Drop a table with its rows."""

    def __init__(self, table: Table) -> None:
        super().__init__(table, f"drop the table {table.name}")

    def is_needed(self, schema: FoundSchema) -> bool:
        return schema.table(self.table) is not None

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        op.execute(DropTable(self.table))
        schema.discard(self.table)


class AddColumn(Step):
    """Add a missing column to a table."""

    def __init__(self, column: Column[Any]) -> None:
        super().__init__(column.table, f"add the column {column.name} to {column.table.name}")
        self.column = column

    def is_needed(self, schema: FoundSchema) -> bool:
        there = schema.table(self.table)
        return there is None or self.column.key not in there.columns

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        op.add_column(self.table.name, _plain_column(self.column))
        column = FoundColumn(self.column.type, bool(self.column.nullable))
        schema.add(self.table).columns[str(self.column.key)] = column


class MakeString(Step):
    """Make XID a string, which ActiveMQ 5.7 and 5.8 created as a binary column.

    Their values cannot be converted: a transaction in doubt has to be ended by such a broker.
    """

    effect = Effect.COPIES

    def __init__(self, column: Column[Any]) -> None:
        super().__init__(column.table, f"make {column.name} of {column.table.name} a string")
        self.column = column

    def is_needed(self, schema: FoundSchema) -> bool:
        there = schema.table(self.table)
        column = None if there is None else there.columns.get(str(self.column.key))
        return column is not None and isinstance(column.type, LargeBinary)

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        name = self.column.name
        if schema.exists(select(ONE).select_from(self.table).where(self.column.is_not(None))):
            raise SchemaError(
                f"{name} of {self.table.name} is binary, and has transactions in doubt of an ActiveMQ 5.7 or"
                " 5.8: have that broker commit or roll them back, then migrate",
                found="binary",
                expected=str(self.column.type),
            )
        op.alter_column(
            self.table.name, name, type_=self.column.type, existing_nullable=True, postgresql_using="NULL"
        )
        schema.add(self.table).columns[str(self.column.key)] = FoundColumn(self.column.type, nullable=True)


class MakeIndex(Step):
    """Create a missing index."""

    effect = Effect.READS

    def __init__(self, table: Table, index: Index) -> None:
        super().__init__(table, f"create the index {index.name}")
        self._index = index
        self._name = str(index.name).lower()

    def is_needed(self, schema: FoundSchema) -> bool:
        there = schema.table(self.table)
        return there is None or self._name not in there.indexes

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        op.execute(CreateIndex(self._index))
        schema.add(self.table).indexes[self._name] = tuple(str(c.key) for c in self._index.columns)


def indexes_of(table: Table, *suffixes: str) -> list[MakeIndex]:
    """Return the steps that create the indexes of a table with these suffixes."""
    by_name = {str(index.name).upper(): index for index in table.indexes}
    return [MakeIndex(table, by_name[f"{table.name}_{suffix}".upper()]) for suffix in suffixes]


def plain(table: Table, without: frozenset[Column[Any]] = frozenset()) -> Table:
    """Return a copy of the table, keyed by name as Alembic expects, without indexes and some columns."""
    columns = [_plain_column(column) for column in table.columns if column not in without]
    key = table.primary_key
    names = [column.name for column in key.columns if column not in without]
    return Table(
        table.name,
        MetaData(),
        *columns,
        PrimaryKeyConstraint(*names, name=key.name and str(key.name), **key.dialect_kwargs),
        **table.dialect_kwargs,
    )


def _plain_column(column: Column[Any]) -> Column[Any]:
    default: Any = column.server_default
    return Column(
        column.name,
        column.type,
        nullable=column.nullable,
        server_default=None if default is None else default.arg,
        autoincrement=False,
    )


class WidenKey(Step):
    """Give ACTIVEMQ_ACKS a key with PRIORITY, except where a fresh ActiveMQ leaves it without.

    That is on PostgreSQL, and only under the name ``pk_activemq_acks``: under any other, ActiveMQ would
    have changed it.
    """

    effect = Effect.COPIES

    def __init__(self, table: Table, adapter: Adapter) -> None:
        super().__init__(table, f"put {table.c.priority.name} into the primary key of {table.name}")
        self._adapter = adapter

    def is_needed(self, schema: FoundSchema) -> bool:
        there = schema.table(self.table)
        if there is None:
            return self._adapter.acks_key_has_priority
        if "priority" in there.key:
            return False
        return self._adapter.acks_key_has_priority or not str(there.key_name).lower().startswith("pk_")

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        there = schema.add(self.table)
        if self._adapter.alters_by_copy:
            _copy(self.table, there)
        else:
            dialect = op.get_context().dialect
            statements = acks_key_statements(self.table, self._adapter, dialect, there.key_name)
            for statement in statements if there.key else statements[-1:]:
                op.execute(statement)
        there.key = ACKS_KEY


class ForbidNull(Step):
    """Make a column NOT NULL, if it has no NULL."""

    effect = Effect.SCANS

    def __init__(self, column: Column[Any], adapter: Adapter) -> None:
        super().__init__(column.table, f"let {column.name} of {column.table.name} take no NULL")
        self.column = column
        self._adapter = adapter

    def is_needed(self, schema: FoundSchema) -> bool:
        return self.is_nullable(schema) and (schema.connection is None or not self.nulls(schema))

    def is_nullable(self, schema: FoundSchema) -> bool:
        there = schema.table(self.table)
        can = self._adapter.can_forbid_null
        return can and there is not None and there.columns[str(self.column.key)].nullable

    def nulls(self, schema: FoundSchema) -> bool:
        """Return whether there are rows with NULL, which prevent it."""
        return schema.exists(select(ONE).select_from(self.table).where(self.column.is_(None)))

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        there = schema.add(self.table)
        column = there.columns[str(self.column.key)]
        there.columns[str(self.column.key)] = FoundColumn(column.type, nullable=False)
        if self._adapter.alters_by_copy:
            _copy(self.table, there)
        else:
            op.alter_column(self.table.name, self.column.name, nullable=False, existing_type=column.type)


class GiveTransactions(Step):
    """Move a table to an engine that has transactions: half of a batch must never be stored."""

    effect = Effect.COPIES

    def __init__(self, table: Table, adapter: Adapter) -> None:
        super().__init__(table, f"give transactions to the table {table.name}")
        self._adapter = adapter

    def is_needed(self, schema: FoundSchema) -> bool:
        if schema.connection is None or schema.table(self.table) is None:
            return False
        return bool(self._adapter.without_transactions(schema.connection, [str(self.table.name)]))

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        table = op.get_context().dialect.identifier_preparer.format_table(self.table)
        op.execute(self._adapter.make_transactional.format(table=table))


class CompareExactly(Step):
    """Give the names in a table of jdbcstore's own the collation by which only equal ones are equal.

    An earlier jdbcstore created them with the database's.
    """

    effect = Effect.COPIES

    def __init__(self, table: Table, adapter: Adapter) -> None:
        super().__init__(table, f"compare the names in {table.name} exactly")
        self._adapter = adapter
        self._columns = [column for column in table.columns if column.type is adapter.own_name_type]

    def is_needed(self, schema: FoundSchema) -> bool:
        if not self._columns or schema.connection is None or schema.table(self.table) is None:
            return False
        there = self._adapter.collations(schema.connection, str(self.table.name))
        wanted = getattr(self._adapter.own_name_type, "collation", None)
        return any(there[str(column.key)] != wanted for column in self._columns)

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        dialect = op.get_context().dialect
        definitions = [str(CreateColumn(column).compile(dialect=dialect)) for column in self._columns]
        table = dialect.identifier_preparer.format_table(self.table)
        op.execute(self._adapter.redefined(table, definitions))


class EnlargeBinary(Step):
    """Give MSG the vendor's type, where an ActiveMQ with the wrong adapter chose a smaller one."""

    effect = Effect.COPIES

    def __init__(self, column: Column[Any], adapter: Adapter) -> None:
        super().__init__(column.table, f"make {column.name} of {column.table.name} hold more than 64 KiB")
        self.column = column
        self._adapter = adapter

    def is_needed(self, schema: FoundSchema) -> bool:
        there = schema.table(self.table)
        if there is None or type(self.column.type) is not type(self._adapter.binary_type):
            return False  # to be created so, or configured otherwise
        return type(there.columns["msg"].type).__name__ in self._adapter.small_binary_types

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        op.alter_column(self.table.name, self.column.name, type_=self.column.type, existing_nullable=True)
        schema.add(self.table).columns["msg"] = FoundColumn(self.column.type, nullable=True)


def _copy(table: Table, there: FoundTable) -> None:
    """Copy a table into one with the right key, and the columns and indexes that it has."""
    made = plain(table, frozenset(column for column in table.columns if column.key not in there.columns))
    for column in made.columns:
        column.nullable = there.columns[str(column.name).lower()].nullable
    with op.batch_alter_table(made.name, recreate="always", copy_from=made):
        pass
    names = {str(column.name).lower(): column.name for column in made.columns}
    ours = {str(index.name).lower(): index.name for index in table.indexes}
    for index, columns in there.indexes.items():
        copied = Index(ours.get(index, index), *(made.c[names[column]] for column in columns))
        op.execute(CreateIndex(copied))


class PutRow(Step):
    """Insert a row, if the table has none with this key."""

    def __init__(self, table: Table, column: str, key: object, **values: object) -> None:
        super().__init__(table, f"put the row {key!r} into {table.name}")
        self._there = table.c[column] == key
        self.insert = table.insert().values(**{column: key, **values})

    def is_needed(self, schema: FoundSchema) -> bool:
        if schema.table(self.table) is None:
            return True
        return schema.connection is not None and not schema.exists(
            select(ONE).select_from(self.table).where(self._there)
        )

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        op.execute(self.insert)


class _NumberRows(Step):
    """Give rows from before PRIORITY the value 0."""

    effect = Effect.WRITES
    what: ClassVar[str]

    def __init__(self, table: Table) -> None:
        super().__init__(table, f"set {table.c.priority.name} of older {self.what} in {table.name} to 0")

    def is_needed(self, schema: FoundSchema) -> bool:
        return schema.table(self.table) is not None and schema.exists(self._rows(schema))

    def rows(self, schema: FoundSchema) -> int | None:
        return schema.count(self._rows(schema))

    def _rows(self, schema: FoundSchema) -> Select[Any]:
        query, there = select(ONE.label("one")).select_from(self.table), schema.table(self.table)
        return query if there is None or "priority" not in there.columns else query.where(self._is_older())

    @abstractmethod
    def _is_older(self) -> ColumnElement[bool]: ...

    def run(self, schema: FoundSchema, advance: Advance) -> None:  # noqa: ARG002
        op.execute(update(self.table).where(self._is_older()).values(priority=_ZERO))


class NumberMessages(_NumberRows):
    """Give messages from before PRIORITY the value 0: ActiveMQ does not clean up rows with NULL."""

    what = "messages"

    def _is_older(self) -> ColumnElement[bool]:
        return self.table.c.priority.is_(None)

    def run(self, schema: FoundSchema, advance: Advance) -> None:
        if op.get_context().as_sql:
            super().run(schema, advance)
            return
        id_ = self.table.c.id
        change = update(self.table).where(self._is_older()).values(priority=_ZERO)
        some = select(id_).where(self._is_older()).order_by(id_).limit(_CHUNK).subquery()
        connection = op.get_bind()
        while (last := connection.execute(select(func.max(some.c.id))).scalar()) is not None:
            advance(connection.execute(change.where(id_ <= last)).rowcount)


class NumberSubscriptions(_NumberRows):
    """Give subscriptions from before PRIORITY the value 0, by which ActiveMQ finds them.

    ActiveMQ adds the column with a default of 5, and then does not find them when it starts.
    """

    what = "subscriptions"

    def _is_older(self) -> ColumnElement[bool]:
        """Return whether a row has the default and is its subscription's only one, not the first of ten."""
        acks = self.table
        names = ("container", "client_id", "sub_name")
        # DISTINCT makes MySQL materialize them: it cannot read from a table that it updates.
        others = (
            select(*(acks.c[name] for name in names))
            .where(acks.c.priority != _DEFAULT)
            .distinct()
            .subquery("others")
        )
        same = [others.c[name] == acks.c[name] for name in names]
        return (acks.c.priority == _DEFAULT) & not_(exists(select(ONE).select_from(others).where(*same)))
