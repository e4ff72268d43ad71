"""Whatever an ActiveMQ or a jdbcstore left is brought to head, and every row is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy.exc import IntegrityError

import jdbcstore
from jdbcstore import StoreConfig
from jdbcstore.database.engine import Database as Target
from jdbcstore.database.migrations import Advance, Planned, migration_of
from jdbcstore.database.migrations.steps import Effect
from jdbcstore.database.schema import HEAD
from jdbcstore.errors import SchemaError
from tests.support.databases import Database
from tests.support.migrations.generations import (
    BEFORE_PRIORITY,
    BEFORE_XID,
    GENERATIONS,
    LATEST,
    MISTAKEN,
    Generation,
    rows_of,
)
from tests.support.migrations.schemas import differences, fresh_schema, migrate, report, schema_of

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
every_generation = pytest.mark.parametrize("generation", GENERATIONS, ids=lambda generation: generation.id)


def check_head(database: Database, fresh: dict[str, object]) -> None:
    """Assert that a database has the schema that ``init`` makes, by three who say so."""
    schema = schema_of(database)
    for made in (schema, fresh):
        for name, table in made.items():
            if name == "activemq_acks":  # PostgreSQL: either key is an ActiveMQ's
                assert isinstance(table, dict)
                assert table.pop("key")[:3] == ["container", "client_id", "sub_name"]
    assert schema == fresh
    assert differences(database) == []
    found = report(database)
    assert (found.fits, found.notes) == (True, ())
    assert found.revision == found.found == HEAD


def test_nothing_becomes_what_init_makes(database: Database) -> None:
    fresh = fresh_schema(database)

    migrate(database)

    check_head(database, fresh)
    assert database.rows("SELECT * FROM ACTIVEMQ_LOCK") == [(1, None, None)]
    assert migrate(database) == []


@every_generation
def test_every_generation_is_brought_to_head(database: Database, generation: Generation) -> None:
    fresh = fresh_schema(database)
    generation.create(database)
    generation.fill(database)
    before = rows_of(database)
    assert not report(database).fits

    migrate(database)

    assert rows_of(database) == before
    check_head(database, fresh)
    assert migrate(database) == []
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        assert store.topic("FX.TOPIC.WILD") is not None


def test_what_init_made_has_nothing_to_do(database: Database) -> None:
    jdbcstore.open(database.url).close()
    fresh = schema_of(database)

    assert migrate(database) == []

    check_head(database, fresh)


def test_what_an_earlier_jdbcstore_made_gets_its_revision_written_down(database: Database) -> None:
    jdbcstore.open(database.url).close()
    fresh = schema_of(database)
    database.execute("DROP TABLE JDBCSTORE_VERSION")
    assert report(database).fits

    assert migrate(database) == []

    check_head(database, fresh)


def test_what_was_made_before_xa_is_migrated_and_not_used_before(database: Database) -> None:
    fresh = fresh_schema(database)
    migrate(database, "jdbcstore_1")

    with pytest.raises(SchemaError, match=r"(?i)JDBCSTORE_ACKS has no column XID.*jdbcstore migrate"):
        jdbcstore.open(database.url)
    migrate(database)

    check_head(database, fresh)


def test_back_to_activemq_only_our_tables_go(database: Database) -> None:
    LATEST.create(database)
    LATEST.fill(database)
    before, rows = schema_of(database), rows_of(database)
    migrate(database)

    taken = migrate(database, "activemq")

    assert [title.split()[0] for title in taken] == ["drop", "drop"]
    assert (schema_of(database), rows_of(database)) == (before, rows)
    assert migrate(database, "activemq") == []
    assert migrate(database) != []


def test_one_revision_after_the_other(database: Database) -> None:
    fresh = fresh_schema(database)
    BEFORE_PRIORITY.create(database)
    BEFORE_PRIORITY.fill(database)
    before = rows_of(database)

    for revision in ("activemq_5_0", "activemq_5_4", "activemq_5_7", "activemq_5_15", "activemq_5_15_11"):
        migrate(database, revision)
        assert {name.upper() for name in schema_of(database)} == set(before)
        assert rows_of(database) == before
    assert migrate(database, "activemq") == []

    migrate(database)
    check_head(database, fresh)


@pytest.mark.backends("mariadb", "mysql")
def test_64_kib_become_4_gib(database: Database) -> None:
    fresh = fresh_schema(database)
    MISTAKEN.create(database)
    MISTAKEN.fill(database)
    before = rows_of(database)
    assert report(database).missing[0] == "make MSG of ACTIVEMQ_MSGS hold more than 64 KiB"

    migrate(database)

    assert rows_of(database) == before
    check_head(database, fresh)


def test_messages_of_before_priority_get_0_and_subscriptions_too(database: Database) -> None:
    BEFORE_PRIORITY.create(database)
    BEFORE_PRIORITY.fill(database)

    migrate(database)

    assert database.rows("SELECT DISTINCT PRIORITY FROM ACTIVEMQ_MSGS") == [(0,)]
    assert database.rows("SELECT DISTINCT PRIORITY FROM ACTIVEMQ_ACKS") == [(0,)]


def test_what_activemq_added_is_mended(database: Database) -> None:
    # ActiveMQ's own upgrade leaves NULL in messages, and its default of 5 in subscriptions.
    BEFORE_XID.create(database)
    BEFORE_XID.fill(database)
    database.execute("UPDATE ACTIVEMQ_MSGS SET PRIORITY = NULL WHERE ID < 20")
    [(subscriptions,)] = database.rows("SELECT COUNT(*) FROM ACTIVEMQ_ACKS WHERE PRIORITY = 0")
    database.execute("UPDATE ACTIVEMQ_ACKS SET PRIORITY = 5 WHERE PRIORITY = 0")
    columns = "(CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY)"
    for priority in range(10):
        database.execute(f"INSERT INTO ACTIVEMQ_ACKS {columns} VALUES ('topic://T', 'c', 's', {priority})")

    migrate(database)

    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS WHERE PRIORITY IS NULL") == [(0,)]
    zero = "SELECT COUNT(*) FROM ACTIVEMQ_ACKS WHERE PRIORITY = 0 AND CONTAINER <> 'topic://T'"
    assert database.rows(zero) == [(subscriptions,)]
    ten = "SELECT PRIORITY FROM ACTIVEMQ_ACKS WHERE CONTAINER = 'topic://T' ORDER BY 1"
    assert database.rows(ten) == [(priority,) for priority in range(10)]


@pytest.mark.backends("mariadb", "mysql")
def test_tables_without_transactions_get_them(database: Database) -> None:
    """MyISAM was the default engine when the oldest tables were made."""
    generation = BEFORE_PRIORITY
    for statement in generation.ddl(database):
        table = statement.startswith("CREATE TABLE")
        database.execute(f"{statement} ENGINE=MyISAM CHARACTER SET latin1" if table else statement)
    generation.fill(database)
    before = rows_of(database)

    migrate(database)

    assert rows_of(database) == before
    engines = database.rows(
        "SELECT DISTINCT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = :name", name=database.name
    )
    assert engines == [("InnoDB",)]
    assert report(database).fits


@pytest.mark.backends("mariadb", "mysql")
def test_a_store_refuses_tables_without_transactions(database: Database) -> None:
    with jdbcstore.open(database.url, cleanup_period=0) as store:
        store.queue("Q").add_message(jdbcstore.Message("kept"))
    database.execute("ALTER TABLE ACTIVEMQ_LOCK ENGINE=MyISAM")
    assert report(database).missing == ("give transactions to the table ACTIVEMQ_LOCK",)

    with pytest.raises(SchemaError, match=r"MyISAM.* run jdbcstore migrate") as refused:
        jdbcstore.open(database.url)
    assert refused.value.found == "MyISAM"

    migrate(database)
    with jdbcstore.open(database.url, cleanup_period=0) as store:
        assert [message.body for message in store.queue("Q").recover()] == ["kept"]


@pytest.mark.backends("mariadb", "mysql")
@pytest.mark.parametrize(
    "collation", [None, "latin1_swedish_ci"], ids=["the database's", "latin1_swedish_ci"]
)
def test_names_of_our_own_are_compared_exactly(database: Database, collation: str | None) -> None:
    """An earlier jdbcstore left them the database's collation, by which these subscriptions are one."""
    fresh = fresh_schema(database)
    with jdbcstore.open(database.url, cleanup_period=0) as store:
        store.topic("T").add_message(jdbcstore.Message("m"))
    if collation is None:
        [(collation,)] = database.rows("SELECT @@collation_database")
    charset = collation.partition("_")[0]
    database.execute(f"ALTER TABLE JDBCSTORE_ACKS CONVERT TO CHARACTER SET {charset} COLLATE {collation}")
    columns = "(CONTAINER, CLIENT_ID, SUB_NAME, ID)"
    insert = f"INSERT INTO JDBCSTORE_ACKS {columns} VALUES ('topic://T', :client, 's', 1)"
    database.execute(insert, client="client")
    with pytest.raises(IntegrityError):
        database.execute(insert, client="CLIENT")
    title = "compare the names in JDBCSTORE_ACKS exactly"
    assert report(database).missing == (title,)

    with migration_of(Target(database.url, StoreConfig()), only_look=True) as migration:
        assert [(planned.rows, planned.step.effect) for planned in migration.plan] == [(1, Effect.COPIES)]
    assert migrate(database) == [title]

    check_head(database, fresh)
    collations = database.rows(
        "SELECT DISTINCT COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = :name"
        " AND TABLE_NAME = 'JDBCSTORE_ACKS'"
        " AND COLUMN_NAME IN ('CONTAINER', 'CLIENT_ID', 'SUB_NAME', 'MSGID_PROD')",
        name=database.name,
    )
    assert collations == [("utf8mb4_bin",)]
    database.execute(insert, client="CLIENT")
    assert database.rows("SELECT CLIENT_ID FROM JDBCSTORE_ACKS") == [("CLIENT",), ("client",)]
    assert migrate(database) == []


