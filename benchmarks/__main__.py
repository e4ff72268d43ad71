"""``python -m benchmarks``: the figures of docs/benchmarks.md, as a Markdown table per database.

Ours and the raw ones take turns within each round, so that a ratio compares neighbours in time;
what is printed is the median over the rounds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import click

import jdbcstore
from benchmarks import ours
from benchmarks.raw import RawPostgresql, RawSqlite
from jdbcstore import JdbcStore
from tests.servers.postgresql import PostgresqlServer, _programs

_DRAIN = 40_000

Raw = RawPostgresql | RawSqlite
Measure = tuple[str, Callable[[], float], str, Callable[[], float] | None]
"""What is measured, how, beside what, and how that is measured."""


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--only", type=click.Choice(["sqlite", "postgresql"]), multiple=True)
def main(rounds: int, only: tuple[str, ...]) -> None:
    for name, opened in (("sqlite", _sqlite), ("postgresql", _postgresql)):
        if only and name not in only:
            continue
        with opened() as (store, raw):
            _print(name, _measure(_measures(store, raw), rounds))


def _measures(store: JdbcStore, raw: Raw) -> list[Measure]:
    def drain() -> float:
        store.queue("BENCHMARK").remove_all_messages()
        ours.fill(store, _DRAIN)
        return ours.drain(store, 1000)

    single = "single-row commits, {} client(s)"
    return [
        *(
            (
                f"add, {threads} blocking thread(s)",
                lambda threads=threads: ours.blocking(store, threads),
                single.format(threads),
                lambda threads=threads: raw.single(threads),
            )
            for threads in (1, 4, 16)
        ),
        ("add, futures, window 1,000", lambda: ours.futures(store, 1000), "bulk, 1,000 a commit", raw.bulk),
        ("recover + acknowledge, batches of 1,000", drain, "", None),
    ]


def _measure(
    measures: list[Measure], rounds: int
) -> list[tuple[str, float, str, float | None, float | None]]:
    figures: list[list[tuple[float, float | None]]] = [[] for _ in measures]
    for _ in range(rounds):
        for collected, (_, our, _, peer) in zip(figures, measures, strict=True):
            beside = None if peer is None else peer()
            collected.append((our(), beside))
    results = []
    for collected, (what, _, peer_name, peer) in zip(figures, measures, strict=True):
        rate = median(our for our, _ in collected)
        if peer is None:
            results.append((what, rate, peer_name, None, None))
            continue
        pairs = [(our, beside) for our, beside in collected if beside is not None]
        ratio = median(our / beside for our, beside in pairs)
        results.append((what, rate, peer_name, median(beside for _, beside in pairs), ratio))
    return results


def _print(name: str, results: list[tuple[str, float, str, float | None, float | None]]) -> None:
    click.echo(f"\n### {name}\n\n| ours | per second | raw | per second | ratio |\n|---|---|---|---|---|")
    for what, rate, peer_name, peer, ratio in results:
        beside = "| | |" if peer is None or ratio is None else f"| {peer:,.0f} | {ratio:.2f} |"
        click.echo(f"| {what} | {rate:,.0f} | {peer_name} {beside}")


@contextmanager
def _sqlite() -> Iterator[tuple[JdbcStore, Raw]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "benchmark.db")
        with jdbcstore.open(f"sqlite:///{path}", cleanup_period=0.0) as store:
            raw = RawSqlite(path)
            yield store, raw
            raw.close()


@contextmanager
def _postgresql() -> Iterator[tuple[JdbcStore, Raw]]:
    server = PostgresqlServer()
    try:
        url = server.url.render_as_string(hide_password=False)
        with jdbcstore.open(url, cleanup_period=0.0) as store:
            raw = RawPostgresql(url, _programs() / "pgbench")
            yield store, raw
            raw.close()
    finally:
        server.close()


main()
