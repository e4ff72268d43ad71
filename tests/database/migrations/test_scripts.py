"""``sql/``: as the definitions are, and run by the databases' own clients."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlglot
from sqlalchemy import inspect
from sqlglot import exp

import jdbcstore
from jdbcstore.config import StoreConfig
from jdbcstore.database.migrations.scripts import VENDORS, scripts
from jdbcstore.database.schema import HEAD
from jdbcstore.errors import StoreError
from jdbcstore.stores.claims.routing import Routing
from tests.support import ROOT
from tests.support.databases import Database, MariadbDatabase, PostgresqlDatabase, SqliteDatabase
from tests.support.migrations.clients import run_script
from tests.support.migrations.generations import (
    BEFORE_5_15,
    BEFORE_5_15_11,
    BEFORE_PRIORITY,
    BEFORE_XID,
    LATEST,
    Generation,
    rows_of,
)
from tests.support.migrations.schemas import differences, migrate, report, schema_of
from tests.support.servers import Server

SQL = ROOT / "sql"
clients = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
upgrades = pytest.mark.parametrize(
    ("revision", "generation"),
    [
        ("activemq_5_0", BEFORE_PRIORITY),
        ("activemq_5_4", BEFORE_XID),
        ("activemq_5_7", BEFORE_5_15),
        ("activemq_5_15", BEFORE_5_15_11),
        ("activemq_5_15_11", LATEST),
    ],
)


def folders(database: Database) -> list[Path]:
    """Where the scripts for a database are; MariaDB takes MySQL's too."""
    if isinstance(database, SqliteDatabase):
        return [SQL / "sqlite"]
    if isinstance(database, PostgresqlDatabase):
        return [SQL / "postgresql"]
    return [SQL / "mariadb", SQL / "mysql"] if isinstance(database, MariadbDatabase) else [SQL / "mysql"]


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_scripts_are_up_to_date(vendor: str) -> None:
    written = {path.name: path.read_text() for path in (SQL / vendor).glob("*")}

    assert written == scripts(vendor), "run: make sql"


@clients
def test_create_makes_what_fits_and_drop_leaves_nothing(database: Database) -> None:
    for folder in folders(database):
        run_script(database, folder / "create.sql")

        found = report(database)
        assert (found.fits, found.notes, found.revision) == (True, (), HEAD)
        assert differences(database) == []
        assert migrate(database) == []
        with jdbcstore.open(database.url, create_tables_on_startup=False, cleanup_period=0.0) as store:
            store.queue("Q").add_message(jdbcstore.Message("hello"))
        run_script(database, folder / "drop.sql")
        assert schema_of(database) == {}


@clients
def test_drop_leaves_nothing_that_was_created_beside_them(database: Database, tmp_path: Path) -> None:
    for folder in folders(database):
        for name in ("create.sql", "history.sql", "claims.sql", "routing.sql", "inbox.sql", "outbox.sql"):
            if (folder / name).exists():
                run_script(database, without_grants(folder / name, tmp_path))
        run_script(database, folder / "drop.sql")
        found = inspect(database.engine)
        assert found.get_table_names() == []
        if database.engine.dialect.supports_sequences:
            assert found.get_sequence_names() == []


def without_grants(script: Path, folder: Path) -> Path:
    """A copy for a database where the user does not exist."""
    copy = folder / script.name
    copy.write_text(re.sub(r"^GRANT .*\n", "", script.read_text(), flags=re.MULTILINE))
    return copy


@clients
@upgrades
def test_upgrades_of_every_generation(database: Database, revision: str, generation: Generation) -> None:
    for folder in folders(database):
        generation.create(database)
        generation.fill(database)
        rows = rows_of(database)

        run_script(database, folder / f"upgrade-from-{revision}.sql")

        found = report(database)
        assert (found.fits, found.notes, found.revision) == (True, (), HEAD)
        assert differences(database) == []
        assert rows_of(database) == rows
        assert migrate(database) == []
        run_script(database, folder / "drop.sql")


