"""What goes into an archive, what it holds, and how it comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import jdbcstore
from jdbcstore import BodyType, Destination, Message, MessageId, ProducerId
from jdbcstore.errors import ConfigurationError, NotMaster, StoresDiffer
from jdbcstore.message import openwire
from jdbcstore.message.openwire.pieces import with_body_in_pieces
from jdbcstore.message.openwire.reference import refer
from jdbcstore.tools import archive
from jdbcstore.tools.archive import Archive, Window, writing
from jdbcstore.tools.archive.files import File, messages
from tests.cli.conftest import invoke  # noqa: F401
from tests.support.analytics.archives import BEFORE, DAY, OLD, QUEUES, archived, fill, place, stored
from tests.support.cli.command_line import Result
from tests.support.databases import Database, SqliteDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jdbcstore.analytics import Analytics

Invoke = Callable[..., Result]
MESSAGE_ID = MessageId(ProducerId("ID:odd-1", 1, 1), 1)

pytestmark = pytest.mark.timeout(900)  # the first one starts Spark's workers, and compiles


@pytest.mark.backends("sqlite")
def test_a_body_that_is_elsewhere_is_not_archived(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    """Nobody could make anything of it, in a journal or in pieces; whatever else does not decode is kept."""
    fill(database)
    whole = archive.write(spark, place(database), tmp_path / "whole", Window()).messages
    with jdbcstore.JdbcStore(database.url) as store:
        body = store.large_bodies.begin()
        store.large_bodies.add(body, 0, b"content")
        body.end(7)
        store.queue("LARGE").add_message(with_body_in_pieces(Message(), BodyType.BYTES, body))
    reference = refer(7, 3, 512, bytes(300), 8)
    [(first,), (second,)] = database.rows(
        "SELECT ID FROM ACTIVEMQ_MSGS WHERE XID IS NULL ORDER BY ID LIMIT 2"
    )
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :msg WHERE ID = :id", msg=reference, id=first)
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :msg WHERE ID = :id", msg=None, id=second)

    assert archive.write(spark, place(database), tmp_path / "archive", Window()).messages == whole - 1


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_there_and_back(
    spark: SparkSession,
    connect: Callable[[], Analytics],
    database: Database,
    tmp_path: Path,
    invoke: Invoke,  # noqa: F811
) -> None:
    """On each vendor: written once, decoded, removed, restored to another one, and all of it compared."""
    fill(database)
    everything = stored(database)
    old = {row for row in everything if b"in doubt" not in row[4] and b"new" not in row[4]}
    connect()
    view = spark.table("messages_decoded").where("body_text IS NOT NULL AND xid IS NULL")
    decoded = {
        row["id"]: (row["body_text"], row["properties"]["n"]["long"])
        for row in view.select("id", "body_text", "properties").collect()
    }
    folder = tmp_path / "archive"
    store = place(database)

    written = archive.write(spark, store, folder, Window(BEFORE))
    assert written.messages == len(old)
    assert archived(folder) == dict.fromkeys(old, 1)
    rows = archive.read(spark, folder).select("id", "container", "date", "body_text", "properties", "msg")
    found = {row["id"]: row for row in rows.collect()}
    assert {id_: (row["body_text"], row["properties"]["n"]["long"]) for id_, row in found.items()} == {
        id_: decoded[id_] for id_ in found
    }
    assert len({row["container"] for row in found.values()}) == len(QUEUES)
    assert len({row["date"] for row in found.values()}) == 3
    assert {(row["id"], bytes(row["msg"])) for row in found.values()} == {(row[0], row[4]) for row in old}
    files = [file for manifest in Archive(folder).manifests() for file in manifest.files]
    assert {file.day for file in files} == {row["date"] for row in found.values()}
    for file in files:
        names = [row.container for row in messages(folder / file.path)]
        assert (names, names[0], names[-1]) == (sorted(names), file.first_container, file.last_container)
        of_one = [row.container for row in messages(folder / file.path, names[0])]
        assert of_one == [name for name in names if name == names[0]]

    missing = archive.compare(spark, store, folder)
    assert (missing.missing, missing.extra, missing.different, missing.doubled) == (len(QUEUES), 0, 0, 0)
    assert archive.remove(store, folder, Window(BEFORE)).messages == len(old)
    assert stored(database) == everything - old

    (tmp_path / "other").mkdir()
    other = SqliteDatabase(tmp_path / "other")
    elsewhere = invoke("restore", str(folder), "--url", other.url, "--json")
    assert elsewhere.json == {"restored": len(old), "present": 0, "conflicts": 0}
    assert stored(other) == old
    with jdbcstore.open(other.url) as opened:
        assert opened.queue("NEW").add_message(Message("new")).sequence > max(row[0] for row in old)
    assert archive.restore(folder, store).messages == len(old)
    assert archive.restore(folder, store).present == len(old)
    assert stored(database) == everything


@pytest.mark.backends("sqlite")
def test_only_what_the_archive_proves_is_removed(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    store, folder, window = place(database), tmp_path / "archive", Window(BEFORE)
    fill(database, count=2)
    with jdbcstore.open(store) as opened:  # what a producer has set for a time stops nobody
        opened.queue("Q").add_messages([Message("x", timestamp_ms=time) for time in (2**63 - 1, -(2**63), 0)])
    archive.write(spark, store, folder, window)
    assert "queue://Q" not in {row[1] for row in archived(folder)}
    first, second, *_ = sorted(archived(folder))
    with jdbcstore.open(store) as opened:
        queue = opened.queue(Destination.parse(second[1]))
        queue.update_message(queue.get_message(second[0]).replace(redelivery_counter=3))
    # As an ActiveMQ does that starts its IDs anew.
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSGID_SEQ = 12345 WHERE ID = :id", id=first[0])

    removed = archive.remove(store, folder, window)

    assert (removed.messages, removed.changed) == (len(archived(folder)) - 2, 1)
    assert {first[0], second[0]} < {row[0] for row in stored(database)}
    restored = archive.restore(folder, store)
    assert (restored.present, restored.conflicts) == (1, 1)

    differences: list[archive.MessageDifference] = []
    comparison = archive.compare(spark, store, folder, differences.append)
    assert (comparison.different, comparison.extra) == (1, 1)
    assert {(one.difference, one.id) for one in differences} >= {
        ("different", second[0]),
        ("extra", first[0]),
    }

    [manifest] = Archive(folder).manifests()
    damaged = folder / manifest.files[0].path
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    (folder / "_manifest" / "000001.removed").unlink(missing_ok=True)
    before = stored(database)
    for act in (lambda: archive.remove(store, folder, window), lambda: archive.restore(folder, store)):
        with pytest.raises(StoresDiffer, match="has changed since it was written"):
            act()
    assert stored(database) == before


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_what_every_subscription_has_acknowledged(
    spark: SparkSession, connect: Callable[[], Analytics], database: Database, tmp_path: Path
) -> None:
    """Behind every mark, or ahead of one and behind the others; of a topic without subscriptions nothing."""
    store, folder, window = place(database), tmp_path / "archive", Window(acknowledged=True)
    with jdbcstore.open(store) as opened:
        opened.queue("Q").add_message(Message("queued"))
        opened.topic("NOBODY").add_message(Message("unheard"))
        done = set()
        for topic in (opened.topic("PLAIN"), opened.topic("RANKED", prioritized=True)):
            one, other = (topic.subscribe("client", name) for name in ("one", "other"))
            added = topic.add_messages([Message(f"{n}", priority=n % 3) for n in range(12)])
            one.acknowledge(*added[:6], added[8])
            other.acknowledge(*added[3:9])
            done |= {reference.sequence for reference in (*added[3:6], added[8])}
    connect()
    before = stored(database)

    archive.write(spark, store, folder, window)
    assert {row[0] for row in archived(folder)} == done
    with jdbcstore.open(store) as opened:
        opened.topic("PLAIN").subscribe("late", "late", retroactive=True)

    assert archive.remove(store, folder, window).messages == len(done) // 2
    assert {row for row in stored(database) if row[1] != "topic://RANKED"} == {
        row for row in before if row[1] != "topic://RANKED"
    }
    with jdbcstore.open(store) as opened:
        opened.topic("PLAIN").unsubscribe("late", "late")
    assert archive.remove(store, folder, window).messages == len(done) // 2
    assert {row[0] for row in before - stored(database)} == done


@pytest.mark.backends("sqlite")
def test_on_the_command_line(
    spark: SparkSession,
    database: Database,
    tmp_path: Path,
    invoke: Invoke,  # noqa: F811
) -> None:
    assert spark is not None  # the command's own
    fill(database, count=2)
    url, folder = ("--url", database.url), str(tmp_path / "archive")
    count = len([row for row in stored(database) if row[1] == "queue://con"])

    done = invoke("archive", folder, "con", "--older-than", "0s", "--delete", *url)
    assert f"archived {count} messages to {folder}" in done.out
    assert f"removed {count} messages from the store" in done.out

    audit = invoke("audit", database.url, folder, "--json")
    *differences, totals = audit.lines
    assert (audit.code, totals["same"], totals["extra"]) == (1, False, count)
    assert {one["destination"] for one in differences if one["difference"] == "extra"} == {"queue://con"}
    day = "2026-09-21"
    assert invoke("restore", folder, "--since", day, *url, "--json").json["restored"] < count
    assert invoke("restore", folder, "con", *url).code == 0

    assert invoke("restore", folder, "--json").json["restored"] == count
    assert (tmp_path / "activemq-data" / "jdbcstore.db").exists()

    assert invoke("archive", folder, *url).code == 2
    assert invoke("archive", folder, "--older-than", "3 weeks", *url).code == 2
    assert invoke("restore", str(tmp_path), *url).code == 2
    assert invoke("audit", database.url, str(tmp_path)).code == 2


@pytest.mark.backends("sqlite")
def test_an_age_is_one_whenever_it_is_used(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    """In a loop of writes with one window, each archives what has become old since."""
    window = Window.of(older_than=0.001)
    for number in (1, 2):
        with jdbcstore.open(place(database)) as opened:
            opened.queue("Q").add_message(Message("x", timestamp_ms=time.time_ns() // 1_000_000 - 10))
        assert archive.write(spark, place(database), tmp_path / "archive", window).messages == 1
        assert len(archived(tmp_path / "archive")) == number
    assert archive.remove(place(database), tmp_path / "archive", window).messages == 2


@pytest.mark.backends("sqlite")
def test_one_writes_at_a_time(database: Database, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="choose messages by age"):
        Window.of()
    with jdbcstore.open(place(database)) as opened:
        opened.queue("Q").add_message(Message("x", timestamp_ms=OLD))
    with Archive(tmp_path).writing(), pytest.raises(NotMaster, match="another process is writing"):
        archive.remove(place(database), tmp_path, Window(BEFORE))


@pytest.mark.backends("sqlite")
def test_files_that_cannot_be_seen_are_no_archive(
    spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster whose workers have a folder of their own under that name."""
    fill(database)
    folder = tmp_path / "archive"
    files = writing._files

    def elsewhere(spark: SparkSession, archive: Archive, batch: str) -> list[File]:
        for file in (folder / batch).rglob("*.parquet"):
            file.unlink()
        return files(spark, archive, batch)

    with monkeypatch.context() as patched:
        patched.setattr(writing, "_files", elsewhere)
        with pytest.raises(ConfigurationError, match=r"but only 0 of them are there.*Nothing was archived"):
            archive.write(spark, place(database), folder, Window())
    assert Archive(folder).manifests() == []
    assert archive.write(spark, place(database), folder, Window()).messages == len(stored(database)) - 1


