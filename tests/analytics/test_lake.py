"""Exports to Delta and Iceberg tables: each message once, whatever is killed, commits late or comes first."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as Log
from deltalake import write_deltalake

import jdbcstore
from jdbcstore import Configuration, Destination, Message
from jdbcstore.analytics import lake
from jdbcstore.analytics.lake import DeltaTable, Exported, IcebergTable, LakeExport, to_lake
from jdbcstore.config import DataSourceConfig
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.analytics.lakes import Lake
from tests.support.analytics.late import store
from tests.support.broker.programs import BrokerProcess, Client
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database
from tests.support.require import unavailable
from tests.support.servers import ServerMissing
from tests.support.servers.s3 import S3Server

COPIES = """
url = "{url}"

[[broker.composite_destinations]]
queue = "ORDERS"
forward_only = false

[[broker.composite_destinations.forward_to]]
queue = "COPIES"
"""
every_vendor = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


@pytest.fixture(params=["delta", "iceberg"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(request.param, tmp_path)


@pytest.fixture
def export(database: Database, target: Lake) -> Iterator[Callable[..., LakeExport]]:
    """Open an export as another process would."""
    configuration = Configuration(data_source=DataSourceConfig(url=database.url))
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(
            LakeExport(configuration, target.table(), **{"settle": 0.0, **options})
        )


@every_vendor
def test_each_message_once(database: Database, target: Lake) -> None:
    with jdbcstore.open(database.url) as opened:
        assert to_lake(database.url, target.table()) == Exported(0, 0)
        assert target.rows() == []
        sent = Message("two pints", properties={"table": 7}, group_id="g", timestamp_ms=86_400_000)
        first = opened.queue("ORDERS").add_message(sent)
        opened.topic("NEWS").subscribe("ann", "all")
        opened.topic("NEWS").add_message(Message(b"\x00\xff"))
        assert to_lake(database.url, target.table()) == Exported(2, 1)
        commits = target.commits()
        assert to_lake(database.url, target.table()) == Exported(0, 0)
        assert target.commits() == commits, "a run without news has written"
        opened.queue("ORDERS").acknowledge(first)
        opened.queue("ORDERS").add_message(Message("ale"))
        assert to_lake(database.url, target.table()) == Exported(1, 1)
    rows = target.rows("body_text", "body_bytes", "properties", "date", "destination", "destination_name")
    assert [row["body_text"] for row in rows] == ["two pints", None, "ale"]
    assert rows[1]["body_bytes"] == b"\x00\xff"
    [(name, value)] = rows[0]["properties"]
    assert (name, value["type"], value["long"]) == ("table", "int", 7)
    assert str(rows[0]["date"]) == "1970-01-02"
    assert [(row["destination"], row["destination_name"]) for row in rows[:2]] == [
        ("queue://ORDERS", "ORDERS"),
        ("topic://NEWS", "NEWS"),
    ]


@pytest.mark.backends("sqlite")
def test_a_destination_has_a_position_of_its_own(database: Database, target: Lake) -> None:
    with jdbcstore.open(database.url) as opened:
        for name in ("A", "B", "A"):
            opened.queue(name).add_message(Message(name))
    name = "queue://B"
    assert to_lake(database.url, target.table(name), destination=Destination.parse(name)).messages == 1
    assert [row["body_text"] for row in target.rows("body_text")] == ["B"]
    name = "queue://A"
    with pytest.raises(ConfigurationError, match="choose a table that does not exist yet"):
        to_lake(database.url, target.table(name), destination=Destination.parse(name))


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_a_message_that_commits_late_is_exported(
    database: Database, export: Callable[..., LakeExport], target: Lake
) -> None:
    jdbcstore.open(database.url, cleanup_period=0.0).close()
    engine = database.engine.execution_options(isolation_level="READ COMMITTED")
    with engine.connect() as late, engine.connect() as early:
        store(late, 2)
        for id_ in (1, 3):
            store(early, id_)
        early.commit()
        assert export().run().messages == 2
        commits = target.commits()
        assert export().run().messages == 0
        assert target.commits() == commits
        late.commit()
        assert export().run().messages == 1
        assert export().run().messages == 0
    assert target.ids() == [1, 2, 3]


@pytest.mark.backends("sqlite")
def test_a_large_export_is_committed_in_parts(
    database: Database, export: Callable[..., LakeExport], target: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export that ends between them is continued after the last one."""
    monkeypatch.setattr(lake, "_BYTES", 1)
    monkeypatch.setattr("jdbcstore.analytics.streaming.reading._PAGE_BYTES", 1000)
    with jdbcstore.open(database.url) as opened:
        queue = opened.queue("ORDERS")
        references = [queue.add_message(Message("x" * 700)) for _ in range(9)]
        queue.acknowledge(references[4])
    ended = export()
    append, calls = ended._table.append, Counter[str]()

    def end(*given: Any) -> bool:
        calls["append"] += 1
        if calls["append"] == 3:
            raise KeyboardInterrupt
        return append(*given)

    monkeypatch.setattr(ended._table, "append", end)
    with pytest.raises(KeyboardInterrupt):
        ended.run()
    wanted = [reference.sequence for place, reference in enumerate(references) if place != 4]
    assert 0 < len(target.ids()) < len(wanted)
    assert export().run().commits > 1
    assert target.ids() == wanted


