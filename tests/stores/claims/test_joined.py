"""Messages that are added in the application's own transaction."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, make_url
from sqlalchemy.orm import Session

from jdbcstore import Message
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.errors import ConfigurationError
from jdbcstore.stores.claims import ClaimQueue, Claims
from jdbcstore.testing.clock import FakeClock
from tests.stores.claims.conftest import OpenClaims
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


def bodies(queue: ClaimQueue, limit: int = 9) -> list[object]:
    return [claim.message.body for claim in queue.claim(limit)]


def test_a_rollback_is_never_seen_and_a_commit_is(
    open_claims: OpenClaims, database: Database, clock: FakeClock
) -> None:
    claims = open_claims(clock=clock)
    queue = claims.queue("ORDERS")
    engine = create_engine(database.url)
    orders = Table("app_orders", MetaData(), Column("id", Integer, primary_key=True))
    orders.create(engine)
    for number, commits in enumerate((False, True)):
        with engine.connect() as connection:
            connection.execute(orders.insert().values(id=number))
            claims.join(connection).add("ORDERS", Message(str(number)))
            connection.commit() if commits else connection.rollback()
        clock.advance(3.0)
        assert bodies(queue) == (["1"] if commits else [])
    assert database.rows("SELECT id FROM app_orders") == [(1,)]
    engine.dispose()


def test_an_orm_session_and_a_connection_of_the_driver(claims: Claims, database: Database) -> None:
    engine = create_engine(database.url)
    with Session(engine) as session:
        claims.join(session).add("ORDERS", Message("orm"))
        session.commit()
    raw = engine.raw_connection()
    claims.join(raw.dbapi_connection).add("ORDERS", Message("driver"), Message("twice"))
    raw.commit()
    raw.close()
    engine.dispose()

    assert bodies(claims.queue("ORDERS")) == ["orm", "driver", "twice"]
    with pytest.raises(ConfigurationError, match="cannot join a dict"):
        claims.join({})


DJANGO = """
import json
import sys

import pymysql

pymysql.install_as_MySQLdb()

import django
from django.conf import settings
from django.db import connection, transaction

from jdbcstore import Claims, Message
from jdbcstore.errors import ConfigurationError, TransactionError

url, database = json.load(sys.stdin)
settings.configure(DATABASES={"default": database})
django.setup()
with Claims(url) as claims, connection.cursor() as cursor:
    orders = claims.queue("ORDERS")
    cursor.execute("CREATE TABLE app_orders (id INTEGER PRIMARY KEY)")
    orders.add(Message("0"))
    [claim] = orders.claim()
    try:
        claims.join(connection).acknowledge("ORDERS", claim)
    except ConfigurationError as error:
        assert "begin a transaction" in str(error), error
    for number in (1, 2):
        try:
            with transaction.atomic():
                cursor.execute("INSERT INTO app_orders VALUES (%s)", [number])
                joined = claims.join(connection)
                joined.acknowledge("ORDERS", claim)
                claims.join(connection.connection).add("ORDERS", Message(str(number)))
                transaction.on_commit(joined.wake)
                if number == 1:
                    raise InterruptedError
        except InterruptedError:
            pass
    with transaction.atomic():
        connection.needs_rollback = True
        try:
            claims.join(connection).add("ORDERS", Message("3"))
        except TransactionError as error:
            assert "roll it back" in str(error), error
connection.close()
"""
ENGINES = {"sqlite": "sqlite3", "postgresql": "postgresql", "mariadb": "mysql", "mysql": "mysql"}


def test_a_transaction_of_django(claims: Claims, database: Database) -> None:
    url = make_url(database.url)
    names = {"NAME": url.database, "USER": url.username, "PASSWORD": url.password, "HOST": url.host}
    of = {"ENGINE": f"django.db.backends.{ENGINES[url.get_backend_name()]}", **names, "PORT": url.port}
    program = [sys.executable, "-W", "error", "-c", DJANGO]
    subprocess.run(program, input=json.dumps([database.url, of]), text=True, check=True, timeout=180)
    assert bodies(claims.queue("ORDERS")) == ["2"]
    assert database.rows("SELECT id FROM app_orders") == [(2,)]


def test_a_delay_in_a_joined_transaction(claims: Claims, database: Database) -> None:
    engine = create_engine(database.url)
    with engine.begin() as connection:
        claims.join(connection).add("ORDERS", Message("later"), delay=3600.0)
    engine.dispose()

    queue = claims.queue("ORDERS")
    assert queue.count() == (1, 0)
    database.execute("UPDATE JDBCSTORE_CLAIMS SET DUE = 1")
    [later] = queue.claim(wait=30.0)
    assert later.message.body == "later"


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_a_commit_a_minute_late_is_seen(
    open_claims: OpenClaims, database: Database, clock: FakeClock
) -> None:
    claims = open_claims(clock=clock)
    queue = claims.queue("ORDERS")
    engine = create_engine(database.url)
    at_once = 100 if claims.database.session.of(ClaimStatements).settles_singly else 1000
    with engine.connect() as connection:
        claims.join(connection).add("ORDERS", Message("early"))
        for _ in range(10):
            queue.add(*(Message("other") for _ in range(at_once)))
            clock.advance(0.3)
            queue.acknowledge(*queue.claim(at_once))
        clock.advance(60.0)
        assert queue.claim() == []
        connection.commit()
    engine.dispose()

    clock.advance(0.3)
    assert bodies(queue) == []  # the mark is beyond it
    clock.advance(2.0)
    assert bodies(queue) == ["early"]
