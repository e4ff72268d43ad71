"""``python -m benchmarks.filter``: one filter on a property, in every way that there is, as Markdown tables.

The messages are on PostgreSQL. CPU is that of all processes, the database's too, in microseconds a message.
In each round every way follows the others; what is printed is the median over the rounds, and of the ratios
to COPY in the same round. The first rounds are not counted: Java compiles in them.

A round has to be shorter than a minute: then Spark ends idle workers, and their CPU is subtracted.

With ``--memory`` it also prints the peaks of resident memory after all columns of all messages were read,
and the same again when the table has been doubled so many times.
"""

from __future__ import annotations

import os
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
from jdbcstore import analytics, read_arrow
from jdbcstore.analytics import duck
from jdbcstore.analytics.vendors import VENDORS
from jdbcstore.message.openwire import decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERY = "SELECT count(*) AS n FROM messages_decoded WHERE properties['table'].long = 7"
_ALL = "SELECT * FROM messages_decoded"
_COPY, _ADBC = "COPY BINARY, 1 connection", f"ADBC, {readers.READERS} connections"
_COLD = 2
_DOUBLED = "INSERT INTO activemq_msgs SELECT id + (SELECT max(id) FROM activemq_msgs), container, msgid_prod,"
_DOUBLED += " msgid_seq, expiration, msg, priority, xid FROM activemq_msgs"


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--messages", "count", default=1_000_000, show_default=True)
@click.option("--memory", default=0, help="How often the table is doubled for the peaks of memory.")
def main(rounds: int, count: int, memory: int) -> None:
    spark = analytics.session(f"local[{readers.READERS}]", **{"spark.driver.memory": "2g"})
    with tempfile.TemporaryDirectory() as folder, readers.postgresql(Path(folder), count) as source:
        with duck.connect(source.url) as views, analytics.connect(spark, source.url) as mq:
            ways = _ways(spark, views, source, count)
            costs = _measured(mq, ways, rounds)
        _print_costs(costs, count, rounds)
        if memory:
            _print_memory(spark, source.url, count, memory)
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
    """As someone would do it who has only a function that decodes one message."""
    from pyspark.sql import functions as F  # noqa: N812
    from sqlalchemy import make_url

    vendor, login = VENDORS["postgresql"], make_url(url)
    options = {
        "url": vendor.url(login),
        "driver": vendor.driver,
        "dbtable": "ACTIVEMQ_MSGS",
        "partitionColumn": "id",
        "lowerBound": "1",
        "upperBound": str(count),
        "numPartitions": str(readers.READERS),
        "fetchsize": "5000",
        "user": str(login.username),
        "password": str(login.password),
    }
    table = F.udf(lambda message: decode(bytes(message)).properties.get("table"), "int")
    return spark.read.format("jdbc").options(**options).load().where(table("msg") == 7).count()


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


def _print_memory(spark: SparkSession, url: str, count: int, doublings: int) -> None:
    """Scan the table through Spark and ``read_arrow`` at its size, and doubled several times."""
    click.echo("\n| messages | driver, MiB | JVM, MiB | workers, MiB |\n|---|---|---|---|")
    for step in range(2):
        if step:
            with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
                for _ in range(doublings):
                    connection.execute(_DOUBLED)
                connection.execute("VACUUM ANALYZE")
        with analytics.connect(spark, url) as mq, mq.picture(partitions=readers.READERS):
            spark.sql(_QUERY).collect()
            spark.sql(_ALL).write.format("noop").mode("overwrite").save()
        for _ in read_arrow(url, ["id", "body_text"]):
            pass
        driver, java, workers = _peaks(spark)
        click.echo(f"| {count << (doublings * step):,} | {driver} | {java} | {workers} |")


def _peaks(spark: SparkSession) -> tuple[int, int, int]:
    """The peaks of resident memory: of this process, of Java, and of all workers together."""
    java: Any = spark._jvm
    pid = int(java.java.lang.ProcessHandle.current().pid())
    return _peak(os.getpid()), _peak(pid), sum(_peak(worker) for worker in _below(pid))


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