@pytest.mark.backends("sqlite")
def test_two_exports_at_the_same_time(
    database: Database, export: Callable[..., LakeExport], target: Lake
) -> None:
    with jdbcstore.open(database.url) as opened:
        opened.queue("ORDERS").add_message(Message("one"))
        one, other = export(), export()
        assert one.run().messages == 1
        with pytest.raises(StoreError, match="another export has written"):
            other.run()
        again = export()
        opened.queue("ORDERS").add_message(Message("two"))
        target.change()
        assert again.run().messages == 1
    assert len(target.ids()) == 2


@pytest.mark.backends("sqlite")
def test_rows_of_another_program_are_left_alone(
    database: Database, export: Callable[..., LakeExport], target: Lake
) -> None:
    jdbcstore.open(database.url).close()
    export()
    rows = pa.Table.from_pylist([{"id": 1}], lake.SCHEMA)
    if target.kind == "delta":
        write_deltalake(target.place, rows, mode="append")
    else:
        target.iceberg.append(rows)
    with pytest.raises(ConfigurationError, match="choose a table that does not exist yet"):
        export()


@pytest.mark.backends("sqlite")
def test_a_table_that_cannot_be_opened(database: Database, tmp_path: Path) -> None:
    jdbcstore.open(database.url).close()
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}"}
    for table in (
        DeltaTable("nosuch://table"),
        DeltaTable(Path("/dev/null")),
        IcebergTable("mq.messages"),
        IcebergTable("mq.messages", options={"type": "nonsense"}),
        IcebergTable("mq.messages", options={"type": "sql", "uri": "nosuch://"}),
        IcebergTable("mq.messages", options=catalog),
        IcebergTable("messages", options=catalog | {"warehouse": tmp_path.as_uri()}),
    ):
        with pytest.raises(ConfigurationError, match=f"{table.place} cannot be opened: "):
            to_lake(database.url, table)


@pytest.mark.backends("sqlite")
def test_a_table_that_disappears(database: Database, export: Callable[..., LakeExport], target: Lake) -> None:
    with jdbcstore.open(database.url) as opened:
        opened.queue("ORDERS").add_message(Message("one"))
    opened_export = export()
    if target.kind == "delta":
        shutil.rmtree(target.place)
        Path(target.place).touch()
    else:
        target.iceberg.catalog.drop_table(target.place)
    with pytest.raises(StoreError, match=f"a commit to {target.place} failed"):
        opened_export.run()


@pytest.mark.backends("sqlite")
def test_damaged_messages_are_exported_with_the_reason(
    database: Database, export: Callable[..., LakeExport], target: Lake
) -> None:
    with jdbcstore.open(database.url) as opened:
        opened.queue("ORDERS").add_message(Message("good"))
        opened.queue("ORDERS").add_message(Message("bad"))
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = X'0102' WHERE ID = (SELECT MAX(ID) FROM ACTIVEMQ_MSGS)")
    assert export().run().messages == 2
    good, bad = target.rows("body_text", "error")
    assert (good["body_text"], good["error"]) == ("good", None)
    assert (bad["body_text"], bool(bad["error"])) == (None, True)


@pytest.mark.backends("sqlite")
def test_a_followed_store(database: Database, export: Callable[..., LakeExport], target: Lake) -> None:
    stop, done = threading.Event(), list[int]()
    with jdbcstore.open(database.url) as opened:
        follower = export()
        thread = threading.Thread(target=follower.follow, args=(stop, 0.01, done.append))
        thread.start()
        try:
            for number in range(3):
                opened.queue("ORDERS").add_message(Message(str(number)))
                wait_until(lambda wanted=number + 1: sum(done) == wanted, what="the export of a message")  # type: ignore[misc]
        finally:
            stop.set()
            thread.join()
    assert len(target.ids()) == 3


@pytest.mark.backends("sqlite")
def test_the_command(database: Database, target: Lake, tmp_path: Path) -> None:
    with jdbcstore.open(database.url) as opened:
        opened.queue("ORDERS").add_message(Message("one"))
    command = CommandLine(tmp_path, database.url)
    assert command("export", *target.arguments, "--dry-run", "--json").json == {"messages": 1}
    assert target.kind == "iceberg" or not Path(target.place).exists()
    assert command("export", *target.arguments, "--json").json == {"messages": 1, "commits": 1}
    assert command("export", *target.arguments).out == f"exported 0 messages to {target.place} in 0 commits\n"
    assert len(target.ids()) == 1
    bad = command.run("export", *target.arguments, "--option", "no value")
    assert (bad.code, "is not NAME=VALUE" in bad.err) == (2, True)


