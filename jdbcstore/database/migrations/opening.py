"""The connection that a migration runs on: alone, and in one transaction where DDL can be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, NullPool, select

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.engine import Database
from jdbcstore.database.migrations.found import Found, messages_elsewhere
from jdbcstore.database.migrations.migration import Migration, Watch
from jdbcstore.database.schema import JOURNAL_ROWS, LATER_COLUMNS, check_table
from jdbcstore.database.tables import Tables
from jdbcstore.errors import JournalPending, SchemaError


@contextmanager
def migration_of(
    database: Database, target: str = "head", *, only_look: bool = False, watch: Watch | None = None
) -> Iterator[Migration]:
    """The migration of a database. No other runs there meanwhile, unless this one will ``only_look``.

    :raises SchemaError: the tables have other names than those configured; or what the run raises
    :raises JournalPending: going back to an ActiveMQ's tables, a journal has what they have not
    :raises StoreUnavailable: the database does not answer
    """
    adapter, tables = database.adapter, database.tables
    with database.translated():
        engine = database.connect_with(poolclass=NullPool)
        with engine.connect() as connection, connection.begin():
            if not only_look:
                _lock(connection, adapter)
            found = Found.read(connection, tables.known)
            if not found.has_any(tables.known):
                _refuse_others(messages_elsewhere(connection, tables), database)
            _refuse_foreign(found, tables)
            migration = Migration(tables, adapter, found, connection.dialect, target, watch)
            if not only_look:
                _refuse_journal(connection, migration, database)
            yield migration
            if not only_look and adapter.transactional_ddl:
                adapter.commit(connection.connection.cursor())


def _lock(connection: Connection, adapter: Adapter) -> None:
    if adapter.transactional_ddl:
        adapter.begin(connection.connection.cursor())
    if adapter.lock_migrations:
        connection.exec_driver_sql(adapter.lock_migrations).close()


def _refuse_journal(connection: Connection, migration: Migration, database: Database) -> None:
    """Without the mark nobody knows that a journal has more than the tables that an ActiveMQ then takes."""
    state = migration.tables.state
    goes = not migration.target.is_ours and any(planned.step.table is state for planned in migration.plan)
    if goes and migration.found.table(state) is not None:
        number = connection.execute(select(state.c.number).where(state.c.name == JOURNAL_ROWS[0])).scalar()
        if number:
            raise JournalPending(number, database.place)


def _refuse_foreign(found: Found, tables: Tables) -> None:
    """Somebody else's table may have one of ActiveMQ's names."""
    for table in (tables.messages, tables.acks, tables.lock):
        there = found.table(table)
        if there is not None:
            check_table(table, there.columns, LATER_COLUMNS)


def _refuse_others(names: list[str], database: Database) -> None:
    """An empty set of tables beside ActiveMQ's, because a prefix was forgotten, would lose everything."""
    if not names:
        return
    own = database.config.message_table_name.lower()
    cures = [
        f'table_prefix = "{name[: -len(own)]}"'
        if name.lower().endswith(own)
        else f'message_table_name = "{name}"'
        for name in names
    ]
    raise SchemaError(
        f"there is no {database.tables.messages.name} in {database.place}, but {', '.join(names)}: configure"
        f" {' or '.join(cures)}; or run jdbcstore init to make new tables beside them",
        found=", ".join(names),
        expected=str(database.tables.messages.name),
    )
