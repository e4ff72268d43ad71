"""Migrations of a database to a revision, or the SQL that carries them out."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.ddl.base import AddColumn, alter_table
from alembic.ddl.impl import DefaultImpl
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Dialect, NullPool, select
from sqlalchemy.engine.mock import MockConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable, DropTable

from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.engine import Database
from jdbcstore.database.migrations.found import FoundSchema, messages_elsewhere
from jdbcstore.database.migrations.steps import Advance, Step
from jdbcstore.database.schema import HEAD, JOURNAL_ROWS, LARGE_ROW, LATER_COLUMNS, check_table
from jdbcstore.database.schema_lock import schema_lock
from jdbcstore.database.tables import Tables
from jdbcstore.errors import ConfigurationError, JournalPending, OutcomeUnknown, SchemaError

Steps = Callable[[Tables, Adapter], Sequence[Step]]
ACTIVEMQ = "activemq"
"""The name of ActiveMQ's own tables at their latest revision."""
_INSTALLED = Path(__file__).parent / "environment"
_ENVIRONMENT = _INSTALLED if (_INSTALLED / "env.py").exists() else Path(__file__).parents[3] / "migrations"
"""The folder of the Alembic environment: in the package where it is installed, else that of the checkout."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One state of the schema, and the steps to it from the one before."""

    id: str
    title: str
    steps: Steps
    drops: Steps
    """The steps back."""

    @property
    def is_ours(self) -> bool:
        """Whether it includes jdbcstore's own tables."""
        return not self.id.startswith(ACTIVEMQ)


def revisions() -> list[Revision]:
    """Return all revisions, the oldest first."""
    scripts = ScriptDirectory(str(_ENVIRONMENT))
    return [
        Revision(script.revision, str(script.doc), script.module.steps, script.module.drops)
        for script in reversed([*scripts.walk_revisions()])
    ]


def position(history: Sequence[Revision], name: str) -> int:
    """Return the index of a revision; ``head`` and ``activemq`` are the latest of all and of ActiveMQ's own.

    :raises ConfigurationError: there is none of this name
    """
    names = [revision.id for revision in history]
    if name == "head":
        return names.index(HEAD)
    if name == ACTIVEMQ:
        return max(index for index, revision in enumerate(history) if not revision.is_ours)
    if name not in names:
        raise ConfigurationError(
            f"there is no revision {name!r}; choose head, {ACTIVEMQ}, {', '.join(names)}"
        )
    return names.index(name)


@dataclass(frozen=True, slots=True)
class Planned:
    """A step to be taken, and its revision."""

    revision: Revision
    step: Step
    rows: int | None
    """The number of rows that it processes; None if unknown."""


Watch = Callable[[Planned], AbstractContextManager[Advance]]
_PASSING = (Failure.DISCONNECTED, Failure.READ_ONLY, Failure.TRANSIENT, Failure.FULL)


