"""A failover pair of the real ActiveMQ and jdbcstore, on one PostgreSQL.

``python -m tests.support.interop.pair --rounds 10`` kills each in turn, for longer than the tests do.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import IO, Any

import click

import jdbcstore
from jdbcstore import Configuration, JdbcStore, Message, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import DatabaseLockerConfig, LeaseDatabaseLockerConfig, LockerConfig
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database, PostgresqlDatabase
from tests.support.interop.activemq import Broker, Peer
from tests.support.interop.messages import text
from tests.support.servers import PostgresqlServer

LEASE = 6.0
WAIT = 120.0
_LEASES = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=LEASE, lock_keep_alive_period=LEASE / 4)
LOCKERS: dict[str, tuple[LockerConfig, dict[str, Any], float]] = {
    "lease": (_LEASES, {"lease_ms": LEASE * 1000}, LEASE * 1.25),
    "database": (DatabaseLockerConfig(lock_keep_alive_period=0.5), {}, 0.3),
}
"""Ours, an ActiveMQ's options, and for how long the one that waits must go on waiting."""
_ATTEMPTS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND query ILIKE '%activemq_lock%' AND (application_name LIKE '%JDBC%') = :java"
)
_MANY = 20


class Pair:
    """A database, and an ActiveMQ that is its master between two rounds."""

    def __init__(self, database: Database, locker: str) -> None:
        self._database = database
        self._locker = locker
        _, self._options, self._patience = LOCKERS[locker]
        self._peers: list[Peer] = []
        self._threads = ThreadPoolExecutor()
        jdbcstore.open(database.url, cleanup_period=0.0).close()
        self._broker = self._start_broker()

    def hand_over(self) -> None:
        """Kill the broker, and then the process of ours that follows; the next one has all messages."""
        sent = [f"theirs {number}" for number in range(_MANY)]
        self._broker.send("queue://Q", [text(body) for body in sent])
        ours = self._start_ours()
        assert ours.stdout is not None
        lines: IO[str] = ours.stdout
        try:
            self._must_wait(False, lambda patience: bool(select.select([lines], [], [], patience)[0]))
            self._peers.pop().kill()
            assert json.loads(lines.readline()) == sent
            following = self._threads.submit(self._start_broker)
            self._must_wait(True, lambda patience: bool(wait([following], patience).done))
        finally:
            ours.kill()
            ours.communicate()
        self._broker = following.result(WAIT)
        assert len(self._broker.receive("queue://Q", 2 * _MANY)) == 2 * _MANY
        wait_until(self._is_empty, WAIT, "that all are consumed")

    def close(self) -> None:
        for peer in self._peers:
            peer.kill()
        self._threads.shutdown()

    def _start_broker(self) -> Broker:
        """A broker in a JVM of its own, once it is the master."""
        peer = Peer()
        self._peers.append(peer)
        login = (self._database.jdbc_url, self._database.username or "", self._database.password or "")
        return peer.broker(*login, **self._options)

    def _start_ours(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from tests.support.interop.pair import serve; serve({self._locker!r})",
                self._database.url,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _must_wait(self, java: bool, ended: Callable[[float], bool]) -> None:
        """See that the other has come as far as the lock, and does not get it."""
        wait_until(lambda: self._database.rows(_ATTEMPTS, java=java), WAIT, "that the other tries")
        assert not ended(self._patience)

    def _is_empty(self) -> bool:
        return self._database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == []


def serve(locker: str) -> None:
    """What our process does: once it is the master it tells what there is, stores more, and waits."""
    configuration = Configuration(
        data_source=DataSourceConfig(url=sys.argv[1]),
        store=StoreConfig(cleanup_period=0.0),
        locker=LOCKERS[locker][0],
    )
    with JdbcStore.configured(configuration) as store:
        queue = store.queue("Q")
        found = [message.body for message in queue.recover()]
        for number in range(_MANY):
            queue.add_message(Message(f"ours {number}"))
        print(json.dumps(found), flush=True)  # noqa: T201
        sys.stdin.readline()


@click.command(help=__doc__)
@click.option("--rounds", default=10, show_default=True)
def main(rounds: int) -> None:
    server = PostgresqlServer()
    try:
        for locker in LOCKERS:
            database = PostgresqlDatabase(server.url)
            pair = Pair(database, locker)
            try:
                for _ in range(rounds):
                    pair.hand_over()
            finally:
                pair.close()
            click.echo(f"{locker}: {rounds} times there and back, all messages served")
    finally:
        server.close()


if __name__ == "__main__":
    main()
