"""``python -m benchmarks.fence``: what the fence costs, as a Markdown table.

A store without a locker and one with a lease, both open on one database, take short turns. What is printed is
the best turn of each, so that it says little of what else the machine does, and the ratio of the two.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from benchmarks import ours
from jdbcstore import Configuration, JdbcStore, Store, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from tests.servers.mariadb import MariadbServer
from tests.servers.postgresql import PostgresqlServer

_TURN = 0.25
_MEASURES: dict[str, Callable[[Store], float]] = {
    "add, 1 blocking thread": lambda store: ours.blocking(store, 1, _TURN),
    "add, 16 blocking threads": lambda store: ours.blocking(store, 16, _TURN),
    "add, futures, 1,000 under way": lambda store: ours.futures(store, 1000, _TURN),
}


@click.command(help=__doc__)
@click.option("--rounds", default=40, show_default=True)
def main(rounds: int) -> None:
    click.echo("| | | without a fence | with it | ratio |\n|---|---|---|---|---|")
    for name, opened in (("SQLite", _sqlite), ("PostgreSQL", _postgresql), ("MariaDB", _mariadb)):
        with opened() as url, _open(url, None) as bare, _open(url, _LEASE) as leased:
            for what, measure in _MEASURES.items():
                pairs = [_pair(measure, bare, leased, number % 2 == 1) for number in range(rounds)]
                without, fenced = (max(rates) for rates in zip(*pairs, strict=True))
                click.echo(f"| {name} | {what} | {without:,.0f} | {fenced:,.0f} | {fenced / without:.2f} |")


_LEASE = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=60.0)
"""Longer than a busy machine may keep a renewal waiting."""


def _open(url: str, locker: LeaseDatabaseLockerConfig | None) -> JdbcStore:
    source = DataSourceConfig(url=url)
    config = StoreConfig(cleanup_period=0.0)
    return JdbcStore.configured(Configuration(data_source=source, store=config, locker=locker))


def _pair(
    measure: Callable[[Store], float], bare: Store, leased: Store, leased_first: bool
) -> tuple[float, float]:
    """What each of them does in a second."""
    rates = {store: measure(store) for store in ((leased, bare) if leased_first else (bare, leased))}
    bare.queue("BENCHMARK").remove_all_messages()
    return rates[bare], rates[leased]


@contextmanager
def _sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder, 'benchmark.db')}"


@contextmanager
def _postgresql() -> Iterator[str]:
    with ExitStack() as stack:
        server = PostgresqlServer()
        stack.callback(server.close)
        yield server.url.render_as_string(hide_password=False)


@contextmanager
def _mariadb() -> Iterator[str]:
    with ExitStack() as stack:
        server = MariadbServer()
        stack.callback(server.close)
        yield server.url.set(drivername="mariadb+pymysql").render_as_string(hide_password=False)


if __name__ == "__main__":
    main()
