"""``python -m benchmarks.failover``: the time without a master after a kill, as a Markdown table.

Two processes of ours, and two of the real ActiveMQ, take turns on one PostgreSQL. The master gets kill -9;
the figure is the time from then until the slave has stored its first message.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click

import jdbcstore
from tests.support.databases import Database, PostgresqlDatabase
from tests.support.failover.history import History
from tests.support.failover.member import Specification
from tests.support.failover.members import Member
from tests.support.interop.activemq import Broker, Peer
from tests.support.interop.messages import text
from tests.support.servers.postgresql import PostgresqlServer

_WAIT = 120.0


@dataclass(frozen=True)
class Periods:
    """Seconds: the duration of a lease or the interval of attempts, and the interval of checks."""

    locker: str
    name: str
    lease: float
    keep_alive: float
    wait: float
    """Time before the master is killed, so that the slave is waiting for the lock."""

    def options(self, directory: str) -> dict[str, Any]:
        """Return the same settings for ActiveMQ."""
        options: dict[str, Any] = {
            "acquire_ms": self.lease * 1000,
            "keep_alive_ms": self.keep_alive * 1000,
        }
        if self.locker == "lease":
            options["lease_ms"] = self.lease * 1000
        if self.locker == "file":
            options["lock_directory"] = directory
        return options


PERIODS = (
    Periods("lease", "default", 10.0, 5.0, 3.0),
    Periods("lease", "short", 2.0, 0.5, 3.0),
    Periods("database", "default", 10.0, 30.0, 3.0),
    Periods("database", "short", 1.0, 0.5, 3.0),
    Periods("file", "default", 10.0, 30.0, 3.0),
    Periods("file", "short", 1.0, 0.5, 3.0),
)


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
def main(rounds: int) -> None:
    click.echo("| locker | periods | jdbcstore | at most | ActiveMQ | at most |\n|---|---|---|---|---|---|")
    with ExitStack() as stack:
        server = PostgresqlServer()
        stack.callback(server.close)
        for periods in PERIODS:
            pairs = [
                (_measure(server, periods, _ours), _measure(server, periods, _theirs)) for _ in range(rounds)
            ]
            ours, theirs = zip(*pairs, strict=True)
            what = f"{periods.locker} | {periods.name}: {periods.lease:g} s, {periods.keep_alive:g} s"
            figures = [figure for times in (ours, theirs) for figure in (median(times), max(times))]
            click.echo(f"| {what} | " + " | ".join(f"{figure:.2f} s" for figure in figures) + " |")


Kill = Callable[[Database, Periods, str], float]


def _measure(server: PostgresqlServer, periods: Periods, kill: Kill) -> float:
    """Measure seconds between the kill of a master and the first message that the next one stored."""
    database = PostgresqlDatabase(server.url.set(drivername="postgresql+psycopg"))
    try:
        jdbcstore.open(database.url, cleanup_period=0.0).close()
        with TemporaryDirectory() as directory:
            return kill(database, periods, directory)
    finally:
        database.close()


def _ours(database: Database, periods: Periods, directory: str) -> float:
    history = History()
    with ExitStack() as stack:

        def start(name: str) -> Member:
            member = Member(
                Specification(
                    database.url, name, "broker", periods.locker, periods.lease, periods.keep_alive, directory
                ),
                history,
            )
            stack.callback(member.close)
            return member

        master = start("master")
        history.wait_stored(time.monotonic(), _WAIT)
        start("slave")
        history.wait_heard("slave", time.monotonic(), _WAIT)
        time.sleep(periods.wait)
        history.wait_stored(time.monotonic(), _WAIT)
        began = time.monotonic()
        master.process.kill()
        return history.wait_followed(history.epoch_of("master"), _WAIT).when - began


def _theirs(database: Database, periods: Periods, directory: str) -> float:
    options = periods.options(directory)
    login = (database.jdbc_url, database.username or "", database.password or "")
    message = [text("x" * 100)]
    with _peer() as master, _peer() as slave, ThreadPoolExecutor() as threads:
        master.broker(*login, **options).send("queue://Q", message)

        def follow() -> float:
            broker: Broker = slave.broker(*login, **options)
            broker.send("queue://Q", message)
            return time.monotonic()

        following = threads.submit(follow)
        time.sleep(periods.wait + _START)
        assert not following.done()
        began = time.monotonic()
        master.kill()
        return following.result(_WAIT) - began


_START = 5.0
"""Longer than a broker takes to start and to try the lock."""


@contextmanager
def _peer() -> Iterator[Peer]:
    peer = Peer(jvm_options=())
    try:
        yield peer
    finally:
        peer.kill()


if __name__ == "__main__":
    main()