@pytest.mark.backends("sqlite")
def test_a_url_that_spark_cannot_use(
    spark: SparkSession,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    invoke: Invoke,  # noqa: F811
) -> None:
    assert spark is not None  # the command's own
    monkeypatch.chdir(tmp_path)
    jdbcstore.open(database.url).close()
    for command, said in (
        (("archive", "nowhere://bucket/mq", "--older-than", "1d"), "Spark cannot use nowhere://bucket/mq"),
        (("restore", "nowhere://bucket/mq"), "Spark cannot use nowhere://bucket/mq"),
        (("sql", "SELECT 1", "-o", "s3a://bucket/mq.parquet"), "name a local or mounted folder"),
    ):
        result = invoke(*command, "--url", database.url)
        assert result.code == 3
        assert said in result.err
    result = invoke("audit", database.url, "nowhere://bucket/mq")
    assert (result.code, "Spark cannot use nowhere:" in result.err) == (3, True)
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "store.db"])
    with pytest.raises(ConfigurationError, match="is a URL"):
        Archive(Path("hdfs://name/mq"))


@pytest.mark.backends("sqlite")
def test_history_has_what_is_only_in_an_archive(
    spark: SparkSession,
    connect: Callable[[], Analytics],
    database: Database,
    tmp_path: Path,
    invoke: Invoke,  # noqa: F811
) -> None:
    """Each message once: as it is stored, or as its removal was recorded, or as it was archived."""
    folder, store = tmp_path / "archive", place(database)
    with jdbcstore.open(store) as opened:
        queue = opened.queue("ORDERS")
        added = queue.add_messages(
            [Message(f"{n}", timestamp_ms=OLD, redelivery_counter=n % 2) for n in range(6)]
        )
    archive.write(spark, store, folder, Window(BEFORE))
    with jdbcstore.open(store) as opened:
        opened.queue("ORDERS").acknowledge(*added[:2])
    with jdbcstore.open(database.url, cleanup_period=0.0, history_retention=1e9) as opened:
        opened.queue("ORDERS").acknowledge(added[2])
        new = opened.queue("ORDERS").add_message(Message("new"))
    ids = [reference.sequence for reference in (*added, new)]
    expected = dict(zip(ids, ("archived", "archived", "acknowledged", *["waiting"] * 4), strict=True))

    views = connect()
    views.include(archive.read(spark, folder))
    query = "SELECT id, state, redeliveries, produced, removed, dwell FROM history ORDER BY id"
    rows = spark.sql(query).collect()
    assert [(row.id, row.state) for row in rows] == [*expected.items()]
    assert [row.redeliveries for row in rows[:2]] == [0, 1]
    times = {(row.produced.timestamp() * 1000, row.removed, row.dwell) for row in rows[:2]}
    assert times == {(OLD, None, None)}
    with views.picture():
        assert spark.sql("SELECT count(*) FROM history").first() == (len(ids),)
    views.close()
    answer = invoke("sql", "SELECT state, count(*) AS n FROM history GROUP BY state ORDER BY state", "--json",
                    "--url", database.url, "--archive", str(folder))  # fmt: skip
    assert [(line["state"], line["n"]) for line in answer.lines] == [
        ("acknowledged", 1), ("archived", 2), ("waiting", 4)
    ]  # fmt: skip
    assert invoke("sql", "SELECT 1", "--engine", "duckdb", "--archive", str(folder)).code == 2


