"""What an archive has is delivered anew, to a store of another vendor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import jdbcstore
from jdbcstore import Destination, Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.tools import archive
from jdbcstore.tools.archive import ArchiveHistory, Window
from jdbcstore.tools.replay import ReplaySelection
from tests.cli.conftest import invoke  # noqa: F401
from tests.support.analytics.archives import DAY, NOW, place
from tests.support.cli.command_line import Result
from tests.support.databases import Database, SqliteDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Invoke = Callable[..., Result]

pytestmark = pytest.mark.timeout(900)  # the first one starts Spark's workers, and compiles


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of two batches: two queues and a topic over three days, and one that does not decode."""
    folder = tmp_path_factory.mktemp("replayed")
    database = SqliteDatabase(folder)
    store = place(database)
    with jdbcstore.open(store) as opened:
        for number in range(30):
            # A later message may have an earlier time.
            message = Message(f"{number}", properties={"n": number}, timestamp_ms=NOW - number * 2 % 3 * DAY)
            opened.queue("ORDERS.EU" if number % 2 else "ORDERS.US").add_message(message)
        opened.topic("NEWS").add_message(Message("news", timestamp_ms=NOW))
        opened.queue("BAD").add_message(Message("bad", timestamp_ms=NOW))
    archive.write(spark, store, folder / "archive", Window(NOW - DAY // 2))
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :msg WHERE CONTAINER = 'queue://BAD'", msg=b"damaged")
    archive.write(spark, store, folder / "archive", Window(NOW + DAY))
    database.close()
    return folder / "archive"


def bodies(history: ArchiveHistory, behind: str | None = None) -> list[str]:
    return [str(getattr(one.message, "body", "bad")) for one in history.messages(behind)]


def test_an_archive_in_order(folder: Path) -> None:
    history = ArchiveHistory(folder)
    us, eu = ([str(number) for number in range(first, 30, 2)] for first in (0, 1))
    everything = list(history.messages(None))
    assert bodies(history) == [*eu, *us, "news"]
    assert [one.destination.name for one in everything] == [*["ORDERS.EU"] * 15, *["ORDERS.US"] * 15, "NEWS"]
    for place_ in (0, 14, 20, 30):
        assert bodies(history, everything[place_].position) == bodies(history)[place_ + 1 :]

    first = json.dumps([1, "queue://ORDERS.EU", 0, "", 0])
    assert set(bodies(history, first)) == {str(number) for number in range(30) if number % 3}


def test_what_of_it_is_meant(folder: Path) -> None:
    def history(*patterns: str, since: int | None = None, until: int | None = None) -> ArchiveHistory:
        wanted = tuple(DestinationPattern(Destination.parse(pattern)) for pattern in patterns)
        return ArchiveHistory(folder, ReplaySelection(wanted, since, until))

    assert len(bodies(history("ORDERS.*"))) == 30
    assert bodies(history("topic://>", "NOWHERE")) == ["news"]
    assert set(bodies(history("ORDERS.>", since=NOW))) == {str(n) for n in range(0, 30, 3)}
    assert set(bodies(history(since=NOW - DAY, until=NOW))) == {str(n) for n in range(2, 30, 3)}
    names = {history("A").name, history("A", since=1).name, history("A", until=1).name, history("B").name}
    assert len(names) == 4
    assert history("A", "B").name == history("B", "A").name


@pytest.mark.backends("sqlite", "postgresql")
def test_on_the_command_line(
    folder: Path,
    database: Database,
    invoke: Invoke,  # noqa: F811
) -> None:
    command = ("replay", str(folder), database.url, "--to-destination", "AGAIN")
    time = ("--from", "2026-09-20", "--to", "2026-09-21T14:00:00+01:00")
    assert NOW == 1_790_000_000_000  # 2026-09-21T14:13:20Z

    done = invoke(*command, "--destination", "ORDERS.>", *time, "--filter", "n < 10", "--json")
    assert done.json == {"replayed": 3, "before": 0, "corrupt": 0, "damaged": 0}
    with jdbcstore.open(database.url) as store:
        assert {message.body for message in store.queue("AGAIN").recover()} == {"2", "5", "8"}
    assert "replayed 31 messages to queue://AGAIN" in invoke(*command).out

    assert invoke(*command, "--filter", "n <").code == 2
    assert invoke(*command, "--from", "yesterday").code == 2
    assert invoke(*command, "--url", database.url).code == 2
    assert invoke("replay", str(folder.parent), database.url, "--to-destination", "AGAIN").code == 2