def test_a_prefix_and_other_names(database: Database) -> None:
    prefixed = Generation("prefixed", xid=False, container_null=True, id_index=False, prefix="MY_")
    fresh = fresh_schema(database, table_prefix="MY_")
    prefixed.create(database)
    prefixed.fill(database)
    before = rows_of(database, "MY_")

    migrate(database, table_prefix="MY_")

    assert rows_of(database, "MY_") == before
    assert schema_of(database) == fresh
    assert differences(database, table_prefix="MY_") == []
    assert report(database, table_prefix="MY_").fits
    assert migrate(database, "activemq", table_prefix="MY_") != []
    assert rows_of(database, "MY_") == before


def test_many_rows_are_numbered_in_parts(database: Database) -> None:
    BEFORE_PRIORITY.create(database)
    rows = [f"({number}, 'queue-Q')" for number in range(12_345)]
    for start in range(0, len(rows), 500):
        values = ", ".join(rows[start : start + 500])
        database.execute(f"INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER) VALUES {values}")
    watched: dict[str, list[int]] = {}

    @contextmanager
    def watch(planned: Planned) -> Iterator[Advance]:
        yield watched.setdefault(f"{planned.step.title}: {planned.rows}", []).append

    with migration_of(Target(database.url, StoreConfig()), watch=watch) as migration:
        migration.run()

    [parts] = [parts for title, parts in watched.items() if title.endswith(" to 0: 12345")]
    assert parts == [10_000, 2_345]
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS WHERE PRIORITY = 0") == [(12_345,)]
