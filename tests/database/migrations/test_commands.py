"""``migrate`` and ``schema``, as they are typed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jdbcstore.cli.app import main
from jdbcstore.database.migrations import revisions
from jdbcstore.database.schema import HEAD
from tests.support.databases import SqliteDatabase
from tests.support.migrations.generations import BEFORE_PRIORITY, LATEST, MISTAKEN, Generation, rows_of
from tests.support.migrations.schemas import schema_of


class Invoke:
    """Runs ``jdbcstore`` in this process on one database."""

    def __init__(self, database: SqliteDatabase, capsys: pytest.CaptureFixture[str]) -> None:
        self._database = database
        self._capsys = capsys
        self.err = ""

    def __call__(self, *arguments: str, code: int = 0) -> str:
        assert main(["--url", self._database.url, *arguments]) == code
        out, self.err = self._capsys.readouterr()
        return out


@pytest.fixture
def local(tmp_path: Path) -> SqliteDatabase:
    return SqliteDatabase(tmp_path)


@pytest.fixture
def invoke(local: SqliteDatabase, capsys: pytest.CaptureFixture[str]) -> Invoke:
    return Invoke(local, capsys)


def test_the_head_that_the_store_writes_down_is_the_last_revision() -> None:
    assert revisions()[-1].id == HEAD
    assert len({revision.id for revision in revisions()}) == len(revisions())


def test_a_dry_run_and_sql_change_nothing(local: SqliteDatabase, invoke: Invoke) -> None:
    BEFORE_PRIORITY.create(local)
    BEFORE_PRIORITY.fill(local)
    before = schema_of(local)

    dry, sql = invoke("migrate", "--dry-run"), invoke("migrate", "--sql")

    assert schema_of(local) == before
    lines = [line.split() for line in dry.splitlines()]
    [[_, *words]] = [line for line in lines if "PIDX" in " ".join(line)]
    [(messages,)] = local.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")
    assert " ".join(words).endswith(f"PIDX {messages} reads the whole table; who writes waits")
    script = sqlite3.connect(local.path)
    script.executescript(sql)
    script.close()
    assert "matches" in invoke("schema", "check")


def test_the_statements_do_what_migrating_does(local: SqliteDatabase, tmp_path: Path, invoke: Invoke) -> None:
    for generation in (BEFORE_PRIORITY, LATEST):
        (tmp_path / generation.id).mkdir()
        by_hand = SqliteDatabase(tmp_path / generation.id)
        for database in (local, by_hand):
            generation.create(database)
            generation.fill(database)
        sql = invoke("migrate", "--sql")
        invoke("migrate")
        with closing(sqlite3.connect(by_hand.path)) as script:
            script.executescript(sql)

        assert schema_of(by_hand) == schema_of(local)
        assert rows_of(by_hand) == rows_of(local)
        version = "SELECT * FROM JDBCSTORE_VERSION"
        assert by_hand.rows(version) == local.rows(version) == [(HEAD,)]
        assert "nothing to do" in invoke("migrate", "--sql")
        for table in schema_of(local):
            local.execute(f"DROP TABLE {table}")


def test_current_and_history(local: SqliteDatabase, invoke: Invoke) -> None:
    BEFORE_PRIORITY.create(local)
    invoke("migrate", "--to", "activemq_5_7")
    plain = json.loads(invoke("schema", "current", "--json"))
    invoke("migrate", "--json")
    head = json.loads(invoke("schema", "current", "--json"))

    assert (plain["recorded"], plain["found"]) == (None, "activemq_5_7")
    assert (head["recorded"], head["found"]) == (HEAD, HEAD)
    listed = json.loads(invoke("schema", "history", "--json"))
    assert [one["revision"] for one in listed] == [revision.id for revision in revisions()]
    lines = invoke("schema", "history").splitlines()
    assert [line.split()[0] for line in lines] == [one["revision"] for one in listed]


def test_check_says_what_is_missing(local: SqliteDatabase, invoke: Invoke) -> None:
    LATEST.create(local)
    local.execute("DROP INDEX ACTIVEMQ_MSGS_PIDX")

    report = json.loads(invoke("schema", "check", "--json", code=1))

    assert report["missing"] == [
        "create the index ACTIVEMQ_MSGS_PIDX",
        "create the table JDBCSTORE_ACKS",
        "create the table JDBCSTORE_STATE",
        "put the row 'sequence' into JDBCSTORE_STATE",
        "add the column XID to JDBCSTORE_ACKS",
        "create the index JDBCSTORE_ACKS_XIDX",
    ]
    assert (report["fits"], report["recorded"], report["wrong"]) == (False, None, [])
    assert "missing    create the index ACTIVEMQ_MSGS_PIDX" in invoke("schema", "check", code=1)
    assert invoke("schema", "current").split() == ["recorded", "nothing", "found", "activemq_5_0"]


def test_types_of_somebodys_own_are_left_alone_and_told_of(
    local: SqliteDatabase, invoke: Invoke, tmp_path: Path
) -> None:
    LATEST.create(local)
    types = {"SELECTOR": "VARCHAR(1000)", "SUB_DEST": "VARCHAR(100)"}
    for column, type_ in types.items():
        local.execute(f"ALTER TABLE ACTIVEMQ_ACKS DROP COLUMN {column}")
        local.execute(f"ALTER TABLE ACTIVEMQ_ACKS ADD COLUMN {column} {type_}")
    local.execute("ALTER TABLE ACTIVEMQ_LOCK DROP COLUMN BROKER_NAME")
    local.execute("ALTER TABLE ACTIVEMQ_LOCK ADD COLUMN BROKER_NAME CHAR(250)")
    before = schema_of(local)["ACTIVEMQ_ACKS"]

    invoke("migrate")

    assert schema_of(local)["ACTIVEMQ_ACKS"] == before
    report = json.loads(invoke("schema", "check", "--json", code=1))
    assert report["missing"] == []
    assert report["notes"] == [
        "SELECTOR of ACTIVEMQ_ACKS is VARCHAR(1000), not VARCHAR(250)",
        "BROKER_NAME of ACTIVEMQ_LOCK is CHAR(250), not VARCHAR(250)",
    ]
    assert report["wrong"] == ["SUB_DEST of ACTIVEMQ_ACKS is VARCHAR(100), not VARCHAR(250)"]
    config = tmp_path / "jdbcstore.toml"
    config.write_text('string_id_data_type = "VARCHAR(100)"\n')
    report = json.loads(invoke("schema", "check", "--json", "--config", str(config)))
    assert report["fits"]
    assert "SUB_DEST" not in str(report["notes"])


def test_a_message_without_a_container_is_told_of(local: SqliteDatabase, invoke: Invoke) -> None:
    BEFORE_PRIORITY.create(local)
    local.execute("INSERT INTO ACTIVEMQ_MSGS (ID) VALUES (1)")

    invoke("migrate")

    assert "CONTAINER of ACTIVEMQ_MSGS is NULL in some rows" in invoke("schema", "check", code=1)
    local.execute("DELETE FROM ACTIVEMQ_MSGS")
    invoke("migrate")
    assert "matches" in invoke("schema", "check")


def test_tables_under_another_prefix_are_named_and_none_is_made(
    local: SqliteDatabase, invoke: Invoke, tmp_path: Path
) -> None:
    prefixed = Generation("prefixed", xid=False, id_index=False, prefix="BROKER1_")
    prefixed.create(local)
    prefixed.fill(local)
    before, rows = schema_of(local), rows_of(local, "BROKER1_")

    invoke("migrate", code=5)

    assert 'table_prefix = "BROKER1_"' in invoke.err
    assert schema_of(local) == before
    config = tmp_path / "jdbcstore.toml"
    config.write_text('table_prefix = "BROKER1_"\n')
    invoke("migrate", "--config", str(config))
    assert rows_of(local, "BROKER1_") == rows
    assert "matches" in invoke("schema", "check", "--config", str(config))
    assert {name.partition("_")[0] for name in schema_of(local)} == {"BROKER1"}


def test_renamed_tables(local: SqliteDatabase, invoke: Invoke, tmp_path: Path) -> None:
    MISTAKEN.create(local)
    local.execute("ALTER TABLE ACTIVEMQ_MSGS RENAME TO NEWS")

    local.execute("DROP TABLE ACTIVEMQ_ACKS")
    local.execute("DROP TABLE ACTIVEMQ_LOCK")
    invoke("migrate", code=5)

    assert 'message_table_name = "NEWS"' in invoke.err
    config = tmp_path / "jdbcstore.toml"
    config.write_text('message_table_name = "NEWS"\n')
    invoke("migrate", "--config", str(config))
    assert "matches" in invoke("schema", "check", "--config", str(config))


def test_going_back_says_what_is_forgotten(local: SqliteDatabase, invoke: Invoke) -> None:
    invoke("migrate")
    columns = "(CONTAINER, CLIENT_ID, SUB_NAME, ID)"
    local.execute(f"INSERT INTO JDBCSTORE_ACKS {columns} VALUES ('topic://T', 'c', 's', 2)")

    invoke("migrate", "--to", "activemq")

    assert "1 acknowledgement out of order will be lost" in invoke.err
    assert "delivered again" in invoke.err
    assert set(schema_of(local)) == {"ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "ACTIVEMQ_LOCK"}


def test_a_step_that_the_database_refuses(local: SqliteDatabase, invoke: Invoke) -> None:
    BEFORE_PRIORITY.create(local)
    local.execute("CREATE TABLE ACTIVEMQ_MSGS_PIDX (A INTEGER)")
    before = schema_of(local)

    invoke("migrate", code=5)

    assert "cannot create the index ACTIVEMQ_MSGS_PIDX: " in invoke.err
    assert "nothing was done" in invoke.err
    assert schema_of(local) == before
    local.execute("DROP TABLE ACTIVEMQ_MSGS_PIDX")
    invoke("migrate")
    assert "matches" in invoke("schema", "check")


def test_an_unknown_revision_and_a_newer_jdbcstore(local: SqliteDatabase, invoke: Invoke) -> None:
    invoke("migrate", "--to", "activemq_4", code=3)
    assert "activemq_5_0, activemq_5_4" in invoke.err

    invoke("migrate")
    local.execute("UPDATE JDBCSTORE_VERSION SET version_num = 'jdbcstore_99'")
    invoke("migrate", code=5)
    assert "of a newer jdbcstore" in invoke.err


def test_opening_older_tables_says_to_migrate(local: SqliteDatabase, invoke: Invoke) -> None:
    BEFORE_PRIORITY.create(local)

    invoke("status", code=5)

    assert "run jdbcstore migrate" in invoke.err


def test_no_file_is_made_to_look_into(local: SqliteDatabase, invoke: Invoke) -> None:
    invoke("schema", "check", code=5)

    assert not local.path.exists()


@pytest.mark.parametrize("columns", ["A INT", "ID INT, CONTAINER TEXT, MSGID_PROD TEXT, MSGID_SEQ INT"])
def test_somebody_elses_table_is_left_alone(local: SqliteDatabase, invoke: Invoke, columns: str) -> None:
    local.execute(f"CREATE TABLE ACTIVEMQ_MSGS ({columns})")
    before = schema_of(local)

    for command in (["schema", "check"], ["schema", "current"], ["migrate", "--dry-run"], ["migrate"]):
        invoke(*command, code=5)
        assert "the table ACTIVEMQ_MSGS has no column" in invoke.err
        assert "it is not ActiveMQ's; choose a table_prefix" in invoke.err

    assert schema_of(local) == before
