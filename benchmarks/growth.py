"""``python -m benchmarks.growth``: what a send, a page and an acknowledgement cost behind a growing backlog.

A queue is filled with small messages. At each size single messages of 1 KB are sent and acknowledged by one
thread that waits for each commit, and pages of 100 are read from the front. Then messages of 1 KB are sent to
a topic with ever more durable subscriptions, which are drained one after the other. Prints medians.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import click

import jdbcstore
from jdbcstore import Message, MessageReference, Store
from jdbcstore.abc import DurableSubscription, MessageStore
from jdbcstore.util.futures import StoreFuture
from tests.support.databases import PostgresqlDatabase
from tests.support.servers.postgresql import PostgresqlServer

_BODY = os.urandom(1024)
_BATCH = 500
_IN_FLIGHT = 4
_PAGE = 100


@click.command(help=__doc__)
@click.option("--sizes", default="10000,200000,2000000", show_default=True, help="Of the backlog.")
@click.option("--subscriptions", default="1,10,100", show_default=True)
@click.option("--samples", default=1000, show_default=True, help="Single operations at each size.")
@click.option("--only", type=click.Choice(["sqlite", "postgresql"]), multiple=True)
def main(sizes: str, subscriptions: str, samples: int, only: Sequence[str]) -> None:
    for name, opened in (("SQLite", _sqlite), ("PostgreSQL", _postgresql)):
        if only and name.lower() not in only:
            continue
        with opened() as store:
            click.echo(f"\n{name}:\n")
            _grow(store, [int(size) for size in sizes.split(",")], samples)
            _subscribe(store, [int(number) for number in subscriptions.split(",")], samples)
    click.echo(f"\nThe load at the end was {os.getloadavg()[0]:.1f}.")


def _grow(store: Store, sizes: Sequence[int], samples: int) -> None:
    click.echo("| backlog | filled, a second | a send, ms | a page of 100, ms | an acknowledgement, ms |")
    click.echo("|---|---|---|---|---|")
    queue = store.queue("BACKLOG")
    held = 0
    for size in sizes:
        begin = time.perf_counter()
        added = _fill(queue, size - held)
        filled = added / (time.perf_counter() - begin)
        send = _median(lambda: queue.add_message(Message(_BODY)), samples)
        page = _median(lambda: queue.recover(limit=_PAGE), samples // 10)
        front = queue.recover(limit=samples)
        times = [_timed(partial(queue.acknowledge, message)) for message in front]
        held = size + samples - len(front)
        click.echo(f"| {size:,} | {filled:,.0f} | {send:.2f} | {page:.2f} | {median(times):.2f} |")


def _fill(queue: MessageStore, count: int) -> int:
    waiting: deque[StoreFuture[list[MessageReference]]] = deque()
    for begin in range(0, count, _BATCH):
        if len(waiting) == _IN_FLIGHT:
            waiting.popleft().result()
        size = min(_BATCH, count - begin)
        waiting.append(queue.add_messages_async([Message("x") for _ in range(size)]))
    for future in waiting:
        future.result()
    return count


def _subscribe(store: Store, numbers: Sequence[int], samples: int) -> None:
    click.echo("\n| durable subscriptions | a send, ms | drained, deliveries a second |\n|---|---|---|")
    topic = store.topic("NEWS")
    subscriptions: list[DurableSubscription] = []
    for number in numbers:
        while len(subscriptions) < number:
            subscriptions.append(topic.subscribe(f"client{len(subscriptions)}", "news"))
        send = _median(lambda: topic.add_message(Message(_BODY)), samples)
        begin = time.perf_counter()
        delivered = 0
        for subscription in subscriptions:
            while page := subscription.recover(limit=_BATCH):
                subscription.acknowledge(*page)
                delivered += len(page)
        rate = delivered / (time.perf_counter() - begin)
        click.echo(f"| {number} | {send:.2f} | {rate:,.0f} |")


def _median(work: Callable[[], object], samples: int) -> float:
    return median(_timed(work) for _ in range(samples))


def _timed(work: Callable[[], object]) -> float:
    """Return milliseconds."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000


@contextmanager
def _sqlite() -> Iterator[Store]:
    with (
        tempfile.TemporaryDirectory() as folder,
        jdbcstore.open(f"sqlite:///{Path(folder, 'growth.db')}", cleanup_period=0.0) as store,
    ):
        yield store


@contextmanager
def _postgresql() -> Iterator[Store]:
    server = PostgresqlServer()
    try:
        database = PostgresqlDatabase(server.url.set(drivername="postgresql+psycopg"))
        with jdbcstore.open(database.url, cleanup_period=0.0) as store:
            yield store
        database.close()
    finally:
        server.close()


if __name__ == "__main__":
    main()
