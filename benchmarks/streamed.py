"""``python -m benchmarks.streamed``: adds through a journal in a stream, in files, and without, as a table.

All on one machine, in turns within each round, in front of PostgreSQL: files beside a stream on one
nats-server and on three. ``quorum_disk`` needs the newer server of ``make nats``, on which the rest runs
then, too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import click

import jdbcstore
from benchmarks import ours
from benchmarks.journal import Row, measure_in_turns, print_rows
from jdbcstore import StoreConfig
from jdbcstore.abc import Store
from jdbcstore.config.journal import JournalConfig
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from tests.support.databases import PostgresqlDatabase
from tests.support.servers.postgresql import PostgresqlServer
from tests.support.streams import NEWER, NatsCluster, NatsServer

_THREADS = (1, 16, 64)
_IN_FLIGHT = 1000
_SYNCS = {"quorum_mem": "", "quorum_disk": "sync_interval: always\n"}


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--seconds", default=3.0, show_default=True, help="Of each measurement.")
def main(rounds: int, seconds: float) -> None:
    program = str(NEWER) if NEWER.exists() else None
    with ExitStack() as stack:
        server = PostgresqlServer()
        stack.callback(server.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stores = {
            "files": stack.enter_context(_journaled(server, JournalConfig(directory=str(folder / "files"))))
        }
        for sync, setting in _SYNCS.items():
            if sync == "quorum_disk" and program is None:
                continue
            one = stack.enter_context(NatsServer(program=program, jetstream=setting))
            three = stack.enter_context(NatsCluster(program=program, jetstream=setting))
            for replicas, url in ((1, one.url), (3, three.url)):
                config = JournalConfig(
                    directory=str(folder / "none"), stream=url, replicas=replicas, sync=sync
                )
                stores[f"{replicas}, {sync}"] = stack.enter_context(_journaled(server, config))
        stores["database alone"] = stack.enter_context(_plain(server))
        workloads: dict[str, Callable[..., float]] = {
            f"{threads} blocking thread{'s' if threads > 1 else ''}": partial(ours.blocking, threads=threads)
            for threads in _THREADS
        }
        workloads[f"futures, {_IN_FLIGHT:,} in flight"] = partial(ours.futures, window=_IN_FLIGHT)
        rows = [
            Row(what, {name: partial(_adds, store, measure, seconds) for name, store in stores.items()})
            for what, measure in workloads.items()
        ]
        measure_in_turns(rows, rounds)
        print_rows("A journal in a stream", rows, rounds)


def _adds(store: Store, measure: Callable[..., float], seconds: float) -> float:
    """Run the store, and leave nothing for the next measurement."""
    rate = measure(store, seconds=seconds)
    store.queue("BENCHMARK").remove_all_messages()
    return rate


@contextmanager
def _journaled(server: PostgresqlServer, config: JournalConfig) -> Iterator[Store]:
    database = PostgresqlDatabase(server.url)
    try:
        behind = JdbcStore(database.url, StoreConfig(cleanup_period=0.0), journaled=True)
        with JournaledStore(behind, config) as store:
            yield store
    finally:
        database.close()


@contextmanager
def _plain(server: PostgresqlServer) -> Iterator[Store]:
    database = PostgresqlDatabase(server.url)
    try:
        with jdbcstore.open(database.url, cleanup_period=0.0) as store:
            yield store
    finally:
        database.close()


if __name__ == "__main__":
    main()