@pytest.mark.backends("postgresql")
def test_the_wide_key(database: Database) -> None:
    [folder] = folders(database)
    run_script(database, folder / "create.sql")

    run_script(database, folder / "widen-acks-key.sql")

    assert schema_of(database)["activemq_acks"]["key"][-1] == "priority"
    assert report(database).fits


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_the_grants_are_enough(server: Server, database: Database, tmp_path: Path) -> None:
    """Two users who have nothing but what the script gives: one makes the tables, the other works on them."""
    folder = folders(database)[0]
    administrator = (server.administrator, server.administrator_password)
    owner, user = ("jdbcstore_owner", "secret"), ("jdbcstore_user", "secret")
    create = (
        "CREATE ROLE {} LOGIN PASSWORD '{}'"
        if isinstance(database, PostgresqlDatabase)
        else "CREATE USER {} IDENTIFIED BY '{}'"
    )
    server.execute_as_administrator(create.format(*owner), create.format(*user))
    grants = (folder / "grants.sql").read_text().replace("TO jdbcstore;", f"TO {user[0]};")
    first, second = tmp_path / "first.sql", tmp_path / "second.sql"
    end = grants.index("GRANT SELECT, INSERT")
    first.write_text(grants[:end] + "COMMIT;")
    second.write_text(f"BEGIN;{grants[end:]}")
    run_script(database, first, login=administrator)
    run_script(database, folder / "create.sql", login=owner)
    run_script(database, second, login=administrator)

    url = database.engine.url.set(username=user[0], password=user[1]).render_as_string(hide_password=False)
    with jdbcstore.open(url, cleanup_period=0.0) as store:
        queue, topic = store.queue("Q"), store.topic("T")
        queue.add_message(jdbcstore.Message("hello"))
        queue.acknowledge(*queue.recover())
        subscription = topic.subscribe("c", "s")
        topic.add_message(jdbcstore.Message("one"))
        subscription.acknowledge(*subscription.recover())
        assert store.cleanup() == 1
    with pytest.raises(StoreError, match=r"(?i)denied|CREATE command"):
        jdbcstore.open(url, table_prefix="NEW_")
    run_script(database, folder / "drop.sql", login=owner)


UNREAD = {
    "oracle": {
        'ALTER TABLE "ACTIVEMQ_MSGS" MODIFY "CONTAINER" NOT NULL',
        "GRANT CREATE SESSION, CREATE TABLE TO jdbcstore_owner",
    },
    "mssql": {
        "GRANT ALTER, SELECT, INSERT, UPDATE, DELETE ON SCHEMA::dbo TO jdbcstore_owner;",
        "GRANT CREATE TABLE TO jdbcstore_owner;",
    },
}
"""What sqlglot passes over as commands that it does not know."""


@pytest.mark.parametrize(("vendor", "dialect", "end"), [("oracle", "oracle", "/"), ("mssql", "tsql", "GO")])
def test_an_independent_parser_reads_them(vendor: str, dialect: str, end: str) -> None:
    read, unread = 0, set()
    for script in sorted((SQL / vendor).glob("*.sql")):
        for statement in re.split(rf"^{end}$", script.read_text(), flags=re.MULTILINE):
            # sqlglot knows NONCLUSTERED only of keys that have a name.
            code = re.sub(r"^--.*$| NONCLUSTERED", "", statement, flags=re.MULTILINE).strip()
            if not code:
                continue
            [parsed] = sqlglot.parse(code, read=dialect, error_level=sqlglot.ErrorLevel.RAISE)
            read += 1
            if isinstance(parsed, exp.Command):
                unread.add(code)
    assert read > 50
    assert unread == UNREAD[vendor]


@clients
def test_the_script_for_claims(database: Database, tmp_path: Path) -> None:
    """Without its grants, for which the user would have to exist."""
    folder = folders(database)[0]
    run_script(database, folder / "create.sql")
    run_script(database, without_grants(folder / "claims.sql", tmp_path))
    run_script(database, without_grants(folder / "routing.sql", tmp_path))

    with jdbcstore.Claims(database.url, StoreConfig(create_tables_on_startup=False)) as claims:
        queue = claims.queue("Q")
        queue.add(jdbcstore.Message("hello"))
        queue.acknowledge(*queue.claim())
        assert queue.count() == (0, 0)
        Routing(claims, grace=1.0).declare_queue("Q", None, None)
