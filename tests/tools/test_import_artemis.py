"""What Artemis has stored is a store of ours: files and tables that a real one has written, and more."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import jdbcstore
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.jobs import JOBS, Job
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector
from jdbcstore.tools import transfer
from jdbcstore.tools.importing.artemis.files import LOCKS
from jdbcstore.tools.importing.artemis.journal import JournalUnfinished
from jdbcstore.tools.importing.artemis.source import ArtemisSource
from jdbcstore.tools.importing.artemis.tables import ArtemisTables
from jdbcstore.tools.importing.kinds import open_source
from jdbcstore.tools.importing.rows import ReplayedRows
from jdbcstore.tools.importing.source import NothingToImport, SourceInUse
from jdbcstore.util.file_lock import FileLock
from tests.support.databases import Database
from tests.support.importing.artemis_recorded import Expected, comparable, unpack
from tests.support.interop.messages import said
from tests.support.interop.typed import describe
from tests.tools.conftest import NewDatabase, place

Json = dict[str, Any]
NOTES = [
    "the queue audit of SPLIT: it had the messages of the topic SPLIT, as SPLIT::audit",
    "the queue shared of NEWS: it had the messages of the topic NEWS, as NEWS::shared",
]

SERIALISED_STRING = b"\xac\xed\0\5t"


class Recorded:
    """A store of Artemis's that nobody changes, what should be left in it, and a copy of ours."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.folder = folder
        self.expected = Expected(unpack(kind, folder))

    def open(self) -> ReplayedRows:
        if self.kind == "tables":
            # Else it would get a log beside it, as every SQLite file that is opened here.
            file = self.folder / "artemis.db"
            return open_source(f"artemis:sqlite:///file:{file}?immutable=1&uri=true")
        return open_source(f"artemis:{self.folder / 'data'}")

    def copy_to(self, database: Database) -> transfer.Copied:
        with self.open() as source:
            copied = transfer.copy_rows(source, place(database))
            assert source.findings.damages == []
            assert source.findings.notes == NOTES
            assert copied.comparison.same
            return copied


