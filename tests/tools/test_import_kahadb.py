"""What ActiveMQ has stored in KahaDB is a store of ours: files that its brokers have written, and more."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore.errors import StoresDiffer
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.jobs import JOBS, Job
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector
from jdbcstore.tools import transfer
from jdbcstore.tools.importing.kahadb.source import KahaDbSource
from jdbcstore.tools.importing.kinds import open_source
from jdbcstore.tools.importing.source import NothingToImport, SourceInUse
from jdbcstore.util.file_lock import FileLock
from tests.support.cli.zygote import run_program
from tests.support.databases import Database
from tests.support.importing.damages import Judge, damage
from tests.support.importing.recorded import VERSIONS, unpack
from tests.support.interop.typed import describe
from tests.tools.conftest import NewDatabase, place, rows

Recorded = Callable[[str], tuple[Path, dict[str, Any]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The files of a version, which nobody changes, and what its broker found in them."""
    known: dict[str, tuple[Path, dict[str, Any]]] = {}

    def recorded(version: str) -> tuple[Path, dict[str, Any]]:
        if version not in known:
            folder = tmp_path_factory.mktemp(version)
            known[version] = folder, unpack(version, folder)
        return known[version]

    return recorded


def imported(folder: Path, database: Database) -> transfer.Copied:
    with open_source(f"kahadb:{folder}") as source:
        copied = transfer.copy_rows(source, place(database))
        assert source.findings.damages == []
        assert source.findings.notes == []
        assert copied.comparison.same
        return copied


def seen(message: Message) -> dict[str, Any]:
    """A message as its broker saw it, but that it counts a redelivery when it has started again."""
    return {k: v for k, v in describe(message).items() if k not in ("redelivered", "redelivery_counter")}


def comparable(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in message.items() if k not in ("redelivered", "redelivery_counter")}
        for message in messages
    ]


@pytest.mark.parametrize(
    ("version", "vendor"),
    [
        *((version, "sqlite") for version in VERSIONS),
        ("6.3.1", "postgresql"),
        ("5.17.2", "mariadb"),
        ("5.19.1", "mysql"),
    ],
)
def test_everything_is_there(recorded: Recorded, new: NewDatabase, version: str, vendor: str) -> None:
    folder, expected = recorded(version)
    database = new(vendor)

    imported(folder / "data", database)

    one = expected["one"]
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for name, messages in one["queues"].items():
            page = store.queue(name).recover(limit=100)
            assert page.corrupt == ()
            assert [seen(message) for message in page] == comparable(messages), name
        for name in ("queue://GONE", "queue://FILL", "queue://LATER"):
            assert list(store.queue(name).recover()) == []
        assert store.topic("topic://OVER").subscriptions() == []
        for found in one["subscriptions"]:
            topic = store.topic(found["topic"])
            subscription = topic.subscription(found["client_id"], found["name"])
            assert subscription.info.selector == found["selector"]
            wanted = Selector(found["selector"]) if found["selector"] else None
            left = [m for m in subscription.recover(limit=100) if wanted is None or wanted.matches(m)]
            assert [seen(message) for message in left] == comparable(found["messages"]), found["name"]


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_are_those_of_the_logs(recorded: Recorded, version: str) -> None:
    folder, _ = recorded(version)
    logs = [path.read_bytes() for path in (folder / "data" / "kahadb").glob("db-*.log")]
    with open_source(str(folder / "data" / "kahadb")) as source:
        messages = [row for page in source.messages() for row in page]
    assert len(messages) == 109
    for row in messages:
        assert any(row.msg in log for log in logs)


def test_what_is_in_doubt_is_decided_in_the_store(recorded: Recorded, new: NewDatabase) -> None:
    folder, expected = recorded("5.19.1")
    database = new("sqlite")
    imported(folder / "data", database)
    in_doubt = expected["one"]["in_doubt"]

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        news = store.topic("NEWS").subscription("c", "doubt")
        branches = {each.xid.global_transaction_id: each for each in store.xa.recover()}
        assert set(branches) == {b"queue", b"topic"}
        store.xa.commit(branches[b"queue"].xid)
        left = [str(message.message_id) for message in store.queue("DOUBT").recover()]
        assert left[-2:] == in_doubt["queue"]["sent"]
        assert len(left) == 5
        assert not set(in_doubt["queue"]["received"]) & set(left)
        before = len(news.recover())
        store.xa.rollback(branches[b"topic"].xid)
        again = [str(message.message_id) for message in news.recover()]
        assert again[:3] == in_doubt["topic"]["received"]
        assert len(again) == before + 3 == 12


