"""``python -m benchmarks.filter``: one filter on a property, in every way that there is, as Markdown tables.

The messages are on PostgreSQL. CPU is that of all processes, the database's too, in microseconds a message.
In each round every way follows the others; what is printed is the median over the rounds, and of the ratios
to COPY in the same round. The first rounds are not counted: Java compiles in them.

A round has to be shorter than a minute: then Spark ends idle workers, and their CPU is subtracted.

With ``--memory`` it prints the peaks of resident memory in each way of ours and while the table is archived,
and the same again when the table has been doubled so many times; without rounds, nothing else. A table of ten
million messages takes 15 GB of disk, its archive another.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click
import psycopg

from benchmarks import cpu, readers
from jdbcstore import Configuration, StoreConfig, analytics, read_arrow
from jdbcstore.analytics import duck
from jdbcstore.config import DataSourceConfig
from jdbcstore.message.openwire import decode
from jdbcstore.tools import archive
from jdbcstore.tools.archive import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERY = "SELECT count(*) AS n FROM messages_decoded WHERE properties['table'].long = 7"
_COPY, _ADBC = "COPY BINARY, 1 connection", f"ADBC, {readers.READERS} connections"
_COLD = 2
_LEANER = (
    "SELECT format('DROP INDEX %s', indexrelid::regclass) FROM pg_index"
    " WHERE indrelid = 'activemq_msgs'::regclass AND NOT indisprimary"
)
"""The statements that drop the indexes that no reader uses, which would take most of the time."""
_DOUBLED = (
    "INSERT INTO activemq_msgs SELECT id + (SELECT max(id) FROM activemq_msgs), container, msgid_prod,"
    " msgid_seq, expiration, msg, priority, xid FROM activemq_msgs"
)
_ROW_BYTES = 1_600
"""Disk for one message, in the table and in an archive, at most."""


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--messages", "count", default=1_000_000, show_default=True)
@click.option("--memory", default=0, help="How often the table is doubled for the peaks of memory.")
def main(rounds: int, count: int, memory: int) -> None:
    spark = analytics.session(f"local[{readers.READERS}]", **{"spark.driver.memory": "2g"})
    with tempfile.TemporaryDirectory() as folder, readers.postgresql(Path(folder), count) as source:
        if rounds:
            with duck.connect(source.url) as views, analytics.connect(spark, source.url) as mq:
                ways = _ways(spark, views, source, count)
                costs = _measured(mq, ways, rounds)
            _print_costs(costs, count, rounds)
        if memory:
            _print_memory(spark, source.url, Path(folder), count, memory)
    spark.stop()


def _ways(
    spark: SparkSession, views: duck.DuckViews, source: readers.Source, count: int
) -> dict[str, Callable[[], int | None]]:
    url = source.url
    found = {
        "Spark, the views": lambda: int(spark.sql(_QUERY).first()[0]),  # type: ignore[index]
        "Spark, its own JDBC reader and a UDF": lambda: _plain(spark, url, count),
        "`read_arrow`": lambda: sum(len(batch) for batch in read_arrow(url, ["id"], "table = 7")),
        "DuckDB": lambda: _count(views),
    }
    raw = {name: scan for name, scan in source.scans.items() if name in (_COPY, _ADBC)}
    return {**{name: lambda scan=scan: _nothing(scan) for name, scan in raw.items()}, **found}  # type: ignore[misc]


def _nothing(scan: Callable[[], Any]) -> None:
    scan()


def _count(views: duck.DuckViews) -> int:
    reader = views.query(_QUERY)
    assert reader is not None
    return int(reader.read_all()["n"][0].as_py())


def _plain(spark: SparkSession, url: str, count: int) -> int:
    """Count messages with a function that decodes one message, as one would without jdbcstore's views."""
    from pyspark.sql import functions as F  # noqa: N812

    table = F.udf(lambda message: decode(bytes(message)).properties.get("table"), "int")
    return readers.plain_jdbc(spark, "postgresql", url, count).where(table("msg") == 7).count()


