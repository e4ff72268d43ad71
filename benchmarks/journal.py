"""``python -m benchmarks.journal``: adds through the journal and its alternatives, as Markdown tables.

All on one disk, in turns within each round: the store with a journal, a loop that only writes records of the
same size and syncs, the same store without a journal, and a real ActiveMQ 5.17.2 on KahaDB that syncs each
write. Figures are medians over the rounds, and ratios medians of the rounds' ratios. Then producers and
consumers that keep up, with a database that is five milliseconds away. Last, the speed of recovery after an
unclean shutdown.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click

import jdbcstore
from benchmarks import ours, quick, recovery
from benchmarks.append import GroupCommit, RawAppends
from benchmarks.journaled import Journaled
from benchmarks.passing import Passing
from benchmarks.passing_tasks import PassingTasks
from jdbcstore import Store
from tests.support.databases import PostgresqlDatabase
from tests.support.faults.proxy import ProxyLine
from tests.support.interop.activemq import Broker, Peer
from tests.support.servers.postgresql import PostgresqlServer

_THREADS = (1, 16, 64)
_IN_FLIGHT = 1000
_BATCH = 100
_PAIRS = (1, 4, 16)
_PASSING: dict[str, type[Passing | PassingTasks]] = {"threads": Passing, "tasks": PassingTasks}
_ROUND_TRIP = 0.005
_LEFT = 100_000
"""Messages in the journal that is recovered."""
_KAHADB: dict[str, dict[str, bool]] = {
    "KahaDB": {},
    "KahaDB, stores before it dispatches": {"concurrent_dispatch": False},
}
"""Its defaults, and concurrentStoreAndDispatchQueues off, with which producers share syncs."""

Rate = Callable[[], float]
Opened = Callable[[PostgresqlServer], AbstractContextManager[str]]


@dataclass
class Row:
    """One workload, and the stores that run it in turns, ours first."""

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
        for producers in _THREADS:  # a warm-up, until Java has compiled the code
            self.rate(producers)

    def rate(self, producers: int) -> float:
        """Measure sends per second of producers that wait for each reply."""
        messages = max(producers, round(self._last[producers] * self._seconds))
        rate: float = self._broker.bench(producers, messages)["sent_per_second"]
        self._last[producers] = rate
        return rate


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--seconds", default=3.0, show_default=True, help="Of each measurement.")
@click.option(
    "--only", type=click.Choice(["sqlite", "postgresql", "far", "quick", "recovery"]), multiple=True
)
def main(rounds: int, seconds: float, only: tuple[str, ...]) -> None:
    if not only or not {"quick", "recovery"}.issuperset(only):
        _written(rounds, seconds, only)
    if not only or "quick" in only:
        _quick(rounds)
    if not only or "recovery" in only:
        _recovered(rounds)


def _written(rounds: int, seconds: float, only: tuple[str, ...]) -> None:
    with ExitStack() as stack:
        server = PostgresqlServer()
        stack.callback(server.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        near = [(name, opened) for name, opened in _OPENED.items() if not only or name in only]
        if near:
            brokers = {
                name: _kaha_db(stack, folder / name, seconds, **more) for name, more in _KAHADB.items()
            }
        for name, opened in near:
            with opened(server) as mine, opened(server) as other:
                _near(name, mine, other, brokers, rounds, seconds)
        if not only or "far" in only:
            with _postgresql(server) as mine, _postgresql(server) as other:
                _far(mine, other, rounds, seconds)


def _kaha_db(stack: ExitStack, folder: Path, seconds: float, **options: Any) -> KahaDb:
    peer = stack.enter_context(Peer(jvm_options=()))
    return KahaDb(stack.enter_context(peer.file_broker(folder, **options)), seconds)


def _near(name: str, mine: str, other: str, brokers: dict[str, KahaDb], rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        journaled = stack.enter_context(Journaled(mine, folder))
        plain = stack.enter_context(jdbcstore.open(other, cleanup_period=0.0))
        raw = RawAppends(folder)
        stack.callback(raw.close)
        handed = GroupCommit(raw)
        size = journaled.record_size()
        rows = [
            Row(
                f"{threads} blocking thread{'s' if threads > 1 else ''}",
                {
                    "journaled": _adds(journaled.store, partial(ours.blocking, threads=threads), seconds),
                    "append and sync": partial(raw.rate, size, threads, seconds),
                    "prepared records, handed over": partial(handed.blocking, size, threads, seconds),
                    "plain store": _adds(plain, partial(ours.blocking, threads=threads), seconds),
                    **{kind: partial(broker.rate, threads) for kind, broker in brokers.items()},
                },
            )
            for threads in _THREADS
        ]
        many: dict[str, Callable[..., float]] = {
            f"futures, {_IN_FLIGHT:,} in flight": partial(ours.futures, window=_IN_FLIGHT),
            f"batches of {_BATCH}, {_IN_FLIGHT:,} in flight": partial(
                ours.batches, size=_BATCH, window=_IN_FLIGHT
            ),
            f"{_IN_FLIGHT:,} tasks of a loop": partial(ours.tasks, count=_IN_FLIGHT),
        }
        rows += [
            Row(
                what,
                {
                    "journaled": partial(journaled.counting, _adds(journaled.store, measure, seconds)),
                    "append and sync": lambda: raw.rate(size, round(journaled.batches[-1]), seconds),
                    "prepared records, handed over": partial(handed.futures, size, _IN_FLIGHT, seconds),
                    "plain store": _adds(plain, measure, seconds),
                },
            )
            for what, measure in many.items()
        ]
        measure_in_turns(rows, rounds)
    print_rows(name, rows, rounds)
    click.echo(f"\nRecords of {size} bytes; {median(journaled.batches):,.0f} futures in one sync.")


def _adds(store: Store, measure: Callable[..., float], seconds: float) -> Rate:
    """Run the store, and leave nothing for the next measurement."""

    def adds() -> float:
        rate = measure(store, seconds=seconds)
        store.queue("BENCHMARK").remove_all_messages()
        return rate

    return adds


def _far(mine: str, other: str, rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lines = [ProxyLine(url, delay=_ROUND_TRIP / 2) for url in (mine, other)]
        for line in lines:
            stack.callback(line.close)
        journaled = stack.enter_context(Journaled(lines[0].url, folder)).store
        plain = stack.enter_context(jdbcstore.open(lines[1].url, cleanup_period=0.0))
        rows = [
            Row(
                f"{pairs} + {pairs} {kind}",
                {
                    "journaled": partial(_pass, passing, journaled, pairs, seconds),
                    "plain store": partial(_pass, passing, plain, pairs, seconds),
                },
            )
            for kind, passing in _PASSING.items()
            for pairs in _PAIRS
        ]
        measure_in_turns(rows, rounds)
    print_rows("postgresql, 5 ms away", rows, rounds)


def _pass(passing: type[Passing | PassingTasks], store: Store, pairs: int, seconds: float) -> float:
    return passing(store).rate(pairs, seconds)


def _quick(rounds: int) -> None:
    """Measure checkpoints of complete messages and of references."""
    measured: dict[bool, list[list[tuple[float, int]]]] = {False: [], True: []}
    with ExitStack() as stack:
        server = PostgresqlServer()
        stack.callback(server.close)
        for _ in range(rounds):
            for use, rounds_of in measured.items():
                database = PostgresqlDatabase(server.url)
                with tempfile.TemporaryDirectory() as folder:
                    rounds_of.append(quick.costs(database, Path(folder), _LEFT, quick=use))
                database.close()
    click.echo(f"\n### references\n\n{rounds} rounds, load {os.getloadavg()[0]:.1f} at the end\n")
    click.echo(f"| {_LEFT:,} messages | messages, s | MB | references, s | MB |\n{'|---' * 5}|")
    for index, what in enumerate(quick.WORK):
        cells = [what]
        for each in measured.values():
            seconds, size = (median(column) for column in zip(*(one[index] for one in each), strict=True))
            cells += [f"{seconds:.2f}", f"{size / 1e6:,.0f}"]
        click.echo(f"| {' | '.join(cells)} |")


def _recovered(rounds: int) -> None:
    rows = recovery.rates(_LEFT, rounds)
    click.echo(f"\n### recovery\n\n{rounds} rounds, load {os.getloadavg()[0]:.1f} at the end\n")
    click.echo(f"| {_LEFT:,} messages | per second | per second of CPU |\n|---|---|---|")
    for memory, rates in rows.items():
        elapsed, cpu = (median(column) for column in zip(*rates, strict=True))
        click.echo(f"| {memory} | {elapsed:,.0f} | {cpu:,.0f} |")


def measure_in_turns(rows: list[Row], rounds: int) -> None:
    """Run the stores of each row, round by round."""
    for _ in range(rounds):
        for row in rows:
            row.run()


def print_rows(name: str, rows: list[Row], rounds: int) -> None:
    """Print the medians as a table, with the ratios to the first store."""
    columns = [*rows[0].rates]
    heads = " | ".join([columns[0], *(f"{column} | ratio" for column in columns[1:])])
    click.echo(f"\n### {name}\n\n{rounds} rounds, load {os.getloadavg()[0]:.1f} at the end\n")
    click.echo(f"| per second | {heads} |\n{'|---' * (2 * len(columns))}|")
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


_OPENED: dict[str, Opened] = {"sqlite": _sqlite, "postgresql": _postgresql}


if __name__ == "__main__":
    main()
