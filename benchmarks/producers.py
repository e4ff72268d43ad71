"""``python -m benchmarks.producers``: CPU of our broker for a SEND with a receipt, as a Markdown table.

The same client sends prebuilt frames of STOMP and of OpenWire: each connection sends a message when the one
before is answered. A number of messages is sent, not a time waited, and the CPU is the kernel's exact account
of the broker's threads. With ``--tree``, brokers of other checkouts take turns with this one's.
With ``--busy-poll``, so does this one with that option. All have real-time priority where it is allowed.
"""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click

from benchmarks import cpu
from benchmarks.stomp_client import BODY, connect, send_frame
from jdbcstore import Destination
from tests.support.broker.openwire.client import Client
from tests.support.databases import PostgresqlDatabase
from tests.support.servers.postgresql import PostgresqlServer

_READY = re.compile(r"ready stomp=\S+:(\d+) \w+=\S+:(\d+) ")
_PROTOCOLS = ("STOMP", "OpenWire")


class Broker(NamedTuple):
    """A broker to measure, with its ports."""

    name: str
    process: int
    stomp: int
    openwire: int


class Line(NamedTuple):
    """A client's connection, the frame that it sends again and again, and what every answer contains."""

    socket: socket.socket
    frame: bytes
    answer: bytes


class Figures(NamedTuple):
    """CPU time and rate of a message."""

    microseconds: float
    rate: float


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True)
@click.option("--count", default=1000, show_default=True, help="Messages of each measurement.")
@click.option("--tree", "trees", multiple=True, type=click.Path(exists=True), help="Another checkout.")
@click.option("--busy-poll", metavar="SECONDS")
def main(rounds: int, count: int, trees: Sequence[str], busy_poll: str | None) -> None:
    with ExitStack() as stack:
        server = PostgresqlServer()
        stack.callback(server.close)
        brokers = [stack.enter_context(_broker(server, tree)) for tree in ("", *trees)]
        if busy_poll:
            brokers.append(stack.enter_context(_broker(server, "", busy_poll)))
        cpu.realtime()
        heads = [f"{one.name}, {protocol} | a second" for one in brokers for protocol in _PROTOCOLS]
        click.echo(f"| connections | {' | '.join(heads)} |")
        click.echo("|---" * (1 + 2 * len(heads)) + "|")
        for connections in (1, 4, 16):
            lines: dict[tuple[Broker, str], list[Line]] = {}
            for one in brokers:
                lines[one, "STOMP"] = [_stomp(one) for _ in range(connections)]
                lines[one, "OpenWire"] = [_openwire(one) for _ in range(connections)]
            measured: dict[tuple[Broker, str], list[Figures]] = {which: [] for which in lines}
            for _ in range(rounds + 1):
                for which, figures in measured.items():
                    figures.append(_measure(which[0], lines[which], count))
            cells = []
            for figures in measured.values():
                _warm_up, *counted = figures
                cells.append(f"{median(one.microseconds for one in counted):.0f} µs")
                cells.append(f"{median(one.rate for one in counted):,.0f}")
            click.echo(f"| {connections} | {' | '.join(cells)} |")
            for line in chain.from_iterable(lines.values()):
                line.socket.close()


def _stomp(broker: Broker) -> Line:
    return Line(connect(broker.stomp), send_frame(b"receipt:r\n"), b"\0")


def _openwire(broker: Broker) -> Line:
    client = Client(broker.openwire)
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Line(client.socket, client.message(Destination.queue("BENCH"), BODY), b"\x1e\0\0\0\0\0")


@contextmanager
def _broker(server: PostgresqlServer, tree: str, busy_poll: str = "") -> Iterator[Broker]:
    database = PostgresqlDatabase(server.url.set(drivername="postgresql+psycopg"))
    command = [sys.executable, "-m", "jdbcstore", "--url", database.url, "broker"]
    command += ["--stomp", "127.0.0.1:0", "--openwire", "127.0.0.1:0"]
    folder = tree or str(Path(__file__).parents[1])
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]),
            "JDBCSTORE_BROKER_BUSY_POLL": busy_poll,
        },
    )
    try:
        assert process.stdout is not None
        ready = next(found for line in process.stdout if (found := _READY.match(line)))
        yield Broker(f"{Path(folder).name} {busy_poll}".rstrip(), process.pid, int(ready[1]), int(ready[2]))
    finally:
        process.terminate()
        process.communicate()
        database.close()


def _measure(broker: Broker, lines: Sequence[Line], count: int) -> Figures:
    poll, by_number = select.epoll(), {line.socket.fileno(): line for line in lines}
    used, began = cpu.nanoseconds([broker.process]), time.perf_counter()
    for number, line in by_number.items():
        poll.register(number, select.EPOLLIN)
        line.socket.sendall(line.frame)
    sent, got = len(lines), 0
    while got < count:
        for number, _ in poll.poll(60):
            line = by_number[number]
            data = line.socket.recv(65536)
            assert data, "the broker closed the connection"
            assert b"ERROR" not in data, data
            if line.answer in data:
                got += 1
                if sent < count:
                    sent += 1
                    line.socket.sendall(line.frame)
    poll.close()
    seconds = time.perf_counter() - began
    return Figures((cpu.nanoseconds([broker.process]) - used) / count / 1000, count / seconds)


if __name__ == "__main__":
    main()
