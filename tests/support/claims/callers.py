"""Connections of an application, in each way in which it can have one, with a table of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.orm import Session

from tests.support.databases import Database

WRITE = "INSERT INTO app_effects (name) VALUES ('{}')"


class Caller(NamedTuple):
    """A connection of the application, and what it can do."""

    connection: Any
    """What is joined."""
    run: Callable[[str], Any]
    """Run a statement of the application's own."""
    commit: Callable[[], None]
    rollback: Callable[[], None]

    def write(self, name: str) -> None:
        self.run(WRITE.format(name))


def effects(database: Database) -> list[str]:
    """What the application has written."""
    return [row[0] for row in database.rows("SELECT name FROM app_effects ORDER BY name")]


def create_effects(database: Database) -> None:
    database.execute("CREATE TABLE app_effects (name VARCHAR(100) PRIMARY KEY)")


@contextmanager
def opened(url: str, way: str, level: str | None = None) -> Iterator[Caller]:
    """A connection of a way, with an isolation level."""
    options: dict[str, Any] = {} if level is None else {"isolation_level": level}
    engine = create_engine(url, poolclass=NullPool, **options)
    try:
        with _WAYS[way](engine) as caller:
            yield caller
    finally:
        engine.dispose()


@contextmanager
def _core(engine: Engine) -> Iterator[Caller]:
    with engine.connect() as connection:
        yield Caller(connection, connection.exec_driver_sql, connection.commit, connection.rollback)


@contextmanager
def _orm(engine: Engine) -> Iterator[Caller]:
    with Session(engine) as session:
        connection = session.connection
        yield Caller(session, lambda sql: connection().exec_driver_sql(sql), session.commit, session.rollback)


@contextmanager
def _driver(engine: Engine) -> Iterator[Caller]:
    raw = engine.raw_connection()
    connection: Any = raw.dbapi_connection

    def run(sql: str) -> Any:
        cursor = connection.cursor()
        cursor.execute(sql)
        return cursor

    try:
        yield Caller(connection, run, connection.commit, connection.rollback)
        connection.rollback()
    finally:
        raw.close()


@contextmanager
def _dicts(engine: Engine) -> Iterator[Caller]:
    """As :func:`_driver`, where the application has rows that are no tuples."""

    def prepare(connection: Any, _record: object) -> None:
        match type(connection).__module__.partition(".")[0]:
            case "psycopg":
                from psycopg.rows import dict_row

                connection.row_factory = dict_row
            case "pymysql":
                from pymysql.cursors import DictCursor

                connection.cursorclass = DictCursor
            case _:
                connection.row_factory = lambda cursor, row: dict(
                    zip([one[0] for one in cursor.description], row, strict=True)
                )

    with engine.connect():
        pass  # SQLAlchemy looks at the server by tuples
    event.listen(engine, "connect", prepare)
    with _driver(engine) as caller:
        yield caller


_WAYS: dict[str, Callable[[Engine], Any]] = {"core": _core, "orm": _orm, "driver": _driver, "dicts": _dicts}
WAYS = tuple(_WAYS)
