"""A migration that is killed at any statement, or that meets another, ends as one that is not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from jdbcstore import StoreConfig
from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.engine import Database as Target
from jdbcstore.database.migrations import migration_of
from jdbcstore.database.schema import HEAD
from jdbcstore.errors import StoreError
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database, MysqlDatabase, PostgresqlDatabase, SqliteDatabase
from tests.support.faults.answers import AnswerLine, each_answer, examples
from tests.support.migrations.dying import DyingMigrations
from tests.support.migrations.generations import BEFORE_PRIORITY, Generation, rows_of
from tests.support.migrations.schemas import differences, migrate, report, schema_of

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

OLDEST = Generation(
    "oldest", priority=False, xid=False, container_null=True, id_index=False, named_key=False, binary="BLOB"
)
STATEMENTS = 20
"""That a migration from the oldest tables has at least; so many are known to have been died after."""


@pytest.fixture(scope="module")
def dying() -> Iterator[DyingMigrations]:
    dying = DyingMigrations()
    yield dying
    dying.close()


def make_oldest(database: Database) -> None:
    for table in schema_of(database):
        database.execute(f"DROP TABLE {table}")
    oldest = OLDEST if isinstance(database, MysqlDatabase) else BEFORE_PRIORITY
    oldest.create(database)
    oldest.fill(database)


@pytest.mark.whole("mysql")  # MariaDB commits after each statement, too
def test_killed_at_each_statement(database: Database, dying: DyingMigrations) -> None:
    make_oldest(database)
    before, rows = schema_of(database), rows_of(database)
    migrate(database)
    head = schema_of(database)
    assert differences(database) == []
    make_oldest(database)
    leaves_nothing = Target(database.url, StoreConfig()).adapter.transactional_ddl

    for number in count(1):
        if not dying.is_killed(database.url, "head", number):
            break
        assert rows_of(database) == rows
        if leaves_nothing:
            assert schema_of(database) == before
        else:
            migrate(database)
            assert schema_of(database) == head
            assert rows_of(database) == rows
            make_oldest(database)

    assert number > STATEMENTS
    assert schema_of(database) == head
    assert rows_of(database) == rows
    assert report(database).revision == HEAD


@pytest.mark.whole("mysql")
def test_killed_at_each_statement_on_the_way_back(database: Database, dying: DyingMigrations) -> None:
    make_oldest(database)
    migrate(database, "activemq")
    plain, rows = schema_of(database), rows_of(database)

    for number in count(1):
        migrate(database)
        if not dying.is_killed(database.url, "activemq", number):
            break
        migrate(database, "activemq")
        assert schema_of(database) == plain

    assert number > 3
    assert schema_of(database) == plain
    assert rows_of(database) == rows


@pytest.mark.slow
@pytest.mark.backends("postgresql", "mariadb")
def test_an_error_in_place_of_each_answer(database: Database) -> None:
    """The server has run the statement; the next migration completes it."""
    make_oldest(database)
    migrate(database, "activemq")
    rows = rows_of(database)
    migrate(database)
    head = schema_of(database)
    [unknown, *_] = [answer for answer in examples(database) if answer.failure is Failure.UNKNOWN]
    line = AnswerLine(database.url)
    try:
        for _, done, at in each_answer(line, [unknown]):
            if not done:
                break
            line.mend()
            migrate(database, "activemq")
            line.replace(unknown.code, at, done=True, text=unknown.text)
            try:
                with migration_of(Target(line.url, StoreConfig()), "head") as migration:
                    migration.run()
            except StoreError:
                migrate(database)
            assert schema_of(database) == head, at
            assert rows_of(database) == rows, at
            number = at
    finally:
        line.close()
    assert number > STATEMENTS


class Held:
    """Holds what a migration waits for, so that two of them wait for it at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._adapter = Target(database.url, StoreConfig()).adapter
        self._stack = ExitStack()

    def __enter__(self) -> Held:
        connection: Connection = self._stack.enter_context(self._database.engine.connect())
        if self._adapter.transactional_ddl:
            cursor = connection.connection.cursor()
            cursor.execute(self._adapter.writing.begin_statement)
        if self._adapter.lock_migrations:
            connection.exec_driver_sql(self._adapter.lock_migrations).close()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def is_waited_for(self, processes: list[subprocess.Popen[bytes]]) -> bool:
        """Whether all of them have got so far."""
        waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'"
        if isinstance(self._database, PostgresqlDatabase):
            waiting = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        if isinstance(self._database, SqliteDatabase):
            held = [[*Path(f"/proc/{process.pid}/fd").glob("*")] for process in processes]
            return all(any(_is(fd, self._database.path) for fd in fds) for fds in held)
        return self._database.rows(waiting) == [(len(processes),)]


def _is(descriptor: Path, path: Any) -> bool:
    try:
        return bool(descriptor.readlink() == path)
    except OSError:  # closed meanwhile
        return False


def test_two_at_once(database: Database) -> None:
    make_oldest(database)
    rows = rows_of(database)
    line, pipe = CommandLine(ROOT, database.url), subprocess.PIPE

    with Held(database) as held:
        processes = [line.fork("migrate", stdout=pipe, stderr=pipe) for _ in range(2)]
        wait_until(lambda: held.is_waited_for(processes), what="that both wait")
    outputs = [process.communicate(timeout=180) for process in processes]

    assert [process.returncode for process in processes] == [0, 0], outputs
    assert sorted(b"nothing to do" in out for out, _ in outputs) == [False, True]
    assert report(database).fits
    assert rows_of(database) == rows