class Migration:
    """The migration of one database to a revision, planned from ``found``.

    ``watch`` is the context manager around each step.

    :raises ConfigurationError: there is no such revision
    :raises SchemaError: a newer jdbcstore has migrated the database
    """

    def __init__(
        self,
        tables: Tables,
        adapter: Adapter,
        schema: FoundSchema,
        dialect: Dialect,
        target: str = "head",
        watch: Watch | None = None,
    ) -> None:
        self.tables = tables
        self.adapter = adapter
        self.found = schema
        self._dialect = dialect
        self._watch = watch or (lambda _planned: nullcontext(lambda _count: None))
        history = revisions()
        end = position(history, target)
        self.target = history[end]
        self._last_of_activemq = history[position(history, ACTIVEMQ)]
        self.recorded = schema.version(tables)
        """The revision recorded in the database."""
        if self.recorded not in (None, *(revision.id for revision in history)):
            raise SchemaError(
                f"the schema is at revision {self.recorded}, of a newer jdbcstore; use that one",
                found=self.recorded,
                expected=history[-1].id,
            )
        back = [] if self.target.is_ours else [*reversed(history[end + 1 :])]
        self._back = [planned for revision in back for planned in self._needed(revision, revision.drops)]
        there = history[: end + 1]
        self._forth = [planned for revision in there for planned in self._needed(revision, revision.steps)]
        self.start = _last_complete(there, self._forth)
        """The last revision that is complete, with all before it; None if not even the first is."""
        self._from: Revision | None = None

    @property
    def plan(self) -> list[Planned]:
        """The steps that are needed, in their order."""
        return [*self._back, *self._forth]

    @property
    def origin(self) -> Revision | None:
        """The current revision of the schema; None if it has none."""
        return self._back[0].revision if self._back else self.start

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do, even if only to record the revision."""
        if self.target.is_ours:
            return bool(self.plan) or self.recorded != self.target.id
        return bool(self.plan) or self.found.table(self.tables.version) is not None

    @property
    def forgotten(self) -> int:
        """Acknowledgements after a gap that a downgrade drops: their messages are delivered again."""
        going = any(planned.step.table is self.tables.acknowledged for planned in self._back)
        return (self.found.rows(self.tables.acknowledged) or 0) if going else 0

    def run(self) -> None:
        """Run the steps.

        :raises SchemaError: the database refused one
        """
        if self.is_needed:
            self._run(Config(), as_sql=False)

    def sql(self) -> str:
        """Render the steps as a script for the database's own client; nothing is run."""
        output = io.StringIO()
        if self.is_needed:
            # RETURNING is of no use in a script.
            self._dialect = copy.copy(self._dialect)
            self._dialect.insert_returning = False
            self._run(Config(output_buffer=output), as_sql=True)
        return output.getvalue()

    def _run(self, config: Config, *, as_sql: bool) -> None:
        config.set_main_option("script_location", str(_ENVIRONMENT).replace("%", "%%"))
        config.attributes["migration"] = self
        if self._back:
            self._from, end = self._back[0].revision, self._last_of_activemq.id
            command.downgrade(config, f"{self._from.id}:{end}" if as_sql else end, sql=as_sql)
        self._from, end = self.start, self.target.id
        command.upgrade(config, f"{self._from.id}:{end}" if as_sql and self._from else end, sql=as_sql)

    def configure(self, context: Any) -> None:
        """Configure Alembic for the database; called by its environment."""
        make_known(self._dialect)
        offline: Any = MockConnection(self._dialect, lambda *_: None)
        context.configure(
            connection=offline if context.is_offline_mode() else self.found.connection,
            # Otherwise begun and committed outside, where the lock is held.
            transactional_ddl=context.is_offline_mode() and self.adapter.transactional_ddl,
            version_table=self.tables.version.name,
            literal_binds=context.is_offline_mode(),
            migration=self,
            **OWN_ENDS,
        )
        end_statements(context.get_context(), self.adapter)

    def begin(self, context: Any) -> None:
        """Record the revision at which the steps start; called by the environment."""
        version = self.tables.version
        if self._from is None:
            if self.found.table(version) is not None:
                context.execute(DropTable(version))
                self.found.discard(version)
            return
        if self.found.table(version) is None:
            context.execute(CreateTable(version))
            self.found.add(version)
        elif self.recorded == self._from.id:
            return
        else:
            context.execute(version.delete())
        context.execute(version.insert().values(version_num=self._from.id))
        self.recorded = self._from.id

    def run_steps(self, steps: Steps) -> None:
        """Run the needed steps of a revision; called by its script.

        :raises SchemaError: the database refused one
        """
        planned = {move.step.title: move for move in self.plan}
        for step in steps(self.tables, self.adapter):
            if step.title in planned:
                with self._watch(planned[step.title]) as advance:
                    self._run_step(step, advance)

    def end(self, context: Any) -> None:
        """Drop the recorded revision, which ActiveMQ's own tables do not have; called by the environment."""
        if self._from is self.start and not self.target.is_ours:
            context.execute(DropTable(self.tables.version))
            self.found.discard(self.tables.version)

    def _run_step(self, step: Step, advance: Advance) -> None:
        try:
            step.run(self.found, advance)
        except DBAPIError as error:
            if error.orig is None or self.adapter.classify(error.orig) in _PASSING:
                raise
            so_far = "nothing was done" if self.adapter.transactional_ddl else "earlier steps are kept"
            raise SchemaError(
                f"cannot {step.title}: {error.orig}; {so_far}. Correct it and migrate again, or let an"
                " administrator run what jdbcstore migrate --sql prints"
            ) from error

    def _needed(self, revision: Revision, steps: Steps) -> Iterator[Planned]:
        for step in steps(self.tables, self.adapter):
            if step.is_needed(self.found):
                yield Planned(revision, step, step.rows(self.found))


def _last_complete(history: Sequence[Revision], needed: Sequence[Planned]) -> Revision | None:
    incomplete = {planned.revision.id for planned in needed}
    complete = [*takewhile(lambda revision: revision.id not in incomplete, history)]
    return complete[-1] if complete else None


def end_statements(context: MigrationContext, adapter: Adapter) -> None:
    """End the statements of a script as the vendor's own client expects."""
    context.impl.command_terminator = adapter.statement_end


