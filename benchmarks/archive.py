"""``python -m benchmarks.archive``: archive, audit and restore, in microseconds of CPU a message, as a table.

CPU is that of all processes: Spark's, its workers', the database's. The raw counterpart of archiving and of
an audit is Spark's own reader of JDBC writing Parquet in two partitions; that of restoring and removing is
the same rows from memory, in pages of 1,000, through the store's bulk insert. The first rounds are not
counted: Java compiles in them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

import jdbcstore
from benchmarks import cpu, messages, readers
from jdbcstore import Configuration, StoreConfig, analytics
from jdbcstore.config import DataSourceConfig
from jdbcstore.tools import archive
from jdbcstore.tools.archive import Window
from jdbcstore.tools.transfer import CopyTarget, MessageRow
from tests.support.servers.postgresql import PostgresqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERYTHING = Window(2**62)
Costs = dict[str, list[tuple[float, float]]]


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--cold", default=3, show_default=True, help="Rounds that are not counted.")
@click.option("--messages", "count", default=200_000, show_default=True)
@click.option("--only", type=click.Choice(["postgresql", "sqlite"]), multiple=True)
def main(rounds: int, cold: int, count: int, only: tuple[str, ...]) -> None:
    spark = analytics.session(f"local[{readers.READERS}]", **{"spark.driver.memory": "3g"})
    for name, opened in (("postgresql", readers.postgresql), ("sqlite", readers.sqlite)):
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder, opened(Path(folder), count) as source:
            costs = _measured(spark, name, source.url, Path(folder), count, rounds, cold)
        told = f"{count:,} messages, {rounds} rounds after {cold}, load {os.getloadavg()[0]:.1f}"
        click.echo(f"\n### {name}\n\n{told}\n")
        click.echo("| | messages/s | CPU µs | raw | messages/s | CPU µs | ratio of CPU |")
        click.echo("|---|---|---|---|---|---|---|")
        for ours, raw in (
            ("archive", "JDBC to Parquet"),
            ("archive again", "JDBC to Parquet"),
            ("audit", "JDBC to Parquet"),
            ("restore", "bulk insert"),
            ("archive --delete", "bulk insert"),
        ):
            click.echo(_row(ours, raw, costs, count))
    spark.stop()


def _row(ours: str, raw: str, costs: Costs, count: int) -> str:
    rate, raw_rate = (count / median(cost[0] for cost in costs[name]) for name in (ours, raw))
    used, other = (median(cost[1] for cost in costs[name]) / count * 1e6 for name in (ours, raw))
    ratio = median(one[1] / peer[1] for one, peer in zip(costs[ours], costs[raw], strict=True))
    return f"| {ours} | {rate:,.0f} | {used:.1f} | {raw} | {raw_rate:,.0f} | {other:.1f} | {ratio:.2f} |"


def _measured(
    spark: SparkSession, name: str, url: str, folder: Path, count: int, rounds: int, cold: int
) -> Costs:
    costs: Costs = {}
    rows = [MessageRow(*row) for row in messages.rows(count)]
    for number in range(cold + rounds):
        if number == cold:
            costs.clear()
        place, store = folder / f"archive{number}", _configuration(url)

        def run(what: str, action: Callable[..., Any], *arguments: Any) -> None:
            used, start = cpu.seconds(), time.perf_counter()
            action(*arguments)
            wall = time.perf_counter() - start
            costs.setdefault(what, []).append((wall, cpu.seconds() - used))

        run("JDBC to Parquet", _plain, spark, name, url, folder / "plain", count)
        run("archive", archive.write, spark, store, place, _EVERYTHING)
        run("archive again", archive.write, spark, store, place, _EVERYTHING)
        run("audit", archive.compare, spark, store, place)
        for what in ("bulk insert", "restore"):
            with _Empty(name, folder) as other:
                target = _configuration(other)
                if what == "restore":
                    run(what, archive.restore, place, target)
                    run("archive --delete", archive.remove, target, place, _EVERYTHING)
                else:
                    run(what, _insert, target, rows)
        shutil.rmtree(place)
    return costs


def _configuration(url: str) -> Configuration:
    return Configuration(data_source=DataSourceConfig(url=url), store=StoreConfig(cleanup_period=0.0))


class _Empty:
    """The URL of a database of its own with empty tables, for the time of a block."""

    def __init__(self, name: str, folder: Path) -> None:
        self._server = PostgresqlServer() if name == "postgresql" else None
        self._file = folder / "other.db"

    def __enter__(self) -> str:
        server = self._server
        url = server.url.render_as_string(hide_password=False) if server else f"sqlite:///{self._file}"
        jdbcstore.open(url, cleanup_period=0.0).close()
        return url

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self._file.unlink(missing_ok=True)


def _plain(spark: SparkSession, name: str, url: str, folder: Path, count: int) -> None:
    readers.plain_jdbc(spark, name, url, count).write.mode("overwrite").parquet(str(folder))


def _insert(store: Configuration, rows: list[MessageRow]) -> None:
    pending = iter(rows)
    with CopyTarget(store) as target:
        while page := [*islice(pending, 1000)]:
            target.add(page)


if __name__ == "__main__":
    main()