@pytest.mark.backends("sqlite")
def test_what_java_cannot_read_is_archived_once_too(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    """Messages in rare forms, damaged ones and none at all, beside ordinary ones; each where its time is."""
    fill(database, count=2)
    rows = database.rows("SELECT ID, MSG FROM ACTIVEMQ_MSGS WHERE XID IS NULL ORDER BY ID")
    (first, blob), (second, _), (third, _), *_ = rows
    odd = openwire.encode(Message("x", jms_type="\U0001f37a", timestamp_ms=OLD + DAY, message_id=MESSAGE_ID))
    for id_, msg in ((first, blob[:-9]), (second, odd), (third, None)):
        database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :msg WHERE ID = :id", msg=msg, id=id_)

    folder = tmp_path / "archive"
    written = archive.write(spark, place(database), folder, Window())
    assert written.messages == len(rows)
    read = archive.read(spark, folder).select("id", "jms_type", "type", "date", "msg")
    found = {row.id: row for row in read.collect()}
    assert len(found) == len(rows)
    assert (found[second].jms_type, found[second].date) == ("\U0001f37a", "2026-09-17")
    assert (found[first].type, found[first].date, bytes(found[first].msg)) == (None, "unknown", blob[:-9])
    assert (found[third].date, found[third].msg) == ("unknown", None)
    assert {path.name for path in folder.glob("batch=*/*")} >= {"date=unknown"}
    assert not [*folder.glob("batch=*/date=undecoded")]
    assert archive.compare(spark, place(database), folder).same

    # Of what has no time nothing is old.
    old = archive.write(spark, place(database), tmp_path / "old", Window(BEFORE))
    assert old.messages == len(rows) - len({first, third}) - (len(QUEUES) - 1)
