"""``python -m benchmarks.fence``: what the fence costs, as a Markdown table.

A store without a locker and one with a lease take turns on one database; a ratio compares neighbours.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import click

from benchmarks import ours
from jdbcstore import Configuration, JdbcStore, Store, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from tests.servers.mariadb import MariadbServer
from tests.servers.postgresql import PostgresqlServer

_MEASURES: dict[str, Callable[[Store], float]] = {
    "add, 1 blocking thread": lambda store: ours.blocking(store, 1),
    "add, 16 blocking threads": lambda store: ours.blocking(store, 16),
    "add, futures, 1,000 under way": lambda store: ours.futures(store, 1000),
}


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
def main(rounds: int) -> None:
    click.echo("| | | without a fence | with it | ratio |\n|---|---|---|---|---|")
    for name, opened in (("SQLite", _sqlite), ("PostgreSQL", _postgresql), ("MariaDB", _mariadb)):
        with opened() as url:
            for what, measure in _MEASURES.items():
                pairs = [(_rate(url, measure, None), _rate(url, measure, _LEASE)) for _ in range(rounds)]
                without, fenced = (median(rates) for rates in zip(*pairs, strict=True))
                ratio = median(after / before for before, after in pairs)
                click.echo(f"| {name} | {what} | {without:,.0f} | {fenced:,.0f} | {ratio:.2f} |")


_LEASE = LeaseDatabaseLockerConfig()


def _rate(url: str, measure: Callable[[Store], float], locker: LeaseDatabaseLockerConfig | None) -> float:
    configuration = Configuration(
        data_source=DataSourceConfig(url=url), store=StoreConfig(cleanup_period=0.0), locker=locker
    )
    with JdbcStore.configured(configuration) as store:
        rate = measure(store)
        store.queue("BENCHMARK").remove_all_messages()
    return rate


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