def test_what_is_in_doubt_of_a_topic_can_be_committed(recorded: Recorded, new: NewDatabase) -> None:
    folder, _ = recorded("6.3.1")
    database = new("sqlite")
    imported(folder / "data", database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        store.xa.commit(XATransactionId(86, b"topic", b"\1"))
        left = [message.body for message in store.topic("NEWS").subscription("c", "doubt").recover()]
    assert left == [f"news {n}" for n in range(3, 12)]
    [(mark,)] = database.rows("SELECT LAST_ACKED_ID FROM ACTIVEMQ_ACKS WHERE SUB_NAME = 'doubt'")
    assert mark > 0
    assert database.rows("SELECT * FROM JDBCSTORE_ACKS WHERE SUB_NAME = 'doubt'") == []


@pytest.mark.parametrize("version", VERSIONS)
def test_scheduled_messages_are_jobs(recorded: Recorded, new: NewDatabase, version: str) -> None:
    folder, _ = recorded(version)
    database = new("sqlite")
    imported(folder / "data", database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        jobs = {message.body: Job.of(message) for message in store.queue(JOBS).recover()}
    assert {name: (job.repeats, job.destination) for name, job in jobs.items()} == {
        "later": (3, "queue://LATER"),
        "sent once": (6, "queue://LATER"),
        "cron": (0, "queue://LATER"),
    }
    assert jobs["later"].at_ms - jobs["sent once"].at_ms > 9_000_000_000
    assert not any(job.follows_cron for job in jobs.values())


@pytest.mark.parametrize("version", ["5.19.1", "6.3.1"])
def test_several_stores_of_a_tree(recorded: Recorded, new: NewDatabase, version: str) -> None:
    folder, expected = recorded(version)
    database = new("sqlite")

    imported(folder / "mKahaDB", database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for name, messages in expected["many"]["queues"].items():
            assert [seen(message) for message in store.queue(name).recover()] == comparable(messages)
        subscription = store.topic("M.T").subscription("m", "sub")
        assert [message.body for message in subscription.recover()] == ["topic 2", "topic 3", "topic 4"]
        [branch] = store.xa.recover()
        store.xa.commit(branch.xid)
        assert [message.body for message in store.queue("M.2").recover()][-1] == "doubt"


def test_a_whole_tree_is_imported_at_once(recorded: Recorded, new: NewDatabase) -> None:
    folder, _ = recorded("6.3.1")
    database = new("sqlite")

    assert imported(folder, database).messages == 125
    assert imported(folder, database).messages == 0


def test_rows_are_never_overwritten(recorded: Recorded, new: NewDatabase) -> None:
    folder, _ = recorded("6.3.1")
    database = new("sqlite")
    with jdbcstore.open(database.url) as store:
        store.queue("Q").add_message(Message("here before"))
    before = rows(database)

    with open_source(str(folder)) as source, pytest.raises(StoresDiffer):
        transfer.copy_rows(source, place(database))

    assert rows(database) == before


def test_the_source_is_not_changed(recorded: Recorded, new: NewDatabase) -> None:
    folder, _ = recorded("5.17.2")
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files(folder)}

    imported(folder, new("sqlite"))

    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files(folder)} == before


def files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


@pytest.mark.parametrize("locked", ["lock", "queue#3a#2f#2fM.1"])
def test_files_of_a_running_broker_are_refused(recorded: Recorded, locked: str, tmp_path: Path) -> None:
    folder = shutil.copytree(recorded("6.3.1")[0] / "mKahaDB", tmp_path / "many")
    lock = FileLock(folder / "lock")
    try:
        with pytest.raises(SourceInUse, match="locked by"):
            open_source(str(folder if locked == "lock" else folder / locked))
    finally:
        lock.release()
    with KahaDbSource(folder):
        pass


KILLED = """
import os, signal, sys
from pathlib import Path
from jdbcstore import Configuration
from jdbcstore.config import DataSourceConfig
from jdbcstore.database.connection import Connection
from jdbcstore.tools import pages, transfer
from jdbcstore.tools.importing.kinds import open_source

pages.PAGE = 20
where, folder, target = sys.argv[1:]
counted = [0]

def dying(function, at):
    def call(*args, **more):
        counted[0] += 1
        result = function(*args, **more)
        if counted[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

match where:
    case "in a page": Connection.add_messages = dying(Connection.add_messages, 2)
    case "behind a page": transfer.CopyTarget.add = dying(transfer.CopyTarget.add, 3)
    case "among subscriptions": Connection.execute = dying(Connection.execute, 6)
with open_source(folder) as source:
    transfer.copy_rows(source, Configuration(data_source=DataSourceConfig(url=target)))
"""


@pytest.mark.parametrize("where", ["in a page", "behind a page", "among subscriptions"])
def test_a_killed_import_is_taken_up(recorded: Recorded, new: NewDatabase, where: str) -> None:
    folder, _ = recorded("6.3.1")
    whole, database = new("sqlite"), new("sqlite")
    imported(folder / "data", whole)

    child = run_program(KILLED, where, str(folder / "data"), database.url)

    assert child.returncode == -signal.SIGKILL, child.stderr
    half = rows(database)
    assert len(half["ACTIVEMQ_MSGS"]) <= len(rows(whole)["ACTIVEMQ_MSGS"])
    assert half["ACTIVEMQ_ACKS"] == half["JDBCSTORE_ACKS"] == []
    imported(folder / "data", database)
    assert rows(database) == rows(whole)


@pytest.mark.parametrize("of", ["data", "mKahaDB"])
def test_damages(recorded: Recorded, of: str, tmp_path: Path) -> None:
    """``python -m tests.long.importing damages`` has more of them."""
    judge = Judge(recorded("6.3.1")[0] / of)
    outcomes = set()
    for seed in range(20):
        copy = Path(shutil.copytree(judge.folder, tmp_path / str(seed)))
        outcomes.add(judge.judge(copy, damage(seed, copy)[1]))
    assert outcomes >= {"same", "named"}


def test_a_folder_without_logs(tmp_path: Path) -> None:
    with pytest.raises(NothingToImport, match="has no data logs"):
        open_source(f"kahadb:{tmp_path}")
    with pytest.raises(NothingToImport, match="kahadb:PLACE"):
        open_source(str(tmp_path))
