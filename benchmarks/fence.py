"""``python -m benchmarks.fence``: the cost of the fence, as a Markdown table.

A store without a locker and one with a lease, both open on one database, commit in turns, in one thread. The
figure is the 10th percentile of the commit times, which depends little on other load of the machine.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from statistics import quantiles

import click

from benchmarks.ours import BODY
from jdbcstore import Configuration, JdbcStore, Message, Store, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from tests.support.servers.mariadb import MariadbServer
from tests.support.servers.postgresql import PostgresqlServer

_COMMITS = 400


@click.command(help=__doc__)
@click.option("--commits", default=_COMMITS, show_default=True, help="Of each store.")
def main(commits: int) -> None:
    click.echo("| | messages per commit | without a fence | with it | ratio |\n|---|---|---|---|---|")
    for name, opened in databases():
        with opened() as url, _open(url, None) as bare, _open(url, _LEASE) as leased:
            for messages in (1, 100):
                without, fenced = _compare(bare, leased, messages, commits)
                row = f"{without * 1000:.2f} ms | {fenced * 1000:.2f} ms | {fenced / without:.2f}"
                click.echo(f"| {name} | {messages} | {row} |")


def _compare(bare: Store, leased: Store, messages: int, commits: int) -> tuple[float, float]:
    """Measure seconds per commit of each store: the 10th percentile, without commits that were disturbed."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(commits):
        for store, taken in zip((bare, leased), times, strict=True):
            batch = [Message(BODY) for _ in range(messages)]
            queue = store.queue("BENCHMARK")
            began = time.perf_counter()
            queue.add_messages(batch)
            taken.append(time.perf_counter() - began)
    bare.queue("BENCHMARK").remove_all_messages()
    without, fenced = (quantiles(taken, n=10)[0] for taken in times)
    return without, fenced


_LEASE = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=60.0)
"""Longer than a busy machine may delay a renewal."""


def _open(url: str, locker: LeaseDatabaseLockerConfig | None) -> JdbcStore:
    source = DataSourceConfig(url=url)
    config = StoreConfig(cleanup_period=0.0)
    return JdbcStore.configured(Configuration(data_source=source, store=config, locker=locker))


def databases() -> list[tuple[str, Callable[[], AbstractContextManager[str]]]]:
    """Return databases by name, each a block within which its URL can be used."""
    return [("SQLite", _sqlite), ("PostgreSQL", _postgresql), ("MariaDB", _mariadb)]


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
