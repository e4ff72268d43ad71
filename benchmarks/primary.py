"""``python -m benchmarks.primary``: the time to serve again after a primary is killed, as a Markdown table.

One thread adds messages to a store with a lease, and another adds rows through the driver alone, each to
whatever node takes its write. The server that has the store's connections gets kill -9. The figures are the
times from then until the driver, and the store, have committed again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from statistics import median
from typing import Any

import click
import psycopg
import pymysql

from benchmarks.ours import BODY
from jdbcstore import Configuration, JdbcStore, Message, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from jdbcstore.testing.polling import wait_until
from tests.support.servers.galera import GaleraCluster, GaleraNode
from tests.support.servers.patroni import PatroniCluster

_TABLE = "CREATE TABLE PROBES (N INTEGER NOT NULL)"
_PROBE = "INSERT INTO PROBES VALUES (1)"
_BEFORE = 1.0
"""Seconds of writing before the kill."""
_PATIENCE = 180.0


class _Writer(threading.Thread):
    """Writes without end, and notes when each write that was committed began and ended."""

    def __init__(self, write: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._write = write
        self._ends = threading.Event()
        self._committed: list[tuple[float, float]] = []

    def run(self) -> None:
        while not self._ends.wait(0.01):
            began = time.perf_counter()
            try:
                self._write()
            except (psycopg.Error, pymysql.Error, OSError):
                continue
            self._committed.append((began, time.perf_counter()))

    def seconds_from(self, killed: float) -> float | None:
        """Return the seconds until the first write that began after the kill was committed."""
        ends = [end for began, end in self._committed if began > killed]
        return ends[0] - killed if ends else None

    def end(self) -> None:
        self._ends.set()
        self.join()


@click.command(help=__doc__)
@click.option("--kills", default=20, show_default=True, help="Of each cluster.")
def main(kills: int) -> None:
    click.echo(
        "| | kills | driver commits again after | store commits again after | later by, median | at most |"
    )
    click.echo("|---|---|---|---|---|---|")
    for name, opened in (("PostgreSQL, Patroni", _patroni), ("Galera, three nodes", _galera)):
        with opened() as (url, probe, kill):
            pairs = _measure(url, probe, kill, kills)
        driver, store = (median(each) for each in zip(*pairs, strict=True))
        later = [own - bare for bare, own in pairs]
        figures = f"{driver:.1f} s | {store:.1f} s | {median(later):.1f} s | {max(later):.1f} s"
        click.echo(f"| {name} | {kills} | {figures} |")


def _measure(
    url: str, probe: Callable[[], object], kill: Callable[[], Callable[[], object]], kills: int
) -> list[tuple[float, float]]:
    pairs = []
    configuration = Configuration(
        data_source=DataSourceConfig(url=url),
        store=StoreConfig(cleanup_period=0.0, reconnect_timeout=120.0),
        locker=LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=120.0),
    )
    with JdbcStore.configured(configuration) as store:
        queue = store.queue("BENCHMARK")
        for _ in range(kills):
            bare, own = _Writer(probe), _Writer(lambda: queue.add_message(Message(BODY)))
            for writer in (bare, own):
                writer.start()
            time.sleep(_BEFORE)
            restart = kill()
            killed = time.perf_counter()
            pairs.append((_first(bare, killed), _first(own, killed)))
            for writer in (bare, own):
                writer.end()
            restart()
    return pairs


def _first(writer: _Writer, killed: float) -> float:
    seconds = wait_until(lambda: writer.seconds_from(killed), _PATIENCE, "a write after the kill")
    assert seconds is not None
    return seconds


_Cluster = tuple[str, Callable[[], object], Callable[[], Callable[[], object]]]


@contextmanager
def _patroni() -> Iterator[_Cluster]:
    with closing(PatroniCluster()) as cluster:
        url = cluster.url()

        hosts = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
        address = f"postgresql://{cluster.username}:{cluster.password}@{hosts}/{cluster.username}"
        address += "?target_session_attrs=read-write&connect_timeout=2"

        def run(statement: str) -> None:
            with psycopg.connect(address) as connection:
                connection.execute(statement)

        def kill() -> Callable[[], object]:
            cluster.primary().kill_server()
            return cluster.wait

        run(_TABLE)
        yield url, lambda: run(_PROBE), kill


@contextmanager
def _galera() -> Iterator[_Cluster]:
    with closing(GaleraCluster()) as cluster:
        first = cluster.nodes[0]
        hosts = "&".join(f"host={node.host}:{node.port}" for node in cluster.nodes)
        url = f"mariadb+pymysql://{first.username}:{first.password}@/{first.username}?{hosts}"
        users = f"SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{first.username}'"

        def write() -> None:
            for node in cluster.nodes:
                try:
                    connection = _connect(node)
                except pymysql.Error:
                    continue
                with connection, connection.cursor() as cursor:
                    cursor.execute(_PROBE)
                    return
            raise OSError("no node answers")

        def kill() -> Callable[[], object]:
            [*others, used] = sorted(cluster.nodes, key=lambda node: node.rows(users))
            used.kill()

            def restart() -> None:
                for node in others:
                    node.wait_for_group(2)
                used.start()
                used.wait()

            return restart

        first.execute_as_administrator(f"CREATE TABLE {first.username}.PROBES (N INTEGER NOT NULL)")
        yield url, write, kill


def _connect(node: GaleraNode) -> Any:
    return pymysql.connect(
        host=node.host,
        port=node.port,
        user=node.username,
        password=node.password,
        database=node.username,
        autocommit=True,
        connect_timeout=2,
    )


if __name__ == "__main__":
    main()
