"""``python -m benchmarks.jdbc``: the store and ActiveMQ's JDBC store, as a Markdown table.

Each on a separate database of one PostgreSQL, in turns within each round: threads that add a message of 1 KB
and wait for its commit, and one that commits a hundred in a transaction. ActiveMQ 5.17.2 is measured with
JMS producers in its own JVM, with the JVM's own options, after it is warmed up.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median

import click

import jdbcstore
from benchmarks import ours
from jdbcstore import Store
from tests.support.databases import PostgresqlDatabase
from tests.support.interop.activemq import Broker, Peer
from tests.support.servers.postgresql import PostgresqlServer

_BATCH = 100
_WORK = {
    "1 blocking producer": (1, 1),
    "4 blocking producers": (4, 1),
    "16 blocking producers": (16, 1),
    "transactions of 100": (1, _BATCH),
}
"""Producers, and messages of a transaction."""
_FIRST_RATE = 1000.0


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True)
@click.option("--seconds", default=3.0, show_default=True, help="Of each measurement.")
def main(rounds: int, seconds: float) -> None:
    with ExitStack() as stack:
        server = PostgresqlServer()
        stack.callback(server.close)
        mine, other = PostgresqlDatabase(server.url), PostgresqlDatabase(server.url)
        stack.callback(mine.close)
        stack.callback(other.close)
        store = stack.enter_context(jdbcstore.open(mine.url, cleanup_period=0.0))
        peer = stack.enter_context(Peer(jvm_options=()))
        login = (other.jdbc_url, other.username or "", other.password or "")
        activemq = stack.enter_context(peer.broker(*login))
        rates: dict[str, list[tuple[float, float]]] = {name: [] for name in _WORK}
        last = dict.fromkeys(_WORK, _FIRST_RATE)
        for number in range(rounds + 1):
            for name, (producers, batch) in _WORK.items():
                theirs = last[name] = _theirs(activemq, producers, batch, last[name] * seconds)
                if number:  # the first round was a warm-up
                    rates[name].append((_ours(store, producers, batch, seconds), theirs))
            click.echo(f"round {number} of {rounds}, load {os.getloadavg()[0]:.1f}", err=True)
    click.echo("| per second | jdbcstore | ActiveMQ | ratio |\n|---|---|---|---|")
    for name, pairs in rates.items():
        ratio = median(one / two for one, two in pairs)
        one, two = (median(column) for column in zip(*pairs, strict=True))
        click.echo(f"| {name} | {one:,.0f} | {two:,.0f} | {ratio:.2f} |")


def _theirs(broker: Broker, producers: int, batch: int, messages: float) -> float:
    """Measure sends per second; the queue is empty afterwards."""
    least = producers * batch
    rate: float = broker.bench(producers, max(least, round(messages)), batch)["sent_per_second"]
    return rate


def _ours(store: Store, producers: int, batch: int, seconds: float) -> float:
    measure: Callable[[], float] = partial(ours.blocking, store, producers, seconds)
    rate = measure() if batch == 1 else ours.transactions(store, batch, seconds)
    store.queue("BENCHMARK").remove_all_messages()
    return rate


if __name__ == "__main__":
    main()
