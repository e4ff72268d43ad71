"""``python -m tests.long.artemis``: what Artemis with its JDBC store does when it is killed, on PostgreSQL.

Four STOMP producers wait for receipts, one commits transactions of ten, and a consumer acknowledges each
message and waits for the receipt, until the broker ends by SIGKILL and is started again on its tables. Then a
primary and a backup share a database: the primary is killed, or stopped until its backup serves, and goes on.
``--broker jdbcstore`` kills ours instead, without a pair. docs/compared.md has the results.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database, PostgresqlDatabase
from tests.support.interop.artemis import TABLES, Artemis
from tests.support.servers.postgresql import PostgresqlServer
from tests.support.stomp import Frame, Wire

QUEUE = "/queue/KILLED"
PRODUCERS = 4
BATCH = 10


class Running(Protocol):
    """A broker that can be killed."""

    stomp_port: int

    def kill(self) -> None: ...


class Ours:
    """``jdbcstore broker`` in a process."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "jdbcstore", "--url", url, "broker", "--stomp", "127.0.0.1:0"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        lines = (re.match(r"ready stomp=\S+:(\d+)", line) for line in self._process.stdout)
        self.stomp_port = int(next(line for line in lines if line)[1])

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@dataclass
class History:
    """What the clients know."""

    confirmed: set[str] = field(default_factory=set)
    delivered: Counter[str] = field(default_factory=Counter)
    acknowledged: set[str] = field(default_factory=set)
    unmarked: set[str] = field(default_factory=set)
    """Delivered again without ``redelivered:true``."""
    order: list[str] = field(default_factory=list)
    """First deliveries."""

    def deliver(self, message: Frame) -> str:
        body = message.body.decode()
        if not self.delivered[body]:
            self.order.append(body)
        elif message.headers.get("redelivered") != "true":
            self.unmarked.add(body)
        self.delivered[body] += 1
        return body


def produce(port: int, name: str, history: History) -> None:
    """Send, and wait for each receipt, until the broker ends."""
    with suppress(OSError, AssertionError), Wire(port) as wire:
        wire.connect()
        for number in range(1_000_000):
            body = f"{name} {number}"
            wire.write("SEND", {"destination": QUEUE, "persistent": "true", "receipt": body}, body.encode())
            assert wire.read().headers["receipt-id"] == body
            history.confirmed.add(body)


def transact(port: int, name: str, history: History) -> None:
    """Commit transactions of ten, and wait for each receipt, until the broker ends."""
    with suppress(OSError, AssertionError), Wire(port) as wire:
        wire.connect()
        for number in range(1_000_000):
            bodies = [f"{name} {number * BATCH + one}" for one in range(BATCH)]
            wire.write("BEGIN", {"transaction": "t"})
            for body in bodies:
                wire.write(
                    "SEND", {"destination": QUEUE, "persistent": "true", "transaction": "t"}, body.encode()
                )
            wire.write("COMMIT", {"transaction": "t", "receipt": "c"})
            assert wire.read().headers["receipt-id"] == "c"
            history.confirmed.update(bodies)


def consume(port: int, history: History) -> None:
    """Acknowledge each message, and wait for the receipt, until the broker ends."""
    with suppress(OSError, AssertionError), Wire(port) as wire:
        wire.connect()
        wire.write("SUBSCRIBE", {"destination": QUEUE, "id": "1", "ack": "client-individual"})
        waiting: dict[str, str] = {}
        while True:
            frame = wire.read()
            if frame.command == "RECEIPT":
                history.acknowledged.add(waiting.pop(frame.headers["receipt-id"]))
                continue
            assert frame.command == "MESSAGE", frame
            receipt = frame.headers["ack"]
            waiting[receipt] = history.deliver(frame)
            wire.write("ACK", {"id": receipt, "receipt": receipt})


def drain(port: int, history: History) -> None:
    """Consume up to a message that is sent behind all others; twice, as some may have come back late."""
    for last in ("the end", "the very end"):
        with Wire(port) as wire:
            wire.connect()
            headers = {"destination": QUEUE, "persistent": "true", "receipt": "sent"}
            wire.write("SEND", headers, last.encode())
            assert wire.read().headers["receipt-id"] == "sent"
            wire.write("SUBSCRIBE", {"destination": QUEUE, "id": "1", "ack": "client-individual"})
            over = False
            while not over:
                frame = wire.read()
                if frame.command != "MESSAGE":
                    continue
                over = frame.body == last.encode()
                if not over:
                    history.deliver(frame)
                wire.write("ACK", {"id": frame.headers["ack"], "receipt": "done" if over else "one"})
            while wire.read().headers.get("receipt-id") != "done":
                pass


