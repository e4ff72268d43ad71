"""``python -m benchmarks.snapshots``: claims on PostgreSQL, while something keeps removed rows.

Messages are added at a steady rate, and workers claim and remove them, each so often in a second. First
nothing else happens; then a REPEATABLE READ transaction holds its snapshot; then there is a transaction that
has written and stays open; then four readers whose snapshots overlap, so that one is always old. Printed are
the time that a claim takes, and the size of the tables and their indexes at the end of each phase. In the end
nobody holds anything, and autovacuum has to give the space back.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psycopg

from jdbcstore import Claims, Message
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.servers import PostgresqlServer

_QUEUE = "TASKS"
_BODY = "x" * 200
_AT_ONCE = 5
"""Messages that the producer adds at a time."""
_BATCH = 10
_READERS = 4
_PATIENCE = 900.0
_SIZES = (
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relname IN ('activemq_msgs', 'jdbcstore_claims')"
)


def produce(url: str, rate: float) -> None:
    """Add messages at this rate until there is nothing to read on the standard input."""
    with Claims(url) as claims:
        queue, begin, count = claims.queue(_QUEUE), time.monotonic(), 0
        while _goes_on():
            queue.add(*(Message(_BODY) for _ in range(_AT_ONCE)))
            count += _AT_ONCE
            time.sleep(max(0.0, begin + count / rate - time.monotonic()))
        _say("added", count)


def work(url: str, rate: float) -> None:
    """Claim and remove at this rate, and print the start, the duration and the messages of each claim."""
    with Claims(url) as claims:
        queue, due = claims.queue(_QUEUE), time.monotonic()
        while _goes_on():
            at, begin = time.time(), time.perf_counter()
            found = queue.claim(_BATCH)
            took = time.perf_counter() - begin
            queue.acknowledge(*found)
            _say(at, took, len(found))
            due = max(due + 1 / rate, time.monotonic() - 1.0)
            time.sleep(max(0.0, due - time.monotonic()))


def _goes_on() -> bool:
    """Return whether the standard input is open."""
    os.set_blocking(0, False)
    try:
        return os.read(0, 1) != b""
    except BlockingIOError:
        return True


def _say(*words: object) -> None:
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


@contextmanager
def started(folder: Path, name: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process of this module, which ends when its standard input is closed."""
    with (folder / name).open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__ if __name__ != "__main__" else "benchmarks.snapshots"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "SNAPSHOTS": " ".join(map(str, arguments))},
            stdin=subprocess.PIPE,
            stdout=said,
        )
    try:
        yield process
    finally:
        process.communicate()


class Claimed:
    """Output of the workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def between(self, begin: float, end: float) -> tuple[list[float], int]:
        """Return the durations of claims that began in this period, in order, and the number of messages."""
        times, messages = [], 0
        for path in self._folder.glob("worker*"):
            for line in path.read_text().splitlines(keepends=True):
                if not line.endswith("\n"):
                    continue
                at, took, found = line.split()
                if begin <= float(at) < end:
                    times.append(float(took))
                    messages += int(found)
        return sorted(times), messages


def part(times: Sequence[float], share: float) -> float:
    """Return the milliseconds within which this share of the durations are."""
    return 1000 * times[min(len(times) - 1, int(share * len(times)))] if times else float("nan")


def nothing(url: str, seconds: float) -> None:  # noqa: ARG001
    """Hold nothing."""
    time.sleep(seconds)


def snapshot(url: str, seconds: float) -> None:
    """Hold a snapshot."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM activemq_msgs")
        time.sleep(seconds)


def writer(url: str, seconds: float) -> None:
    """Hold a transaction that has written."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE written (id INTEGER)")
        time.sleep(seconds)
        connection.rollback()


def readers(url: str, seconds: float) -> None:
    """Hold four snapshots, each begun when the one before has done a quarter of its time."""
    step = seconds / (2 * _READERS)
    end = time.monotonic() + seconds
    with ExitStack() as opened:
        held = [opened.enter_context(psycopg.connect(url)) for _ in range(_READERS)]
        turn = 0
        while time.monotonic() < end:
            connection = held[turn % _READERS]
            connection.rollback()
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM activemq_msgs")
            turn += 1
            time.sleep(step)


_PHASES: dict[str, Callable[[str, float], None]] = {
    "nothing": nothing,
    "snapshot held": snapshot,
    "nothing again": nothing,
    "open writing transaction": writer,
    "four overlapping readers": readers,
}


@click.command(help=__doc__)
@click.option("--seconds", default=60.0, show_default=True, help="For each phase.")
@click.option("--rate", default=500.0, show_default=True, help="Messages a second.")
@click.option("--workers", default=2, show_default=True)
@click.option(
    "--claims", default=50.0, show_default=True, help="Claims a second of each worker, of ten at most."
)
def main(seconds: float, rate: float, workers: int, claims: float) -> None:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory()))
        server = PostgresqlServer()
        opened.callback(server.close)
        url = server.url.render_as_string(hide_password=False)
        plain = url.replace("+psycopg", "")
        Claims(url).close()
        claimed = Claimed(folder)
        with ExitStack() as processes:
            for number in range(workers):
                processes.enter_context(started(folder, f"worker{number}", "work", url, claims))
            producing = processes.enter_context(ExitStack())
            producing.enter_context(started(folder, "producer", "produce", url, rate))
            wait_until(
                lambda: claimed.between(0.0, float("inf"))[1] > rate, _PATIENCE, "the messages claimed"
            )
            click.echo("| held | messages/s | claim p50 (ms) | p95 | p99 | longest | tables (MB) |")
            click.echo("|---|---|---|---|---|---|---|")
            for name, phase in _PHASES.items():
                begin = time.time()
                phase(plain, seconds)
                times, messages = claimed.between(begin, time.time())
                size = _megabytes(plain)
                figures = [f"{part(times, share):.1f}" for share in (0.5, 0.95, 0.99, 1.0)]
                click.echo(f"| {name} | {messages / seconds:.0f} | {' | '.join(figures)} | {size:.1f} |")
            producing.close()
            with Claims(url) as all_claims:
                queue = all_claims.queue(_QUEUE)
                wait_until(lambda: queue.count()[0] == 0, _PATIENCE, "that the queue is empty")
            largest, since = size, time.monotonic()
        wait_until(lambda: _megabytes(plain) < largest / 2, _PATIENCE, "the tables are as large")
        click.echo(
            f"The tables had {largest:.1f} MB, and {_megabytes(plain):.1f} MB"
            f" {time.monotonic() - since:.0f} s after the last message."
        )


def _megabytes(url: str) -> float:
    with psycopg.connect(url) as connection:
        row = connection.execute(_SIZES).fetchone()
        assert row is not None
        return float(row[0]) / 1e6


if __name__ == "__main__":
    if given := os.environ.get("SNAPSHOTS"):
        what, its_url, its_rate = given.split()
        {"work": work, "produce": produce}[what](its_url, float(its_rate))
    else:
        main()
