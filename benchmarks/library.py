"""The rows of :mod:`benchmarks.peers` about the library itself, beside the bare database and ActiveMQ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import click

import jdbcstore
from benchmarks import ours
from benchmarks.figures import Figures
from benchmarks.raw import RawPostgresql
from jdbcstore import Store
from tests.support.databases import Database
from tests.support.servers.postgresql import PostgresqlServer
from tests.support.servers.process import Server

OURS = "jdbcstore"
DATABASE = "the database alone"
_TRANSACTION = 100
_IN_FLIGHT = 1_000
_BACKLOG = 40_000
_THREADS = {1: "1 blocking thread; pgbench, 1 client", 4: "… 4", 16: "… 16"}
_TRANSACTIONS = "transactions of 100, 1 thread"
_DRAIN = "consume, transactions of 100"
_FUTURES = "futures, 1,000 in flight; COPY, 1,000 rows a commit"
_BATCHES = "batches of 100, 1,000 in flight; COPY, 1,000 rows a commit"
ROWS = (*_THREADS.values(), _TRANSACTIONS, _DRAIN, _FUTURES, _BATCHES)


class Library:
    """Our library, and PostgreSQL alone where it is one, on one database."""

    def __init__(self, store: Store, raw: RawPostgresql | None) -> None:
        self._store = store
        self._raw = raw

    def measure(self, seconds: float, figures: Figures) -> None:
        """Measure each row once."""
        for threads, row in _THREADS.items():
            figures.add(row, OURS, ours.blocking(self._store, threads, seconds))
            if self._raw is not None:
                figures.add(row, DATABASE, self._raw.single(threads, seconds))
            self._empty()
        figures.add(_TRANSACTIONS, OURS, ours.transactions(self._store, _TRANSACTION, seconds))
        self._empty()
        ours.fill(self._store, _BACKLOG)
        figures.add(_DRAIN, OURS, ours.drain(self._store, _TRANSACTION, seconds))
        self._empty()
        ways: dict[str, Callable[[], float]] = {
            _FUTURES: partial(ours.futures, self._store, _IN_FLIGHT, seconds),
            _BATCHES: partial(ours.batches, self._store, 100, _IN_FLIGHT, seconds),
        }
        for row, way in ways.items():
            figures.add(row, OURS, way())
            if self._raw is not None:
                figures.add(row, DATABASE, self._raw.bulk(seconds))
            self._empty()

    def _empty(self) -> None:
        self._store.queue("BENCHMARK").remove_all_messages()


def print_rows(figures: Figures, openwire: dict[str, str]) -> None:
    """Print a table; ``openwire`` are the rows of what ActiveMQ's clients do, by the names of the work."""
    heads = ["messages a second", "the library", DATABASE, "÷ it", "÷ ActiveMQ, OpenWire"]
    click.echo(f"\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    same = {_TRANSACTIONS: "transactions", _DRAIN: "drain-transacted"}
    same |= {row: f"send-{threads}" for threads, row in _THREADS.items()}
    for row in ROWS:
        peer = figures.ratio(row, OURS, "ActiveMQ", openwire[same[row]]) if row in same else ""
        cells = [figures.rate(row, OURS), figures.rate(row, DATABASE), figures.ratio(row, OURS, DATABASE)]
        click.echo(f"| {row} | {' | '.join([*cells, peer])} |")


@contextmanager
def opened(server: Server, make: Callable[[], Database]) -> Iterator[Library]:
    """Open a store on a database of its own."""
    database = make()
    try:
        with jdbcstore.open(database.url, cleanup_period=0.0) as store, ExitStack() as stack:
            raw: RawPostgresql | None = None
            if isinstance(server, PostgresqlServer):
                raw = RawPostgresql(database.url, server.program("pgbench"))
                stack.callback(raw.close)
            yield Library(store, raw)
    finally:
        database.close()
