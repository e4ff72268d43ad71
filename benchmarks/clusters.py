"""``python -m benchmarks.clusters``: the cost of a fence that writes, on clusters and on one server.

Two stores with a lease commit in turns, in one thread. The guards of one read a row, as on a single server,
and those of the other write it, which needs the UPDATE of two tables that MySQL and MariaDB have. The figure
is the 10th percentile of the commit times, which depends little on other load of the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from statistics import quantiles
from unittest.mock import patch

import click

from benchmarks.ours import BODY
from jdbcstore import Configuration, JdbcStore, Message, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from jdbcstore.database.adapters.base import Adapter
from tests.support.servers.galera import GaleraCluster
from tests.support.servers.group import GroupReplication
from tests.support.servers.mariadb import MariadbServer
from tests.support.servers.mysql import MysqlServer
from tests.support.servers.patroni import PatroniCluster
from tests.support.servers.postgresql import PostgresqlServer

_COMMITS = 300


@click.command(help=__doc__)
@click.option("--commits", default=_COMMITS, show_default=True, help="Of each store.")
def main(commits: int) -> None:
    click.echo(
        "| | messages per commit | guards read | messages a second"
        " | guards write | messages a second | ratio |"
    )
    click.echo("|---" * 7 + "|")
    for name, opened in _databases():
        with opened() as url:
            kinds = (False,) if url.startswith("postgresql") else (False, True)
            for messages in (1, 100):
                times = _compare(url, messages, commits, kinds)
                cells = [f"{taken * 1000:.2f} ms | {messages / taken:,.0f}" for taken in times]
                cells += [f"{times[1] / times[0]:.1f}"] if times[1:] else [" | ", ""]
                click.echo(f"| {name} | {messages} | {' | '.join(cells)} |")


def _compare(url: str, messages: int, commits: int, kinds: tuple[bool, ...]) -> list[float]:
    """Measure seconds per commit of each kind: the 10th percentile, without commits that were disturbed."""
    times: list[list[float]] = [[] for _ in kinds]
    for _ in range(5):
        for writes, taken in zip(kinds, times, strict=True):
            with patch.object(Adapter, "certifies", writes), _open(url) as store:
                queue = store.queue("BENCHMARK")
                for _ in range(commits // 5):
                    batch = [Message(BODY) for _ in range(messages)]
                    began = time.perf_counter()
                    queue.add_messages(batch)
                    taken.append(time.perf_counter() - began)
                queue.remove_all_messages()
    return [quantiles(taken, n=10)[0] for taken in times]


def _open(url: str) -> JdbcStore:
    configuration = Configuration(
        data_source=DataSourceConfig(url=url),
        store=StoreConfig(cleanup_period=0.0),
        # Longer than a busy machine may delay a renewal.
        locker=LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=60.0),
    )
    return JdbcStore.configured(configuration)


def _databases() -> list[tuple[str, Callable[[], AbstractContextManager[str]]]]:
    return [
        ("PostgreSQL, one server", _postgresql),
        ("PostgreSQL, Patroni, a synchronous standby", _patroni),
        ("MariaDB, one server", partial(_one, MariadbServer)),
        ("Galera, three nodes", _galera),
        ("MySQL, one server", partial(_one, MysqlServer)),
        ("Group Replication, two primaries", _group),
    ]


@contextmanager
def _postgresql() -> Iterator[str]:
    with closing(PostgresqlServer()) as server:
        yield server.url.render_as_string(hide_password=False)


@contextmanager
def _patroni() -> Iterator[str]:
    with closing(PatroniCluster()) as cluster:
        yield cluster.url()


@contextmanager
def _one(kind: type[MariadbServer]) -> Iterator[str]:
    with closing(kind()) as server:
        # As the nodes of the clusters.
        server.execute_as_administrator("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        url = server.url.render_as_string(hide_password=False)
        yield url


@contextmanager
def _galera() -> Iterator[str]:
    with closing(GaleraCluster()) as cluster:
        yield cluster.urls()[0]


@contextmanager
def _group() -> Iterator[str]:
    with closing(GroupReplication()) as group:
        yield group.urls()[0]


if __name__ == "__main__":
    main()
