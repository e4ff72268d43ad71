"""Statements that a connection of pymysql prepares, on real servers: values, limits, failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from sqlalchemy import make_url

import jdbcstore
from jdbcstore import Message
from jdbcstore.database.adapters import mysql_sending
from jdbcstore.database.adapters.mysql_sending import SentQuery, packet_of, prepare_if_due, prepared_on
from tests.support.databases import Database

pytestmark = pytest.mark.backends("mariadb", "mysql")

_CLOSE = 25
INSERT = "INSERT INTO T (NUMBER, NAME, CONTENT) VALUES (%s, %s, %s) /* 100%% */"
ROWS: list[tuple[int | None, str | None, bytes | None]] = [
    (0, "", b""),
    (None, None, None),
    (-1, 'it\'s \\ "%s"', b"\0\xff'\\"),
    (2**63 - 1, "ü\U0001f600", b"x" * 250),
    (-(2**63), "a" * 251, b"x" * 251),
    (7, "a" * 65_535, b"x" * 65_536),
]


def connect(database: Database) -> Any:
    url = make_url(database.url)
    login: dict[str, Any] = {"user": url.username, "password": url.password, "database": url.database}
    return pymysql.connect(host=url.host, port=url.port or 3306, autocommit=True, **login)


@pytest.fixture
def connection(database: Database) -> Iterator[Any]:
    with connect(database) as other, connect(database) as connection:
        with other.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE T (NUMBER BIGINT, NAME LONGTEXT, CONTENT LONGBLOB) CHARACTER SET utf8mb4"
            )
        yield connection
        with other.cursor() as cursor:
            cursor.execute("DROP TABLE T")


def run(connection: Any, text: str, values: Any) -> None:
    """Send a statement as the store does: prepared once it is frequent."""
    cursor = connection.cursor()
    prepare_if_due(connection, text, values)
    packet = packet_of(cursor, text, values)
    assert packet is not None
    SentQuery(connection, packet, lambda _: None, lambda _: None).finish()


def prepare(connection: Any, text: str = INSERT) -> None:
    for _ in range(5):
        run(connection, text, ROWS[0])


def rows(connection: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT NUMBER, NAME, CONTENT FROM T")
        return list(cursor.fetchall())


def number_of(connection: Any, text: str = INSERT) -> int | None:
    prepared = prepared_on(connection)
    assert prepared is not None
    return prepared.numbers[text]


def test_values_arrive_as_they_are(connection: Any) -> None:
    prepare(connection)
    assert number_of(connection)
    run(connection, "DELETE FROM T", ())
    for row in ROWS:
        run(connection, INSERT, row)
    assert rows(connection) == ROWS


def test_other_values_go_as_text(connection: Any) -> None:
    prepare(connection)
    with pytest.raises(pymysql.err.DataError):
        run(connection, INSERT, (2**63, "x", b"x"))  # out of range, as the server says
    run(connection, INSERT, (1.0, "x", b"x"))
    assert rows(connection)[-1] == (1, "x", b"x")


def test_an_error_leaves_it_prepared(connection: Any) -> None:
    prepare(connection)
    with pytest.raises(pymysql.err.MySQLError):
        run(connection, INSERT, (1, b"\xff\xfe", b"x"))  # not UTF-8
    run(connection, INSERT, (2, "y", b"y"))
    assert rows(connection)[-1] == (2, "y", b"y")


@pytest.mark.backends("mariadb", "mysql")
def test_a_server_that_has_lost_them_gets_text(url: str) -> None:
    """As a proxy does that moves a connection to another server. The write is repeated, once."""
    with jdbcstore.open(url, cleanup_period=0, reconnect_timeout=60.0) as store:
        queue = store.queue("Q")
        for number in range(6):
            queue.add_message(Message(str(number)))
        [(connection, statements)] = [
            (one, found)
            for one, found in mysql_sending._prepared.items()
            if one.open and any(found.numbers.values())
        ]
        for number in filter(None, statements.numbers.values()):
            connection._execute_command(_CLOSE, number.to_bytes(4, "little"))  # without an answer
        queue.add_message(Message("6"))
        assert [message.body for message in queue.recover()] == [*map(str, range(7))]


def test_a_table_that_changes_meanwhile(connection: Any) -> None:
    prepare(connection)
    run(connection, "ALTER TABLE T ADD COLUMN MORE INT DEFAULT 5", ())
    run(connection, INSERT, (3, "z", b"z"))
    assert rows(connection)[-1] == (3, "z", b"z")


def test_a_statement_that_the_server_does_not_prepare(connection: Any) -> None:
    wrong = "INSERT INTO T (NO_SUCH_COLUMN) VALUES (%s, %s, %s)"
    for _ in range(4):
        with pytest.raises(pymysql.err.MySQLError):
            run(connection, wrong, ROWS[0])
    prepare_if_due(connection, wrong, ROWS[0])
    assert number_of(connection, wrong) is None
    with pytest.raises(pymysql.err.MySQLError):
        run(connection, wrong, ROWS[0])
    run(connection, INSERT, ROWS[0])
    assert rows(connection) == ROWS[:1]


def test_it_is_prepared_by_a_caller_that_may_wait(connection: Any) -> None:
    """The first call that finds it frequent sends nothing: the event loop leaves the batch to the thread."""
    cursor = connection.cursor()
    packets = [packet_of(cursor, INSERT, ROWS[0]) for _ in range(5)]
    assert [packet is None for packet in packets] == [False] * 4 + [True]
    prepare_if_due(connection, INSERT, ROWS[0])
    assert number_of(connection)
    assert packet_of(cursor, INSERT, ROWS[0]) is not None


def test_a_lost_connection_is_reported(connection: Any, database: Database) -> None:
    for _ in range(4):
        run(connection, INSERT, ROWS[0])
    with connect(database) as other, other.cursor() as cursor:
        cursor.execute(f"KILL CONNECTION {connection.thread_id()}")
    with pytest.raises(pymysql.err.OperationalError) as caught:
        prepare_if_due(connection, INSERT, ROWS[0])
    assert caught.value.args[0] in (2006, 2013)
