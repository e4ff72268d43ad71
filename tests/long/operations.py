"""Operations on a million messages while a client sends, by hand:

    python -m tests.long.operations --database postgresql --count 1000000

A broker process retries, moves and purges all messages of a queue, and deletes a queue with them. Of each,
the table has the seconds, the messages a second, how often its progress was seen, how long it took to stop,
and the receipts of a STOMP client that sends one message after the other meanwhile, in milliseconds.

Beside it runs a client of its own that has nothing to do with the broker: it commits a row, on PostgreSQL on
the same server, with SQLite in a database of its own on the same disk. What it waits is what the server or
the disk takes for that; the slowest receipts are printed with the wait of that client at the same time.
"""

from __future__ import annotations

import gc
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from socket import IPPROTO_TCP, TCP_NODELAY
from typing import Any

import click

import jdbcstore
from jdbcstore import Destination, Message
from jdbcstore.broker.operations import OPERATIONS
from jdbcstore.config.broker import Address
from tests.support.broker.api import ApiClient
from tests.support.broker.programs import BrokerProcess, Client, private_database
from tests.support.ports import free_port

_DEAD, _BACK, _THERE = map(Destination.queue, ("ActiveMQ.DLQ", "ORDERS", "ARCHIVE"))
_TITLES = (
    *("messages", "s", "per s", "progress", "stopped in", "median", "99 %", "worst", "worst of /api"),
    *("alone: median", "99 %", "worst"),
)
_BATCH = 5_000
_POLL = 0.25
_PAUSE = 0.005
_SHOWN = 5
Waits = list[tuple[float, float]]
"""When each began, by the monotonic clock of the machine, and how long it was."""


class Alone:
    """A process that commits something small, again and again, and how long that took."""

    def __init__(self, url: str, folder: Path) -> None:
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_commit_alone, args=(url, str(folder), other), daemon=True)
        self._process.start()

    def taken(self) -> Waits:
        """Return the waits since the last call."""
        self._pipe.send(None)
        waits: Waits = self._pipe.recv()
        return waits

    def close(self) -> None:
        self._process.kill()


def _commit_alone(url: str, folder: str, pipe: Connection) -> None:
    commit, waits = _something_small(url, folder), list[tuple[float, float]]()
    while True:
        if pipe.poll(_PAUSE):
            pipe.recv()
            pipe.send(waits)
            waits = []
        began = time.monotonic()
        commit()
        waits.append((began, time.monotonic() - began))


def _something_small(url: str, folder: str) -> Callable[[], object]:
    if url.startswith("postgresql"):
        import psycopg

        connection = psycopg.connect(url, autocommit=True)
        connection.execute("CREATE TABLE alone (id BIGSERIAL PRIMARY KEY, body TEXT)")
        return lambda: connection.execute("INSERT INTO alone (body) VALUES (%s)", ("x" * 200,))
    file = sqlite3.connect(f"{folder}/alone.db", isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "CREATE TABLE alone (body TEXT)",
    ):
        file.execute(statement)
    return lambda: file.execute("INSERT INTO alone VALUES (?)", ("x" * 200,))


@dataclass
class Traffic:
    """A client that sends one message after the other, and how long its receipts took."""

    port: int
    waits: Waits = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._client = Client(self.port)
        self._client.connect()
        # A frame is written in two parts: without this each waits for the other side's delayed ACK.
        self._client.connection.transport.socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        self._client.consume("/queue/LIVE")
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        number = 0
        while not self._stopping.wait(_PAUSE):
            number += 1
            began = time.monotonic()
            self._client.send("/queue/LIVE", f"m{number}")
            self.waits.append((began, time.monotonic() - began))

    def taken(self) -> Waits:
        """Return the waits since the last call."""
        waits, self.waits = self.waits, []
        return waits

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.close()


def _fill(url: str, count: int, size: int) -> None:
    cause = "java.lang.Throwable: Exceeded redelivery policy limit:RedeliveryPolicy {maximumRedeliveries = 6}"
    with jdbcstore.open(url) as store:
        for at in range(0, count, _BATCH):
            with store.transaction() as transaction:
                queue = transaction.queue(_DEAD)
                for number in range(at, min(at + _BATCH, count)):
                    properties = {"number": number, "dlqDeliveryFailureCause": cause}
                    queue.add_message(Message("x" * size, properties=properties, original_destination=_BACK))


