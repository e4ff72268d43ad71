"""``python -m benchmarks.backlog``: a consumer that stops for a million 1 KB messages, as a Markdown table.

``jdbcstore broker`` on PostgreSQL, one producer and one consumer, each a process. First both work, which
measures the producer's speed. Then the consumer stops while the messages are sent, and continues. Messages
are persistent with the store cursor, and not persistent with the file cursor. With the cursor in memory the
producer is blocked at the limit; the number of messages sent until then is printed instead.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from tests.support.broker.backlog import CHUNK, Drain, produce, resident
from tests.support.broker.programs import BrokerProcess
from tests.support.databases import PostgresqlDatabase
from tests.support.servers.postgresql import PostgresqlServer

POLICY = """
[[policies]]
queue = ">"
memory_limit = "{limit} mb"
pending_queue_policy = "{policy}"
"""
TOGETHER = 50_000
"""Messages that are sent and consumed at the same time."""
ALONE = 20_000
"""Messages that are drained first, to measure that speed."""
STALL = 10.0
"""Seconds without a receipt after which a producer counts as blocked."""


@dataclass(frozen=True)
class Cursor:
    """A kind of cursor, and its messages."""

    name: str
    policy: str
    persistent: bool
    limit: int = 64


CURSORS = (
    Cursor("store", "storeCursor", persistent=True),
    Cursor("file", "fileQueueCursor", persistent=False),
    Cursor("memory", "vmQueueCursor", persistent=False),
)


class Watch:
    """The peak memory of a process, sampled every tenth of a second."""

    def __init__(self, pid: int) -> None:
        self.most = 0
        self._pid = pid
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._end.wait(0.1):
            self.most = max(self.most, resident(self._pid))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        self._thread.join()


@click.command(help=__doc__)
@click.option("--messages", default=1_000_000, show_default=True)
@click.option("--size", default=1024, show_default=True, help="Bytes of each.")
@click.option("--cursor", "names", type=click.Choice([one.name for one in CURSORS]), multiple=True)
def main(messages: int, size: int, names: tuple[str, ...]) -> None:
    click.echo("| cursor | sent, both at work | sent, consumer stopped | drained before | drained | memory |")
    click.echo("|---|---|---|---|---|---|")
    with closing(PostgresqlServer()) as server:
        for cursor in CURSORS:
            if cursor.name in (names or (cursor.name,)):
                with _broker(server, cursor) as (port, pid), Watch(pid) as watch:
                    cells = (_throttled if cursor.name == "memory" else _measured)(
                        port, cursor, messages, size
                    )
                click.echo(f"| {cursor.name} | {' | '.join(cells)} | {watch.most / 1e6:.0f} MB |")


@contextmanager
def _broker(server: PostgresqlServer, cursor: Cursor) -> Iterator[tuple[int, int]]:
    database = PostgresqlDatabase(server.url.set(drivername="postgresql+psycopg"))
    with tempfile.TemporaryDirectory(prefix="jdbcstore-backlog-") as folder:
        config = Path(folder) / "broker.toml"
        config.write_text(POLICY.format(policy=cursor.policy, limit=cursor.limit))
        with BrokerProcess(Path(folder), "--url", database.url, "--config", str(config)) as broker:
            yield broker.ready(), broker.process.pid
            broker.end()
    database.close()


def _measured(port: int, cursor: Cursor, messages: int, size: int) -> list[str]:
    """Measure messages per second in each part."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as producer:
        drain = Drain(port, "Q")
        together = producer.submit(_send, port, cursor, 0, TOGETHER, size)
        drain.until(TOGETHER)
        first = TOGETHER
        producer.submit(_send, port, cursor, first, ALONE, size).result()
        before = ALONE / drain.until(first + ALONE)
        first += ALONE
        stopped = producer.submit(_send, port, cursor, first, messages, size).result()
        after = messages / drain.until(first + messages)
        drain.close()
    rates = (together.result(), stopped, before, after)
    return [
        f"{rates[0]:,.0f}",
        f"{rates[1]:,.0f} ({rates[1] / rates[0]:.2f})",
        f"{rates[2]:,.0f}",
        f"{rates[3]:,.0f} ({rates[3] / rates[2]:.2f})",
    ]


def _send(port: int, cursor: Cursor, first: int, count: int, size: int) -> float:
    return count / produce(port, "Q", first, count, size=size, persistent=cursor.persistent)


def _throttled(port: int, cursor: Cursor, messages: int, size: int) -> list[str]:
    """Count the messages that the producer sent before it was blocked."""
    sent = 0

    def send() -> None:
        nonlocal sent
        while sent < messages:
            produce(port, "Q", sent, CHUNK, size=size, persistent=cursor.persistent, timeout=STALL)
            sent += CHUNK

    drain = Drain(port, "Q")
    try:
        send()
        waits = "did not wait"
    except TimeoutError:
        waits = f"blocked after {sent:,} messages"
    drain.close()
    return ["", waits, "", ""]


if __name__ == "__main__":
    main()
