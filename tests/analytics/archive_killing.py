"""``python -m tests.analytics.archive_killing``: archiving is killed at any moment, while messages are added.

An archive is on a file system without locks and without an atomic rename, or with ``--system s3a`` on a real
S3 server. After ten kills each message must be in it once, by its manifests and by ``audit``.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

import jdbcstore
from jdbcstore import Message, analytics
from jdbcstore.tools import archive
from jdbcstore.tools.archive import Window
from tests.support.analytics import s3a, unatomic
from tests.support.analytics.archives import NOW, archived, place, stored
from tests.support.analytics.deaths import KILLED, Deaths
from tests.support.databases import Database, SqliteDatabase
from tests.support.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADDED = 60
"""Messages between two runs."""
_BATCH = 30
_KILLS = 10
"""Kills of one archive: each run looks at all that earlier ones have archived."""


class Killing:
    """A store, its archive, and processes that archive until they are killed."""

    def __init__(self, spark: SparkSession, database: Database, folder: Path, seed: int, url: str) -> None:
        self.outcomes: Counter[str] = Counter()
        self._spark = spark
        self._database = database
        self._url = url
        self._random = random.Random(seed)
        self._deaths = Deaths(spark, database.url, self._url, NOW, folder / "errors", _BATCH)
        for _ in range(2):  # in the first Java compiles
            self._add()
            assert self._deaths.run("to the end") == 0, self._deaths.errors.read_text()
        self._longest = self._deaths.lasted

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deaths.__exit__(kind, error, trace)

    def _add(self) -> None:
        with jdbcstore.open(self._database.url, cleanup_period=0.0) as store:
            for name in ("A", "B"):
                store.queue(name).add_messages(
                    [Message(f"{n}", timestamp_ms=NOW - 1 - n * 3_600_000) for n in range(_ADDED // 2)]
                )

    def kill(self) -> None:
        """Add messages, and kill the process while it archives them, unless it ends before."""
        self._add()
        code = self._deaths.run(f"killed after {self._random.random() * self._longest:.3f}")
        assert code in (0, KILLED), self._deaths.errors.read_text()
        self.outcomes["killed" if code == KILLED else "ended before"] += 1
        if code == 0:
            self._longest = self._deaths.lasted

    def finish(self) -> list[str]:
        """What is wrong after a last run."""
        store = place(self._database)
        archive.write(self._spark, store, self._url, Window(NOW), batch=_BATCH)
        found, expected = archived(self._url), stored(self._database)
        wrong = [f"{row[0]} is missing" for row in sorted(expected - {*found})]
        wrong += [f"{row[0]} is there {count} times" for row, count in sorted(found.items()) if count > 1]
        comparison = archive.compare(self._spark, store, self._url)
        return wrong if comparison.same else [*wrong, f"audit: {comparison}"]


@click.command(help=__doc__)
@click.option("--kills", default=50, show_default=True)
@click.option("--seed", type=int, help="That of an earlier run, to choose the same moments again.")
@click.option("--system", type=click.Choice(["unatomic", "s3a"]), default="unatomic", show_default=True)
def main(kills: int, seed: int | None, system: str) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    spark = analytics.session("local[2]", **{"spark.sql.shuffle.partitions": "2"})
    begin = time.monotonic()
    wrong: list[str] = []
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="jdbcstore-archive-") as name, ExitStack() as opened:
        url_of = _added(spark, system, Path(name), opened)
        for number in itertools.count():
            if (left := kills - outcomes["killed"]) <= 0:
                break
            folder = Path(name, f"{number}")
            folder.mkdir()
            outcomes += _killed(spark, folder, seed + number, min(left, _KILLS), url_of(folder), wrong)
            told = ", ".join(f"{count} {kind}" for kind, count in sorted(outcomes.items()))
            click.echo(f"seed {seed}: {told} in {time.monotonic() - begin:.0f} s, {number + 1} archives")
    for one in wrong[:30]:
        click.echo(f"WRONG: {one}")
    spark.stop()
    sys.exit(1 if wrong else 0)


def _added(spark: SparkSession, system: str, folder: Path, opened: ExitStack) -> Callable[[Path], str]:
    """Add a file system to Spark; returns what makes the URL of an archive from a folder's name."""
    if system == "unatomic":
        unatomic.add(spark, folder)
        return lambda path: unatomic.url_of(path / "archive")
    server = S3Server(folder)
    opened.callback(server.close)
    s3a.add(spark, server)
    return lambda path: s3a.url_of(server, path)


def _killed(
    spark: SparkSession, folder: Path, seed: int, kills: int, url: str, wrong: list[str]
) -> Counter[str]:
    """How the runs ended that wrote one archive."""
    database = SqliteDatabase(folder)
    with Killing(spark, database, folder, seed, url) as killing:
        while killing.outcomes["killed"] < kills:
            killing.kill()
        wrong += killing.finish()
    killing.outcomes["messages"] = len(stored(database))
    database.close()
    return killing.outcomes


if __name__ == "__main__":
    main()