def _measured(
    mq: analytics.Analytics, ways: dict[str, Callable[[], int | None]], rounds: int
) -> dict[str, list[tuple[float, float]]]:
    costs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    answers = set()
    with mq.picture(partitions=readers.READERS):
        for number in range(_COLD + rounds):
            for what, run in ways.items():
                used, start = cpu.seconds(), time.perf_counter()
                answer = run()
                cost = time.perf_counter() - start, cpu.seconds() - used
                answers |= {answer} - {None}
                if number >= _COLD:
                    costs[what].append(cost)
    assert len(answers) == 1, answers
    return costs


def _print_costs(costs: dict[str, list[tuple[float, float]]], count: int, rounds: int) -> None:
    click.echo(f"\n{count:,} messages, {rounds} rounds, load {os.getloadavg()[0]:.1f} at the end\n")
    click.echo("| | s | messages/s | CPU, µs a message | ratio of CPU to COPY |")
    click.echo("|---|---|---|---|---|")
    for what, each in costs.items():
        wall, used = median(one[0] for one in each), median(one[1] for one in each)
        ratio = median(one[1] / peer[1] for one, peer in zip(each, costs[_COPY], strict=True))
        click.echo(f"| {what} | {wall:.2f} | {count / wall:,.0f} | {used / count * 1e6:.1f} | {ratio:.2f} |")


def _print_memory(spark: SparkSession, url: str, folder: Path, count: int, doublings: int) -> None:
    """Print the peaks of each way with the table as it is, and doubled several times."""
    needed, free = (count << doublings) * _ROW_BYTES, shutil.disk_usage(folder).free
    if free < needed:
        raise click.ClickException(f"{needed >> 20} MiB of disk are needed, {free >> 20} are free")
    click.echo("\n| messages | | s | driver, MiB | JVM, MiB | workers, MiB |\n|---|---|---|---|---|---|")
    for step in range(2):
        if step:
            with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
                for [statement] in connection.execute(_LEANER).fetchall():
                    connection.execute(statement)
                connection.execute("ALTER TABLE activemq_msgs SET UNLOGGED")  # without a log of 15 GB
                for _ in range(doublings):
                    connection.execute(_DOUBLED)
                connection.execute("VACUUM ANALYZE activemq_msgs")
        for what, run in _remembered(spark, url, folder).items():
            _forget_peaks(spark)
            start = time.perf_counter()
            run()
            wall = time.perf_counter() - start
            driver, java, workers = _peaks(spark)
            click.echo(
                f"| {count << (doublings * step):,} | {what} | {wall:.1f} | {driver} | {java} | {workers} |"
            )


def _remembered(spark: SparkSession, url: str, folder: Path) -> dict[str, Callable[[], object]]:
    def of_views() -> None:
        with analytics.connect(spark, url) as mq, mq.picture(partitions=readers.READERS):
            spark.sql(_QUERY).collect()

    def archived() -> None:
        place = folder / "archive"
        store = Configuration(data_source=DataSourceConfig(url=url), store=StoreConfig(cleanup_period=0.0))
        archive.write(spark, store, place, Window(2**62))
        shutil.rmtree(place)

    def of_duck() -> None:
        with duck.connect(url) as views:
            _count(views)

    return {
        "Spark, the views": of_views,
        "archive": archived,
        "`read_arrow`": lambda: sum(len(batch) for batch in read_arrow(url, ["id"], "table = 7")),
        "DuckDB": of_duck,
    }


def _processes(spark: SparkSession) -> tuple[int, int, list[int]]:
    """Return this process, Java, and the workers."""
    java: Any = spark._jvm
    pid = int(java.java.lang.ProcessHandle.current().pid())
    return os.getpid(), pid, [*_below(pid)]


def _forget_peaks(spark: SparkSession) -> None:
    """Reset each peak to the currently resident memory."""
    driver, java, workers = _processes(spark)
    for pid in (driver, java, *workers):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def _peaks(spark: SparkSession) -> tuple[int, int, int]:
    """Return the peaks of resident memory: of this process, of Java, and of all workers together."""
    driver, java, workers = _processes(spark)
    return _peak(driver), _peak(java), sum(map(_peak, workers))


def _below(root: int) -> Iterator[int]:
    for children in Path(f"/proc/{root}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from _below(child)


def _peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) // 1024


if __name__ == "__main__":
    main()
