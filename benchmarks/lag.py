"""``python -m benchmarks.lag``: how far a stream is behind its messages, as a Markdown table.

A process adds messages of 1 KB at a constant rate, and consumes none of them, or every message but each tenth
after a second, so that most IDs are missing. The lag of a message is the time from its timestamp to the end
of the batch that has it, in a stream with the default options.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

import click
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

import jdbcstore
from benchmarks import readers
from benchmarks.ours import BODY
from jdbcstore import Message, analytics
from tests.support.servers.postgresql import PostgresqlServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_TURN = 0.05
"""Seconds between two additions."""
_COLD = 10.0
"""Seconds of a run whose batches are not counted."""
_WARM = 30
"""Seconds of a run that is not counted: Spark starts its workers, and compiles."""


@click.command(help=__doc__)
@click.option("--rate", default=2000, show_default=True, help="Messages a second.")
@click.option("--seconds", default=60, show_default=True, help="Of each run.")
@click.option("--only", type=click.Choice(["postgresql", "sqlite"]), multiple=True)
@click.option("--write", hidden=True, help="URL of the store to add messages to.")
@click.option("--consume/--keep", default=False, hidden=True)
def main(rate: int, seconds: int, only: tuple[str, ...], write: str | None, consume: bool) -> None:
    if write is not None:
        _write(write, rate, seconds, consume=consume)
        return
    # How long Spark waits for a Python to start, on a machine that has other work too.
    patient = {"spark.python.authenticate.socketTimeout": "120s"}
    spark = analytics.session(f"local[{readers.READERS}]", **patient)
    analytics.register(spark)
    with suppress(click.ClickException):  # cold, its first batch may take longer than all of this run
        _run(spark, "sqlite", rate, _WARM, consume=False)
    click.echo("| | | messages | batches | lag: median | p95 | max |\n|---|---|---|---|---|---|---|")
    for name in only or ("postgresql", "sqlite"):
        for consumed in (False, True):
            lags, batches = _run(spark, name, rate, seconds, consume=consumed)
            cuts = quantiles(lags, n=20)
            kind = "nine of ten consumed after a second" if consumed else "none consumed"
            times = " | ".join(f"{each:.2f} s" for each in (cuts[9], cuts[18], max(lags)))
            click.echo(f"| {name} | {kind} | {len(lags):,} | {batches} | {times} |")
    click.echo(f"\n{rate:,} messages a second, load {os.getloadavg()[0]:.1f}")
    spark.stop()


def _run(
    spark: SparkSession, name: str, rate: int, seconds: int, *, consume: bool
) -> tuple[list[float], int]:
    """Measure the lag of each message, in seconds, and the number of batches."""
    lags: list[float] = []
    batches = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if name == "postgresql":
            server = PostgresqlServer()
            stack.callback(server.close)
            url = server.url.render_as_string(hide_password=False)
        else:
            url = f"sqlite:///{folder / 'benchmark.db'}"
        jdbcstore.open(url, cleanup_period=0.0).close()
        began = float("inf")

        def take(batch: DataFrame, _number: int) -> None:
            nonlocal batches
            times = batch.select(F.unix_millis("timestamp")).toArrow().column(0).to_pylist()
            now = time.time()
            if now - began > _COLD:
                batches += 1
                lags.extend(now - each / 1000 for each in times)

        stream = spark.readStream.format("jdbcstore").option("url", url).load()
        writer = stream.writeStream.foreachBatch(take).option(
            "checkpointLocation", str(folder / "checkpoint")
        )
        query = _begun(writer)
        began = time.time()
        mode = "--consume" if consume else "--keep"
        command = [sys.executable, "-m", "benchmarks.lag", "--write", url, mode]
        subprocess.run([*command, f"--rate={rate}", f"--seconds={seconds}"], check=True)
        failed = query.exception()
        query.stop()
    if failed is not None or len(lags) < 2:
        raise click.ClickException(f"the stream has read nothing after {_COLD:.0f} s: {failed}")
    return lags, batches


def _begun(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query, again if Spark's ten seconds for a Python of the source are too few."""
    while True:
        query = writer.start()
        while not query.recentProgress and query.exception() is None:
            time.sleep(_TURN)
        if "failed to connect back" not in str(query.exception()):
            return query


def _write(url: str, rate: int, seconds: int, *, consume: bool) -> None:
    pending: deque[tuple[float, list[int]]] = deque()
    with jdbcstore.open(url, cleanup_period=0.0) as store:
        queue = store.queue("STREAMED")
        begin = time.monotonic()
        for turn in range(round(seconds / _TURN)):
            added = queue.add_messages([Message(BODY) for _ in range(round(rate * _TURN))])
            now = time.monotonic()
            pending.append((now, [one.sequence for one in added]))
            while consume and pending[0][0] < now - 1:
                queue.acknowledge(*(id_ for id_ in pending.popleft()[1] if random.random() < 0.9))
            time.sleep(max(0.0, begin + (turn + 1) * _TURN - time.monotonic()))


if __name__ == "__main__":
    main()
