"""Operations on a million messages while a client sends, by hand:

    python -m tests.long.operations --database postgresql --count 1000000

A broker process retries, moves and purges all messages of a queue, and deletes a queue with them. Of each,
the table has the seconds, the messages a second, how often its progress was seen, how long it took to stop,
and the receipts of a STOMP client that sends one message after the other meanwhile, in milliseconds.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import IPPROTO_TCP, TCP_NODELAY
from typing import Any

import click

import jdbcstore
from jdbcstore import Destination, Message
from jdbcstore.broker.operations import OPERATIONS
from jdbcstore.config.broker import Address
from tests.support.broker.api import ApiClient
from tests.support.broker.programs import BrokerProcess, Client
from tests.support.ports import free_port
from tests.support.servers.postgresql import PostgresqlServer

_DEAD, _BACK, _THERE = map(Destination.queue, ("ActiveMQ.DLQ", "ORDERS", "ARCHIVE"))
_TITLES = ("messages", "s", "per s", "progress", "stopped in", "median", "99 %", "worst", "worst of /api")
_BATCH = 5_000
_POLL = 0.25


@dataclass
class Traffic:
    """A client that sends one message after the other, and how long its receipts took."""

    port: int
    waits: list[float] = field(default_factory=list)

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
        while not self._stopping.wait(0.005):
            number += 1
            began = time.monotonic()
            self._client.send("/queue/LIVE", f"m{number}")
            self.waits.append(time.monotonic() - began)

    def taken(self) -> list[float]:
        """Return the waits since the last call."""
        waits, self.waits = self.waits, []
        return sorted(waits)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.close()


@contextmanager
def _url(database: str, folder: Path) -> Iterator[str]:
    if database == "sqlite":
        yield f"sqlite:///{folder}/mq.db"
        return
    server = PostgresqlServer()
    try:
        yield server.url.set(drivername="postgresql").render_as_string(hide_password=False)
    finally:
        server.close()


def _fill(url: str, count: int, size: int) -> None:
    cause = "java.lang.Throwable: Exceeded redelivery policy limit:RedeliveryPolicy {maximumRedeliveries = 6}"
    with jdbcstore.open(url) as store:
        for at in range(0, count, _BATCH):
            with store.transaction() as transaction:
                queue = transaction.queue(_DEAD)
                for number in range(at, min(at + _BATCH, count)):
                    properties = {"number": number, "dlqDeliveryFailureCause": cause}
                    queue.add_message(Message("x" * size, properties=properties, original_destination=_BACK))


def _act(api: ApiClient, traffic: Traffic, name: str, queue: Destination, **fields: Any) -> None:
    """Run an operation, watch its progress, and stop it once, if it can be."""
    stops = fields.pop("stops", False)
    operation = OPERATIONS[name]
    answer: list[tuple[int, dict[str, Any]]] = []

    def run() -> None:
        answer.append(api.ask(operation.method, operation.url(queue), fields or None, timeout=3600.0))

    traffic.taken()
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
    waits = traffic.taken()
    text = "" if stopped is None else f"{time.monotonic() - stopped:.2f} s"
    click.echo(
        f"| {name} | {outcome['count']:,} | {took:.1f} | {outcome['count'] / took:,.0f} | {seen} | {text} |"
        f" {1000 * waits[len(waits) // 2]:.1f} | {1000 * waits[int(0.99 * len(waits))]:.0f} |"
        f" {1000 * waits[-1]:.0f} | {1000 * slowest:.0f} |"
    )


@click.command(help=__doc__)
@click.option("--database", type=click.Choice(["sqlite", "postgresql"]), default="sqlite")
@click.option("--count", default=1_000_000, show_default=True)
@click.option("--size", default=200, show_default=True, help="Characters of a body.")
def main(database: str, count: int, size: int) -> None:
    folder, port = Path(tempfile.mkdtemp(prefix="jdbcstore-operations-")), free_port()
    with _url(database, folder) as url:
        _fill(url, count, size)
        options = ("--url", url, "--health", f"127.0.0.1:{port}")
        with BrokerProcess(folder, *options) as process:
            process.ready()
            api, traffic = ApiClient(Address("127.0.0.1", port)), Traffic(process.port)
            try:
                time.sleep(10)
                waits = traffic.taken()
                click.echo(f"alone: {1000 * waits[len(waits) // 2]:.1f} ms, worst {1000 * waits[-1]:.0f}")
                click.echo(f"| | {' | '.join(_TITLES)} |")
                click.echo(f"|---{len(_TITLES) * '|---'}|")
                _act(api, traffic, "retry", _DEAD, stops=True)
                _act(api, traffic, "retry", _DEAD)
                _act(api, traffic, "move", _BACK, to=str(_THERE))
                _act(api, traffic, "copy", _THERE, to=str(_BACK), limit=count // 10)
                _act(api, traffic, "purge", _THERE, stops=True)
                _act(api, traffic, "delete", _THERE)
                _act(api, traffic, "purge", _BACK)
            finally:
                traffic.close()


if __name__ == "__main__":
    main()
