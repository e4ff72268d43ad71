"""``python -m benchmarks.journal``: adds through the journal beside their neighbours, as Markdown tables.

All on one disk, in turns within each round: the store behind a journal, a loop that only writes records of
the same size and syncs, the same store without a journal, and a real ActiveMQ 5.17.2 on KahaDB that syncs
each write. Figures are medians over the rounds, ratios the medians of the rounds' own. Then producers and
consumers that keep up, with a database that is five milliseconds away.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import click

import jdbcstore
from benchmarks import ours
from benchmarks.append import RawAppends
from benchmarks.passing import Passing
from jdbcstore import Store
from tests.databases import PostgresqlDatabase
from tests.faults.proxy import ProxyLine
from tests.interop.activemq import Broker, Peer
from tests.servers.postgresql import PostgresqlServer

_RECORD = 1300
_THREADS = (1, 16, 64)
_UNDER_WAY = 1000
_PAIRS = 16
_ROUND_TRIP = 0.005

Rate = Callable[[], float]


@dataclass
class Row:
    """One kind of work, and who does it in turns: the first is ours."""

    what: str
    rates: dict[str, Rate]
    measured: dict[str, list[float]] = field(default_factory=dict)

    def run(self) -> None:
        for name, rate in self.rates.items():
            self.measured.setdefault(name, []).append(rate())

    def cells(self, columns: list[str]) -> str:
        cells = [self.what]
        first = self.measured[columns[0]]
        for name in columns:
            rates = self.measured.get(name)
            cells.append(f"{median(rates):,.0f}" if rates else "")
            if name != columns[0]:
                pairs = zip(first, rates or (), strict=bool(rates))
                ratios = [mine / theirs for mine, theirs in pairs]
                cells.append(f"{median(ratios):.2f}" if ratios else "")
        return f"| {' | '.join(cells)} |"


class KahaDb:
    """The real ActiveMQ; each measurement ends with an empty queue."""

    def __init__(self, broker: Broker, seconds: float) -> None:
        self._broker = broker
        self._seconds = seconds
        self._last = dict.fromkeys(_THREADS, 500.0)
        for producers in _THREADS:  # so that Java has compiled what it will run
            self.rate(producers)

    def rate(self, producers: int) -> float:
        """Sends a second of producers that wait for the answer to each."""
        messages = max(producers, round(self._last[producers] * self._seconds))
        rate: float = self._broker.bench(producers, messages)["sent_per_second"]
        self._last[producers] = rate
        return rate


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--seconds", default=3.0, show_default=True, help="Of each measurement.")
@click.option("--only", type=click.Choice(["sqlite", "postgresql", "far"]), multiple=True)
def main(rounds: int, seconds: float, only: tuple[str, ...]) -> None:
    with ExitStack() as stack:
        server = PostgresqlServer()
        stack.callback(server.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        wanted = only or ("sqlite", "postgresql", "far")
        if {"sqlite", "postgresql"} & {*wanted}:
            peer = stack.enter_context(Peer(jvm_options=()))
            kaha = KahaDb(stack.enter_context(peer.file_broker(folder / "kahadb")), seconds)
            for name, opened in (("sqlite", _sqlite), ("postgresql", _postgresql)):
                if name in wanted:
                    with opened(server) as url:
                        _near(name, url, kaha, rounds, seconds)
        if "far" in wanted:
            with _postgresql(server) as url:
                _far(url, rounds, seconds)


def _near(name: str, url: str, kaha: KahaDb, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plain = stack.enter_context(jdbcstore.open(url, cleanup_period=0.0))
        raw = RawAppends(folder)
        stack.callback(raw.close)
        rows = [
            Row(
                f"{threads} blocking thread{'s' if threads > 1 else ''}",
                {
                    "append and sync alone": partial(raw.rate, _RECORD, threads, seconds),
                    "plain store": _adds(plain, threads, seconds),
                    "ActiveMQ, KahaDB": partial(kaha.rate, threads),
                },
            )
            for threads in _THREADS
        ]
        _measure(rows, rounds)
    _print(name, rows, rounds)


def _adds(store: Store, threads: int, seconds: float) -> Rate:
    def adds() -> float:
        rate = ours.blocking(store, threads, seconds)
        store.queue("BENCHMARK").remove_all_messages()
        return rate

    return adds


def _far(url: str, rounds: int, seconds: float) -> None:
    line = ProxyLine(url, delay=_ROUND_TRIP / 2)
    try:
        with jdbcstore.open(line.url, cleanup_period=0.0) as plain:
            row = Row(
                f"{_PAIRS} producers, {_PAIRS} consumers",
                {"plain store": lambda: Passing(plain).rate(_PAIRS, seconds)},
            )
            _measure([row], rounds)
    finally:
        line.close()
    _print("postgresql, 5 ms away", [row], rounds)


def _measure(rows: list[Row], rounds: int) -> None:
    for _ in range(rounds):
        for row in rows:
            row.run()


def _print(name: str, rows: list[Row], rounds: int) -> None:
    columns = [*rows[0].rates]
    heads = " | ".join([columns[0], *(f"{column} | ratio" for column in columns[1:])])
    click.echo(f"\n### {name}\n\n{rounds} rounds, load {os.getloadavg()[0]:.1f} at the end\n")
    click.echo(f"| a second | {heads} |\n{'|---' * (2 * len(columns))}|")
    for row in rows:
        click.echo(row.cells(columns))


@contextmanager
def _sqlite(_server: PostgresqlServer) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/benchmark.db"


@contextmanager
def _postgresql(server: PostgresqlServer) -> Iterator[str]:
    database = PostgresqlDatabase(server.url)
    try:
        yield database.url
    finally:
        database.close()


if __name__ == "__main__":
    main()