@pytest.fixture(scope="module", params=["files", "tables"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp(request.param), request.param)


def seen(message: Message) -> Json:
    described = describe(message)
    facts = {name: described[name] for name in ("message_id", "timestamp", "expiration")}
    found = {**said(described), **facts}
    if isinstance(message.body, bytes) and message.body.startswith(SERIALISED_STRING):
        found["body"] = {"t": "string", "v": message.body[7 : 7 + message.body[6]].decode()}
    return found


def all_of(left: list[tuple[Json, Json]], name: str) -> list[Json]:
    return [comparable(*each, by_openwire=name == "queue://OPENWIRE") for each in left]


def test_every_message_is_as_it_was_sent(recorded: Recorded, new: NewDatabase) -> None:
    database, expected = new("sqlite"), recorded.expected

    assert recorded.copy_to(database).messages == 189
    assert recorded.copy_to(database).messages == 0

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for name, left in expected.queues.items():
            if name not in ("queue://DEAD", "queue://DOUBT", "queue://DOUBT2"):
                page = store.queue(name).recover(limit=200)
                assert page.corrupt == ()
                for message, wanted in zip(page, all_of(left, name), strict=True):
                    assert seen(message) == wanted, name
                assert all(message.persistent for message in page)


def test_durable_subscriptions_get_what_they_have_not(recorded: Recorded, new: NewDatabase) -> None:
    database, expected = new("sqlite"), recorded.expected
    recorded.copy_to(database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for (topic, client_id, name), left in expected.subscriptions.items():
            if topic != "topic://WILD.#":
                selector = expected.selectors[topic, client_id, name]
                subscription = store.topic(topic).subscription(client_id, name)
                assert subscription.info.selector == selector
                wanted = Selector(selector) if selector else None
                found = [seen(m) for m in subscription.recover(limit=99) if not wanted or wanted.matches(m)]
                mine = [each for each in left if not selector or Selector(selector).matches(sent(each))]
                assert found == all_of(mine[3:] if name == "doubt" else mine, ""), name
        for topic in ("topic://WILD.A", "topic://WILD.B"):
            [info] = store.topic(topic).subscriptions()
            assert str(info.subscribed_destination) == "topic://WILD.>"
            bodies = [m.body for m in store.topic(topic).subscription("w", "wild").recover()]
            assert bodies == [f"wild {topic[-1].lower()} {n}" for n in range(2)]
        assert len(store.topic("topic://WILD.>").subscriptions()) == 1
        for name, prefix, count in (("audit", "split", 2), ("shared", "news", 12)):
            bodies = [message.body for message in store.queue(name).recover()]
            assert bodies == [f"{prefix} {n}" for n in range(count)]


def sent(each: tuple[Json, Json]) -> Message:
    return Message("", properties={"n": each[0]["properties"]["n"]["v"]})


def test_stomps_headers_are_headers(recorded: Recorded, new: NewDatabase) -> None:
    database = new("sqlite")
    recorded.copy_to(database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        text, raw, headers = store.queue("STOMP").recover()
    assert (text.body, raw.body, headers.body) == ("zażółć \U0001f600", b"\0\1\xfe\xff", "headers")
    assert (text.properties, raw.properties) == ({}, {})
    assert headers.properties == {"own": "value", "content-type": "text/plain"}
    assert (headers.correlation_id, headers.jms_type, headers.priority) == ("corr", "a.type", 7)
    assert (str(headers.reply_to), headers.group_id) == ("queue://REPLY", "g")
    assert headers.expiration_ms == 4102444800000


def test_deliveries_and_dead_letters(recorded: Recorded, new: NewDatabase) -> None:
    database = new("sqlite")
    recorded.copy_to(database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        half = [message.redelivery_counter for message in store.queue("HALF").recover()]
        assert half == [1, 1, 1, *[0] * 13]
        [dead] = store.queue("DLQ").recover()
        assert list(store.queue("DEAD").recover()) == []
    assert dead.body == "dead"
    assert str(dead.original_destination) == "queue://DEAD"


def test_scheduled_messages_are_jobs(recorded: Recorded, new: NewDatabase) -> None:
    database = new("sqlite")
    recorded.copy_to(database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        jobs = {message.body: Job.of(message) for message in store.queue(JOBS).recover()}
    assert set(jobs) == {"core", "later", "amqp", "stomp"}
    assert {job.destination for job in jobs.values()} == {"queue://LATER"}
    assert jobs["stomp"].at_ms == 4102444800000
    assert jobs["core"].at_ms <= jobs["later"].at_ms <= jobs["amqp"].at_ms < jobs["core"].at_ms + 60_000


def test_what_is_in_doubt_is_decided_in_the_store(recorded: Recorded, new: NewDatabase) -> None:
    database = new("sqlite")
    recorded.copy_to(database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        branches = {each.xid.global_transaction_id: each.xid for each in store.xa.recover()}
        assert set(branches) == {b"queue", b"openwire", b"topic"}
        store.xa.commit(branches[b"queue"])
        bodies = [m.body for m in store.queue("DOUBT").recover()]
        assert bodies == ["doubt 2", "doubt 3", "doubt 4", "new 1", "new 2"]
        store.xa.rollback(branches[b"openwire"])
        assert list(store.queue("DOUBT2").recover()) == []
        store.xa.rollback(branches[b"topic"])
        news = store.topic("NEWS").subscription("d", "doubt").recover()
        assert [m.body for m in news] == [f"news {n}" for n in range(12)]


def test_what_is_in_doubt_of_a_topic_can_be_committed(recorded: Recorded, new: NewDatabase) -> None:
    database = new("sqlite")
    recorded.copy_to(database)

    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        store.xa.commit(XATransactionId(86, b"topic", b"\1"))
        news = store.topic("NEWS").subscription("d", "doubt").recover()
        assert [m.body for m in news] == [f"news {n}" for n in range(3, 12)]


def test_the_source_is_not_changed(recorded: Recorded, new: NewDatabase) -> None:
    files = [path for path in sorted(recorded.folder.rglob("*")) if path.is_file()]
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    recorded.copy_to(new("sqlite"))

    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in before} == before


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Artemis's files, to be changed."""
    unpack("files", tmp_path)
    return tmp_path / "data"


@pytest.mark.parametrize("name", LOCKS)
def test_files_of_a_running_broker_are_refused(data: Path, name: str) -> None:
    lock = FileLock(data / "journal" / name)
    try:
        with pytest.raises(SourceInUse, match="locked by"):
            open_source(str(data))
    finally:
        lock.release()


def test_a_broker_with_a_lease_is_refused(tmp_path: Path) -> None:
    unpack("tables", tmp_path)
    with closing(sqlite3.connect(tmp_path / "artemis.db")) as tables:
        tables.execute("CREATE TABLE nodes (id, holder_id, holder_expiration_time, node_id, state)")
        tables.execute("INSERT INTO nodes VALUES (1, 'broker one', ?, NULL, NULL)", (2**42,))
        tables.execute(
            "INSERT INTO nodes VALUES (3, NULL, NULL, '1d0d9e2e-ea79-11f1-b5ad-02fc00000001', NULL)"
        )
        tables.commit()
    url = f"sqlite:///{tmp_path / 'artemis.db'}"

    with pytest.raises(SourceInUse, match="broker one"):
        open_source(f"artemis:{url}")
    opened = partial(ArtemisTables, url, progress=lambda _: None, clock=lambda: 2**42)
    with ArtemisSource(opened) as source:
        [row] = next(source.messages())[:1]
    assert row.msgid_prod == "ID:1d0d9e2e-ea79-11f1-b5ad-02fc00000001:-1:0"


def test_a_compaction_that_was_interrupted_is_the_brokers(data: Path) -> None:
    (data / "journal" / "journal-rename-control.ctr").touch()

    with pytest.raises(JournalUnfinished, match="start it once"):
        open_source(str(data))


def test_what_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(NothingToImport, match="has no journal"):
        open_source(f"artemis:{tmp_path}")
    url = f"sqlite:///{tmp_path / 'other.db'}"
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE messages (id)").connection.close()
    with pytest.raises(NothingToImport, match="has to have the tables of one Artemis"):
        open_source(f"artemis:{url}")


def rows_of(source: ReplayedRows) -> dict[tuple[str, str | None, int | None], bytes]:
    return {row.name[1:4]: row.msg for page in source.messages() for row in page}


def test_a_large_message_without_its_file(data: Path) -> None:
    (data / "large-messages" / "644.msg").unlink()

    with open_source(str(data)) as source:
        rows_of(source)
        [damage] = source.findings.damages
    assert damage.file.endswith(".amq")
    assert "there is no 644.msg" in damage.reason


def test_a_queue_that_is_not_known(data: Path) -> None:
    path = data / "bindings" / "activemq-bindings-1.bindings"
    raw = path.read_bytes()
    at = raw.rindex("LARGE".encode("utf-16-le"))
    path.write_bytes(raw[: at - 30] + b"?" * 30 + raw[at:])

    with open_source(str(data)) as source:
        reasons = [damage.reason for damage in source.findings.damages]
    assert "no record begins here" in reasons
    assert any("7 messages are for the queue" in reason for reason in reasons)


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_named(data: Path, seed: int) -> None:
    """No message is there that was not, none is lost without a word, and nothing is raised.

    Artemis has no checksums: a byte that changes within a body and leaves its form cannot be noticed. So what
    is damaged here is overwritten, or cut off.
    """
    with open_source(str(data)) as source:
        whole = rows_of(source)
    random = Random(seed)
    path = random.choice(sorted(p for p in data.rglob("*") if p.suffix in (".amq", ".bindings", ".page")))
    raw = bytearray(path.read_bytes())
    used = len(raw.rstrip(b"J\0"))
    at = random.randrange(16, max(used, 17))
    size = random.choice((1, 4, 300, 5000))
    if random.random() < 0.3:
        del raw[at:]
    else:
        raw[at : at + size] = random.choice((random.randbytes(size), b"\xff" * size, bytes(size)))
    path.write_bytes(raw)

    with open_source(str(data)) as source:
        found = rows_of(source)
        damages = source.findings.damages
    if found.keys() != whole.keys() and used > 16:
        assert damages
    assert len([key for key in whole.keys() & found.keys() if whole[key] != found[key]]) <= 2 or damages


@pytest.mark.parametrize("damaged", ["content", "type of the record", "type of the content", "XID", "page"])
def test_damaged_rows_are_named(tmp_path: Path, damaged: str) -> None:
    unpack("tables", tmp_path)
    with closing(sqlite3.connect(tmp_path / "artemis.db")) as tables:
        [(message,)] = tables.execute("SELECT MIN(seq) FROM messages WHERE userrecordtype = 45")
        tables.execute(
            {
                "content": "UPDATE messages SET record = substr(record, 1, 40) WHERE seq = ?",
                "type of the record": "UPDATE messages SET recordtype = NULL WHERE seq = ?",
                "type of the content": "UPDATE messages SET userrecordtype = 99 WHERE seq = ?",
                "XID": "UPDATE messages SET txdata = NULL WHERE recordtype = 17 AND ? > 0",
                "page": "UPDATE pages700 SET data = substr(data, 1, 500) WHERE id = 5 AND ? > 0",
            }[damaged],
            (message,),
        )
        tables.commit()

    with open_source(f"artemis:sqlite:///{tmp_path / 'artemis.db'}") as source:
        assert 180 < len(rows_of(source)) < 189 or damaged == "XID"
        damages = source.findings.damages
    at = {damage.file: damage.offset for damage in damages}
    if damaged == "page":
        assert "pages700 000000004.page" in at
    elif damaged != "XID":
        assert at["messages"] == message
    assert damages


@pytest.mark.parametrize(
    "changed",
    [
        "UPDATE messages SET txid = 99999 WHERE recordtype = 14 AND seq = (SELECT MAX(seq) FROM messages"
        " WHERE recordtype = 14)",
        "UPDATE messages SET id = id + 1 WHERE recordtype = 14 AND seq = (SELECT MAX(seq) FROM messages"
        " WHERE recordtype = 14)",
        "DELETE FROM messages WHERE recordtype = 18 AND seq = (SELECT MAX(seq) FROM messages"
        " WHERE recordtype = 18)",
    ],
)
def test_changed_rows_are_noted(tmp_path: Path, changed: str) -> None:
    """Nothing is wrong with any row, and they do not fit together."""
    unpack("tables", tmp_path)
    with closing(sqlite3.connect(tmp_path / "artemis.db")) as tables:
        tables.execute(changed)
        tables.commit()

    with open_source(f"artemis:sqlite:///{tmp_path / 'artemis.db'}") as source:
        assert len(rows_of(source)) != 189
        assert any("without those that they are about" in text for text in source.findings.notes)


def test_tables_into_mysql(tmp_path: Path, new: NewDatabase) -> None:
    assert Recorded(tmp_path, "tables").copy_to(new("mysql")).messages == 189