OWN_ENDS = {"mssql_batch_separator": "", "oracle_batch_separator": ""}
"""Options that keep Alembic from adding its own ends of statements."""


def make_known(dialect: Dialect) -> None:
    """Register plain DDL for a dialect unknown to Alembic."""
    kind = type(dialect)
    try:
        DefaultImpl.get_by_dialect(dialect)
    except KeyError:
        type("PlainImpl", (DefaultImpl,), {"__dialect__": kind.name})
        # The keyword COLUMN is not allowed by every vendor, and required by none.
        compiles(AddColumn, kind.name)(_add_column)


def _add_column(element: AddColumn, compiler: Any, **_: Any) -> str:
    table = alter_table(compiler, element.table_name, element.schema)
    return f"{table} ADD {compiler.get_column_specification(element.column)}"


@contextmanager
def migration_of(
    database: Database, target: str = "head", *, only_look: bool = False, watch: Watch | None = None
) -> Iterator[Migration]:
    """Yield the migration of a database, under a lock, and in one transaction if DDL is transactional.

    With ``only_look`` it is not locked, and must not be run.

    :raises SchemaError: the tables have other names than those configured; or an error of the run
    :raises JournalPending: on the way back to ActiveMQ's tables, a journal has changes that they lack; or
        bodies are in pieces, which is a SchemaError, too
    :raises StoreUnavailable: the database does not answer
    """
    tables = database.tables
    with database.translated():
        engine = database.connect_with(poolclass=NullPool)
        with engine.connect() as connection, ExitStack() as held, connection.begin():
            adapter = database.adapter
            if not only_look:
                held.enter_context(schema_lock(engine, adapter))
                _lock(connection, adapter)
            schema = FoundSchema.read(connection, tables.known)
            if not any(map(schema.table, tables.known)):
                _refuse_others(messages_elsewhere(connection, tables), database)
            _refuse_foreign(schema, tables)
            migration = Migration(tables, adapter, schema, connection.dialect, target, watch)
            if not only_look:
                _refuse_loss(connection, migration, database)
            yield migration
            if not only_look and adapter.transactional_ddl:
                _commit(connection, database)


def _lock(connection: Connection, adapter: Adapter) -> None:
    if adapter.transactional_ddl:
        adapter.writing.begin(connection.connection.cursor())
    if adapter.lock_migrations and not adapter.certifies:
        connection.exec_driver_sql(adapter.lock_migrations).close()


def _commit(connection: Connection, database: Database) -> None:
    try:
        database.adapter.writing.commit(connection.connection.cursor())
    except database.failures as error:
        if database.classify(error) not in (Failure.DISCONNECTED, Failure.UNKNOWN):
            raise
        raise OutcomeUnknown(
            f"the database does not tell whether the migration was committed ({error}): all of it was, or"
            " nothing; migrate again, which completes it"
        ) from error


def _refuse_loss(connection: Connection, migration: Migration, database: Database) -> None:
    """Refuse to go back to ActiveMQ with data that it cannot read: changes in a journal, bodies in pieces."""
    state, large, messages = migration.tables.state, migration.tables.large, migration.tables.messages
    goes = not migration.target.is_ours and any(planned.step.table is state for planned in migration.plan)
    if goes and migration.found.table(state) is not None:
        number = connection.execute(select(state.c.number).where(state.c.name == JOURNAL_ROWS[0])).scalar()
        if number:
            raise JournalPending(number, database.place)
        if connection.execute(select(state.c.number).where(state.c.name == LARGE_ROW)).first():
            used = select(large.c.msg_id).join(messages, messages.c.id == large.c.msg_id).limit(1)
            if first := connection.execute(used).scalar():
                raise SchemaError(
                    f"the message with ID {first} in {database.place}, and perhaps others, has its body in"
                    " pieces, which no ActiveMQ can read; have these messages consumed first",
                    found=str(large.name),
                    expected="messages with their bodies",
                )


def _refuse_foreign(schema: FoundSchema, tables: Tables) -> None:
    """Refuse a foreign table that has one of ActiveMQ's names."""
    for table in (tables.messages, tables.acks, tables.lock):
        there = schema.table(table)
        if there is not None:
            check_table(table, there.columns, LATER_COLUMNS)


def _refuse_others(names: list[str], database: Database) -> None:
    """Refuse new tables beside ActiveMQ's: with a forgotten prefix, they would hide all messages."""
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
        f" {' or '.join(cures)}; or run jdbcstore init to create new tables beside them",
        found=", ".join(names),
        expected=str(database.tables.messages.name),
    )