@dataclass
class Outcome:
    """The sums of all kills."""

    confirmed: int = 0
    lost: int = 0
    acknowledged_again: int = 0
    unmarked: int = 0
    again: int = 0
    out_of_order: int = 0
    partial: int = 0
    restarts: list[float] = field(default_factory=list)

    def add(self, history: History) -> None:
        self.confirmed += len(history.confirmed)
        self.lost += len(history.confirmed - history.delivered.keys())
        repeated = {body for body, count in history.delivered.items() if count > 1}
        self.again += len(repeated)
        self.acknowledged_again += len(repeated & history.acknowledged)
        self.unmarked += len(history.unmarked)
        last: dict[str, int] = {}
        for body in history.order:
            name, _, number = body.partition(" ")
            self.out_of_order += last.get(name, -1) > int(number)
            last[name] = max(last.get(name, -1), int(number))
        of_transactions = Counter(
            int(body.partition(" ")[2]) // BATCH for body in history.delivered if body.startswith("t ")
        )
        self.partial += sum(count != BATCH for count in of_transactions.values())


class _Start(Protocol):
    def __call__(self) -> Running: ...


def kills(start: _Start, count: int, chance: random.Random) -> Outcome:
    """Kill a broker under load as often, and sum up what its clients saw."""
    outcome = Outcome()
    broker = start()
    for number in range(count):
        history, port = History(), broker.stomp_port
        threads = [
            *(threading.Thread(target=produce, args=(port, f"p{one}", history)) for one in range(PRODUCERS)),
            threading.Thread(target=transact, args=(port, "t", history)),
            threading.Thread(target=consume, args=(port, history)),
        ]
        for thread in threads:
            thread.start()
        enough = chance.randrange(50, 500)
        wait_until(lambda: len(history.confirmed) >= enough, what=f"{enough} confirmed messages")  # noqa: B023
        broker.kill()
        for thread in threads:
            thread.join()
        begin = time.monotonic()
        broker = start()
        outcome.restarts.append(time.monotonic() - begin)
        drain(broker.stomp_port, history)
        outcome.add(history)
        print(f"kill {number + 1}: {outcome}", file=sys.stderr)  # noqa: T201
    broker.kill()
    return outcome


@contextmanager
def pair(database: Database) -> Iterator[tuple[Artemis, Artemis]]:
    """A primary that serves, and a backup that waits."""
    login = (database.jdbc_url, database.username or "", database.password or "")
    with Artemis(*login, role="primary") as primary:
        primary.await_ready()
        with Artemis(*login, role="backup") as backup:
            backup.await_waiting()
            yield primary, backup


def failover(server: PostgresqlServer, times: int) -> list[float]:
    """Return the seconds from the end of each primary until its backup serves."""
    seconds = []
    for _ in range(times):
        database = PostgresqlDatabase(server.url)
        try:
            with pair(database) as (primary, backup):
                primary.kill()
                begin = time.monotonic()
                backup.await_ready()
                seconds.append(time.monotonic() - begin)
        finally:
            database.close()
    return seconds


def goes_on(server: PostgresqlServer) -> tuple[bool, bool]:
    """Return whether a primary that was stopped still confirms a message, and whether its backup has it."""
    database = PostgresqlDatabase(server.url)
    try:
        with pair(database) as (primary, backup), Wire(primary.stomp_port) as wire:
            wire.connect({"heart-beat": "0,0"})
            os.kill(primary.pid, signal.SIGSTOP)
            backup.await_ready()
            headers = {"destination": QUEUE, "persistent": "true", "receipt": "late"}
            wire.write("SEND", headers, b"late")
            os.kill(primary.pid, signal.SIGCONT)
            try:
                confirmed = wire.read().command == "RECEIPT"
            except OSError:
                confirmed = False
            history = History()
            drain(backup.stomp_port, history)
            primary.kill()
            return confirmed, "late" in history.delivered
    finally:
        database.close()


def tables(database: Database) -> Iterator[str]:
    """Return a line for each table: its columns, and its rows."""
    for name in TABLES.values():
        columns = database.rows(
            "SELECT column_name, data_type FROM information_schema.columns"
            f" WHERE table_name = '{name}' ORDER BY ordinal_position"
        )
        [[rows]] = database.rows(f"SELECT count(*) FROM {name}") if columns else [["no"]]
        yield f"{name}: {', '.join(' '.join(column) for column in columns)}; {rows} rows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--failovers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=["artemis", "jdbcstore"], default="artemis")
    options = parser.parse_args()
    server = PostgresqlServer()
    database = PostgresqlDatabase(server.url.set(drivername="postgresql+psycopg"))
    started: list[Artemis] = []

    def artemis() -> Artemis:
        login = (database.jdbc_url, database.username or "", database.password or "")
        started.append(Artemis(*login))
        return started[-1].await_ready()

    def ours() -> Ours:
        return Ours(database.url)

    try:
        outcome = kills(
            artemis if options.broker == "artemis" else ours, options.kills, random.Random(options.seed)
        )
        middle = statistics.median(outcome.restarts) if outcome.restarts else 0.0
        print(f"{options.kills} kills: {outcome}; {middle:.1f} s until it serves again")  # noqa: T201
        if options.broker == "artemis":
            print(started[-1].version, *tables(database), sep="\n")  # noqa: T201
            seconds = failover(server, options.failovers)
            print(f"failover: {[round(one, 1) for one in seconds]} s")  # noqa: T201
            pairs = [goes_on(server) for _ in range(options.failovers)]
            print(f"a stopped primary goes on (it confirms, its backup has it): {pairs}")  # noqa: T201
    finally:
        for one in started:
            one.close()
        database.close()
        server.close()


if __name__ == "__main__":
    main()