def _wait_for_commit(target: Lake) -> None:
    before = target.commits()
    wait_until(lambda: target.commits() != before, 60.0, what="a commit")


def _wait_for_more(sent: Counter[int], count: int) -> None:
    wanted = len(sent) + count
    wait_until(lambda: len(sent) > wanted, what="more messages")


@pytest.mark.slow
@pytest.mark.backends("sqlite")
def test_killed_exports(database: Database, target: Lake) -> None:
    """Beside a producer and a consumer, each of which takes some messages before they are exported."""
    stopped, sent = threading.Event(), Counter[int]()
    chance = random.Random(7)
    with jdbcstore.open(database.url) as opened:
        queue = opened.queue("ORDERS")

        def produce() -> None:
            while not stopped.is_set():
                reference = queue.add_message(Message("x" * 2000))
                sent[reference.sequence] += 1
                if chance.random() < 0.3:
                    queue.acknowledge(reference)

        assert to_lake(database.url, target.table()) == Exported(0, 0)
        producer = threading.Thread(target=produce)
        producer.start()
        try:
            command = [sys.executable, "-m", "jdbcstore", "--url", database.url, "export", *target.arguments]
            for _ in range(3):
                exporting = subprocess.Popen([*command, "--follow", "--interval=0.1"])
                _wait_for_commit(target)
                _wait_for_more(sent, chance.randrange(1, 300))
                exporting.kill()
                exporting.wait()
        finally:
            stopped.set()
            producer.join()
        to_lake(database.url, target.table())
        left = {message.sequence for message in queue.recover(limit=100_000)}
    exported = Counter(target.ids())
    assert {id_ for id_, times in exported.items() if times > 1} == set()
    assert left - exported.keys() == set()
    assert exported.keys() - sent.keys() == set()


@pytest.mark.slow
@pytest.mark.backends("sqlite")
def test_copies_are_acknowledged_when_they_are_exported(database: Database, tmp_path: Path) -> None:
    """What consumers have consumed is in the table once, although the consumer of the copies is killed."""
    configuration = tmp_path / "jdbcstore.toml"
    configuration.write_text(COPIES.format(url=database.url))
    lake = tmp_path / "copied"

    def consume(port: int) -> subprocess.Popen[bytes]:
        arguments = (database.url, str(lake), "COPIES", f"127.0.0.1:{port}")
        return subprocess.Popen([sys.executable, str(ROOT / "docs" / "deploy" / "copies.py"), *arguments])

    def exported() -> list[str]:
        if not Log.is_deltatable(str(lake)):
            return []
        # stomp.py sends bytes.
        return [
            body.decode()
            for body in Log(lake).to_pyarrow_table(columns=["body_bytes"])["body_bytes"].to_pylist()
        ]

    with BrokerProcess(tmp_path, "--config", str(configuration)) as broker:
        client = Client(broker.ready())
        client.connect()
        client.consume("/queue/ORDERS")
        for killed in range(3):
            consumer = consume(broker.port)
            for number in range(20):
                client.send("/queue/ORDERS", f"{killed}-{number}")
            wait_until(lambda: f"{killed}-0" in exported(), 60.0, what="an export")  # noqa: B023
            if killed < 2:
                consumer.kill()
                consumer.wait()
        wanted = [f"{killed}-{number}" for killed in range(3) for number in range(20)]
        wait_until(lambda: sorted(exported()) == sorted(wanted), 60.0, what="the export of all")
        wait_until(
            lambda: database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)],
            60.0,
            what="acknowledgements",
        )
        consumer.kill()
        consumer.wait()
    assert client.bodies == {*wanted}


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.backends("sqlite")
def test_tables_on_s3(database: Database, tmp_path: Path) -> None:
    try:
        server = S3Server(tmp_path)
    except ServerMissing as missing:
        unavailable("s3", str(missing))
    with closing(server), jdbcstore.open(database.url) as opened:
        opened.queue("ORDERS").add_message(Message("one"))
        targets = [Lake(kind, tmp_path, server) for kind in ("delta", "iceberg")]
        assert [to_lake(database.url, each.table()) for each in targets] == [Exported(1, 1)] * 2
        opened.queue("ORDERS").add_message(Message("two"))
        assert [to_lake(database.url, each.table()) for each in targets] == [Exported(1, 1)] * 2
        assert [to_lake(database.url, each.table()) for each in targets] == [Exported(0, 0)] * 2
        assert [len(each.ids()) for each in targets] == [2, 2]
