"""``python -m benchmarks.spark``: queries through Spark and directly, as Markdown tables.

In each round each of our figures is followed at once by its raw counterparts; a ratio is the median over the
rounds. CPU is that of all processes: Spark's, its workers', the database's.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from benchmarks import cpu, messages, readers
from jdbcstore import analytics
from jdbcstore.analytics.batch import MessageBatch
from jdbcstore.analytics.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.readers import Source

_ASKED = {
    "count by destination": (
        "SELECT destination, count(*) FROM messages GROUP BY destination",
        "SELECT container, count(*) FROM ACTIVEMQ_MSGS GROUP BY container",
    ),
    "top 10 by age": (
        "SELECT id, destination FROM messages ORDER BY id LIMIT 10",
        "SELECT id, container FROM ACTIVEMQ_MSGS ORDER BY id LIMIT 10",
    ),
}
"""Queries that the database answers: through Spark, and directly."""

_COLD = 10
"""Runs before these are measured: Java compiles Spark's planner only gradually."""

_SCANNED = {
    "every MSG read": "SELECT destination, sum(message_size) FROM messages_decoded GROUP BY destination",
    "a header of each": "SELECT max(timestamp) FROM messages_decoded",
    "properties of all, filtered: count": (
        "SELECT count(*) FROM messages_decoded WHERE properties['table'].long = 7"
    ),
    "properties of all, filtered: all columns of those": (
        "SELECT * FROM messages_decoded WHERE properties['table'].long = 7"
    ),
}
"""Queries that read every message."""
_ALL = "SELECT * FROM messages_decoded"
_BESIDE = {
    "all columns": _ALL,
    "six columns": _ALL.replace("*", "id, destination, timestamp, jms_priority, body_text, properties"),
}
_JDBC = "Spark's own jdbc"
_DECODED = 20_000
"""Messages that the decoder alone decodes, in one batch."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run, in seconds."""

    wall: float
    cpu: float


@dataclass
class Measure:
    """One of our figures, its raw counterparts, and the cost of each round."""

    what: str
    ours: Callable[[], Any]
    peers: dict[str, Callable[[], Any]]
    costs: list[Cost] = field(default_factory=list)
    peer_costs: dict[str, list[Cost]] = field(default_factory=dict)

    def run(self) -> None:
        for name, peer in self.peers.items():
            self.peer_costs.setdefault(name, []).append(_cost(peer))
        self.costs.append(_cost(self.ours))

    def forget(self) -> None:
        """Discard the measurements of the warm-up."""
        self.costs.clear()
        self.peer_costs.clear()

    def rows(self, count: int) -> list[str]:
        """Return a row for each counterpart; ``count`` messages were read unless the database answered."""
        wall, used = (median(getattr(cost, name) for cost in self.costs) for name in ("wall", "cpu"))
        rate = "" if self.what in _ASKED else f"{count / wall:,.0f}"
        ours = f"| {self.what} | {wall:.2f} | {used:.2f} | {rate} |"
        return [f"{ours} {name} | {self._beside(costs)} |" for name, costs in self.peer_costs.items()]

    def _beside(self, peers: list[Cost]) -> str:
        pairs = list(zip(self.costs, peers, strict=True))
        cells = [
            *(median(getattr(peer, name) for peer in peers) for name in ("wall", "cpu")),
            median(ours.wall - peer.wall for ours, peer in pairs),
            median(ours.wall / peer.wall for ours, peer in pairs),
            median(ours.cpu / max(peer.cpu, 0.01) for ours, peer in pairs),
        ]
        return " | ".join(f"{cell:.2f}" for cell in cells)


def _cost(run: Callable[[], Any]) -> Cost:
    used, start = cpu.seconds(), time.perf_counter()
    run()
    wall = time.perf_counter() - start
    return Cost(wall, cpu.seconds() - used)


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--messages", "count", default=1_000_000, show_default=True)
@click.option("--only", type=click.Choice(["postgresql", "sqlite", "mariadb"]), multiple=True)
def main(rounds: int, count: int, only: tuple[str, ...]) -> None:
    spark = analytics.session(f"local[{readers.READERS}]", **{"spark.driver.memory": "3g"})
    for name, opened in (
        ("postgresql", readers.postgresql),
        ("sqlite", readers.sqlite),
        ("mariadb", readers.mariadb),
    ):
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder, opened(Path(folder), count) as source:
            jdbc = readers.plain_jdbc(spark, name, source.url, count)
            measures = _measured(spark, source, jdbc, rounds)
        load = os.getloadavg()[0]
        click.echo(f"\n### {name}\n\n{count:,} messages, {rounds} rounds, load {load:.1f} at the end\n")
        click.echo("| | s | CPU s | messages/s | raw | s | CPU s | difference, s | ratio | ratio of CPU |")
        click.echo("|---|---|---|---|---|---|---|---|---|---|")
        for measure in measures:
            click.echo("\n".join(measure.rows(count)))
    click.echo(f"\nThe decoder alone, all columns: {_decoding():.2f} µs of CPU a message")
    spark.stop()


def _decoding() -> float:
    """Return the CPU time of one core for all columns of a message, in microseconds: the best of five."""
    blobs = pa.array([row[5] for row in messages.rows(_DECODED)], pa.binary())
    costs = []
    for _ in range(5):
        used, batch = time.thread_time(), MessageBatch(blobs)
        for column in COLUMNS:
            batch.column(column.decode)
        costs.append(time.thread_time() - used)
    return min(costs) / _DECODED * 1e6


def _measured(spark: SparkSession, source: Source, jdbc: DataFrame, rounds: int) -> list[Measure]:
    asked = [
        Measure(what, _collects(spark, ours), {"the same, directly": _asks(source, raw)})
        for what, (ours, raw) in _ASKED.items()
    ]
    best = dict([next(iter(source.scans.items()))])
    scanned = [Measure(what, _drains(spark, query), best) for what, query in _SCANNED.items()]
    scanned[0].peers = source.scans
    plainly = {_JDBC: _drained(jdbc)}
    scanned += [Measure(f"{what} of all", _drains(spark, query), plainly) for what, query in _BESIDE.items()]
    analytics.register(spark)
    options = {"url": source.url, "partitions": str(readers.READERS)}
    loaded = spark.read.format("jdbcstore").options(**options).load()
    scanned.append(Measure('all columns of all, format("jdbcstore")', _drained(loaded), plainly))
    with analytics.connect(spark, source.url) as mq:
        _run(asked, max(rounds, 5), cold=_COLD)
        one_task = _drained(spark.sql(_ALL))
        with mq.picture(partitions=readers.READERS, snapshot=False):
            tasks = Measure(
                f"all columns of all, {readers.READERS} tasks", _drains(spark, _ALL), {"1 task": one_task}
            )
            _run([*scanned, tasks], rounds, cold=1)
    return [*asked, *scanned, tasks]


def _run(measures: list[Measure], rounds: int, *, cold: int) -> None:
    for number in range(cold + rounds):
        for measure in measures:
            measure.run()
            if number == cold - 1:
                measure.forget()


def _collects(spark: SparkSession, query: str) -> Callable[[], Any]:
    return lambda: spark.sql(query).collect()


def _drains(spark: SparkSession, query: str) -> Callable[[], Any]:
    return lambda: _drained(spark.sql(query))()


def _drained(frame: DataFrame) -> Callable[[], Any]:
    """Make a function that has Spark produce each row, and discards it."""
    return lambda: frame.write.format("noop").mode("overwrite").save()


def _asks(source: Source, query: str) -> Callable[[], Any]:
    return lambda: source.ask(query)


if __name__ == "__main__":
    main()
