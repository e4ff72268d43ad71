"""The view ``history`` over the files of a journal: what the tables have never had is there, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jdbcstore import Message, XATransactionId
from jdbcstore.errors import ConfigurationError, CorruptJournal
from tests.support.cli.command_line import Result
from tests.support.tools.journals import LONG_AGO, file_of, flip, open_store, send
from tests.support.tools.replayed import ORDERS, consumed

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

Ask = Callable[[str], "list[Row]"]


def test_what_a_journal_kept_from_the_tables(spark: SparkSession, tmp_path: Path, ask: Ask) -> None:
    from jdbcstore import analytics
    from jdbcstore.tools import journal_views

    with open_store(tmp_path, journal_archive_directory=str(tmp_path / "kept")) as store:
        send(store, 60)
        consumed(store, ORDERS)  # none of these has ever been in the tables
        send(store, 40, first=60)
        branch = store.xa.start(XATransactionId(1, b"one", b""))
        branch.queue(ORDERS).add_message(Message("100", timestamp_ms=LONG_AGO + 100, properties={"n": 7}))
        assert branch.prepare()
        store.xa.commit(XATransactionId(1, b"one", b""))
        store.checkpoint()
        orders = store.queue(ORDERS)
        orders.acknowledge(*orders.recover(limit=20))
        send(store, 10, first=101)  # these are only in the journal

        frame = journal_views.read(spark, tmp_path / "journal", tmp_path / "kept")
        with analytics.connect(spark, f"sqlite:///{tmp_path}/mq.db") as views:
            views.include(frame)
            rows = ask("SELECT unix_millis(produced) AS at, state, destination FROM history ORDER BY at")
            [xa] = ask("SELECT count(*) FROM history WHERE reason IS NULL AND size > 0")

    stored = 41
    states = {LONG_AGO + number: "waiting" for number in range(60, 60 + stored)}
    states |= {LONG_AGO + number: "removed" for number in range(60)}
    states |= {LONG_AGO + number: "journaled" for number in range(101, 111)}
    assert [(row.at, row.state) for row in rows] == sorted(states.items())
    assert {row.destination for row in rows} == {"queue://ORDERS"}
    assert xa[0] == len(states)
    [body] = frame.where("properties['n'].long = 7").select("body_text", "state").collect()
    assert (body.body_text, body.state) == ("100", "journaled")


def test_a_damaged_file_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    from jdbcstore.tools import journal_views

    with open_store(tmp_path) as store:
        send(store, 100)
        store.checkpoint()
        flip(file_of(tmp_path, 2))
        with pytest.raises(CorruptJournal, match="damaged"):
            journal_views.read(spark, tmp_path / "journal")


def test_a_cluster_cannot_read_them(tmp_path: Path) -> None:
    from jdbcstore.tools import journal_views

    class Cluster:
        class sparkContext:  # noqa: N801 - Spark's name
            master = "spark://spark.example.com:7077"

    with pytest.raises(ConfigurationError, match="runs on a cluster"):
        journal_views.read(Cluster(), tmp_path)  # type: ignore[arg-type]


def test_on_the_command_line(tmp_path: Path, invoke: Callable[..., Result]) -> None:
    with open_store(tmp_path) as store:
        send(store, 5)
        consumed(store, ORDERS)
    question = "SELECT state, count(*) AS messages FROM history GROUP BY state"
    url = f"sqlite:///{tmp_path}/mq.db"
    done = invoke("sql", question, "--json", "--url", url, "--archive", str(tmp_path / "journal"))
    assert done.json == {"state": "removed", "messages": 5}