def _said(waits: Waits) -> str:
    """The median, 99 of a hundred and the worst, in milliseconds."""
    found = sorted(1000 * wait for _, wait in waits)
    return f"{found[len(found) // 2]:.1f} | {found[int(0.99 * len(found))]:.0f} | {found[-1]:.0f}"


def _slowest(waits: Waits, alone: Waits, began: float) -> Iterator[str]:
    """The slowest ones: when, how long, and the longest wait at the same time of the client alone."""
    for at, wait in sorted(sorted(waits, key=lambda one: -one[1])[:_SHOWN]):
        beside = max((other for when, other in alone if when < at + wait and when + other > at), default=0.0)
        yield f"{at - began:.1f} s: {1000 * wait:.0f} ({1000 * beside:.0f})"


def _act(
    api: ApiClient, traffic: Traffic, alone: Alone, name: str, queue: Destination, **fields: Any
) -> None:
    """Run an operation, watch its progress, and stop it once, if it can be."""
    stops = fields.pop("stops", False)
    operation = OPERATIONS[name]
    answer: list[tuple[int, dict[str, Any]]] = []

    def run() -> None:
        answer.append(api.ask(operation.method, operation.url(queue), fields or None, timeout=3600.0))

    traffic.taken()
    alone.taken()
    began, seen, stopped, slowest = time.monotonic(), 0, None, 0.0
    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL)
        asked = time.monotonic()
        runs = api.get("/api/operations")
        slowest = max(slowest, time.monotonic() - asked)
        active = [one for one in runs if one["ended_ms"] is None]
        seen += bool(active)
        if stops and stopped is None and active and active[0]["seen"] and time.monotonic() - began > 2:
            api.post(f"/api/operations/{active[0]['id']}/stop")
            stopped = time.monotonic()
    took = time.monotonic() - began
    status, outcome = answer[0]
    assert status == 200, outcome
    waits, others = traffic.taken(), alone.taken()
    text = "" if stopped is None else f"{time.monotonic() - stopped:.2f} s"
    click.echo(
        f"| {name} | {outcome['count']:,} | {took:.1f} | {outcome['count'] / took:,.0f} | {seen} | {text} |"
        f" {_said(waits)} | {1000 * slowest:.0f} | {_said(others)} |"
    )
    click.echo(f"  the slowest: {', '.join(_slowest(waits, others, began))}", err=True)


@click.command(help=__doc__)
@click.option("--database", type=click.Choice(["sqlite", "postgresql"]), default="sqlite")
@click.option("--count", default=1_000_000, show_default=True)
@click.option("--size", default=200, show_default=True, help="Characters of a body.")
def main(database: str, count: int, size: int) -> None:
    folder, port = Path(tempfile.mkdtemp(prefix="jdbcstore-operations-")), free_port()
    with private_database(database, folder) as url:
        _fill(url, count, size)
        options = ("--url", url, "--health", f"127.0.0.1:{port}")
        with BrokerProcess(folder, *options) as process:
            process.ready()
            api, traffic = ApiClient(Address("127.0.0.1", port)), Traffic(process.port)
            alone = Alone(url, folder)
            act = partial(_act, api, traffic, alone)
            gc.collect()
            gc.freeze()  # a collection here would be taken for a slow receipt
            try:
                time.sleep(10)
                click.echo(f"without an operation: {_said(traffic.taken())}, alone {_said(alone.taken())}")
                click.echo(f"| | {' | '.join(_TITLES)} |")
                click.echo(f"|---{len(_TITLES) * '|---'}|")
                act("retry", _DEAD, stops=True)
                act("retry", _DEAD)
                act("move", _BACK, to=str(_THERE))
                act("copy", _THERE, to=str(_BACK), limit=count // 10)
                act("purge", _THERE, stops=True)
                act("delete", _THERE)
                act("purge", _BACK)
            finally:
                alone.close()
                traffic.close()


if __name__ == "__main__":
    main()
