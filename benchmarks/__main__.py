"""``python -m benchmarks``: the store compared with the bare database, as a Markdown table for each database.

Our measurements and the raw ones take turns within each round, so that each ratio is of two that ran next to
each other. The figures printed are medians over the rounds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import click

import jdbcstore
from benchmarks import ours
from benchmarks.raw import RawPostgresql, RawSqlite
from jdbcstore import Store
from tests.support.servers.postgresql import PostgresqlServer

_DRAIN = 40_000

Raw = RawPostgresql | RawSqlite


@dataclass
class Measure:
    """A measurement, its raw counterpart, and the rates of each round."""

    what: str
    measure: Callable[[], float]
    peer: str = ""
    measure_peer: Callable[[], float] | None = None
    rates: list[float] = field(default_factory=list)
    peer_rates: list[float] = field(default_factory=list)

    def run(self) -> None:
        if self.measure_peer is not None:
            self.peer_rates.append(self.measure_peer())
        self.rates.append(self.measure())

    def row(self) -> str:
        """Return a row of the table; the ratio is the median of the rounds' ratios."""
        cells = [self.what, f"{median(self.rates):,.0f}", self.peer, "", ""]
        if self.peer_rates:
            ratios = [ours / peer for ours, peer in zip(self.rates, self.peer_rates, strict=True)]
            cells[3:] = [f"{median(self.peer_rates):,.0f}", f"{median(ratios):.2f}"]
        return f"| {' | '.join(cells)} |"


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--only", type=click.Choice(["sqlite", "postgresql"]), multiple=True)
def main(rounds: int, only: tuple[str, ...]) -> None:
    for name, opened in (("sqlite", _sqlite), ("postgresql", _postgresql)):
        if only and name not in only:
            continue
        with opened() as (store, raw):
            measures = _measures(store, raw)
            for _ in range(rounds):
                for measure in measures:
                    measure.run()
        click.echo(f"\n### {name}\n\n| ours | per second | raw | per second | ratio |\n|---|---|---|---|---|")
        for measure in measures:
            click.echo(measure.row())


def _measures(store: Store, raw: Raw) -> list[Measure]:
    def blocking(threads: int) -> Measure:
        return Measure(
            f"add, {threads} blocking thread(s)",
            lambda: ours.blocking(store, threads),
            f"single-row commits, {threads} client(s)",
            lambda: raw.single(threads),
        )

    def drain() -> float:
        store.queue("BENCHMARK").remove_all_messages()
        ours.fill(store, _DRAIN)
        return ours.drain(store, 1000)

    return [
        *(blocking(threads) for threads in (1, 4, 16)),
        Measure("add, futures, 1,000 in flight", lambda: ours.futures(store, 1000), raw.bulk_name, raw.bulk),
        Measure("add, batches of 100", lambda: ours.batches(store, 100, 1000), raw.bulk_name, raw.bulk),
        Measure("recover + acknowledge, batches of 1,000", drain),
    ]


@contextmanager
def _sqlite() -> Iterator[tuple[Store, Raw]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "benchmark.db")
        with jdbcstore.open(f"sqlite:///{path}", cleanup_period=0.0) as store:
            raw = RawSqlite(path)
            yield store, raw
            raw.close()


@contextmanager
def _postgresql() -> Iterator[tuple[Store, Raw]]:
    server = PostgresqlServer()
    try:
        url = server.url.render_as_string(hide_password=False)
        with jdbcstore.open(url, cleanup_period=0.0) as store:
            raw = RawPostgresql(url, server.program("pgbench"))
            yield store, raw
            raw.close()
    finally:
        server.close()


main()
