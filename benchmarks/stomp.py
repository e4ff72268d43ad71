"""``python -m benchmarks.stomp``: our broker and a real ActiveMQ over STOMP, as a Markdown table.

Both run all the time, each on a separate database of one PostgreSQL, ActiveMQ 5.17.2 with its JDBC store and
the JVM's own options, and take turns in each row of each round. Both are warmed up first. The client is one
program, :mod:`benchmarks.stomp_client`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

import click

from benchmarks import cpu
from tests.support.databases import PostgresqlDatabase
from tests.support.interop.activemq import Peer
from tests.support.servers.postgresql import PostgresqlServer

READY = re.compile(r"ready stomp=\S+:(\d+) ")
_NAMES = {
    "send-1": "SEND with receipt, 1 connection",
    "send-4": "SEND with receipt, 4 connections",
    "send-16": "SEND with receipt, 16 connections",
    "transactions": "transactions of 100 SENDs, 1 connection",
    "drain-auto": "consume, `ack:auto`",
    "drain-client": "consume, `ack:client`, an ACK for each",
    "drain-transacted": "consume, transactions of 100 ACKs",
}


@dataclass
class Measured:
    """The measurements of one broker and one workload, over the rounds."""

    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    client_cpu: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def percentiles(self) -> str:
        if len(self.latencies) < 100:
            return ""
        cuts = quantiles(self.latencies, n=1000)
        return " / ".join(f"{cuts[at]:.1f}" for at in (499, 949, 989))


@dataclass
class Broker:
    """A broker to measure, at its port."""

    port: int
    process: int
    measured: dict[str, Measured] = field(default_factory=dict)

    def run(self, work: str, seconds: float) -> Measured:
        """Run the client's workload; record the figures, and return all of this workload.

        Afterwards the queue is empty.
        """
        if work.startswith("drain"):
            self._client("fill", seconds)
        before = cpu.seconds(self.process)
        result = self._client(work, seconds)
        used = cpu.seconds(self.process) - before
        self._client("purge", 0.0)
        measured = self.measured.setdefault(work, Measured())
        measured.cpu.append(used / result["messages"])
        measured.rates.append(result["messages"] / result["seconds"])
        measured.latencies += result["latencies"]
        measured.client_cpu.append(result["client_cpu"])
        return measured

    def warm_up(self, messages: int) -> None:
        """Send at least this many, sixteen at a time, and consume them."""
        while messages > 0:
            messages -= self._client("send-16", 2.0)["messages"]
        self._client("purge", 0.0)

    def fill(self, messages: int) -> None:
        """Leave this many messages in the queue."""
        self._client("backlog", messages)

    def _client(self, work: str, seconds: float) -> dict[str, Any]:
        command = [sys.executable, "-m", "benchmarks.stomp_client", str(self.port), work, str(seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
        result: dict[str, Any] = json.loads(done.stdout)
        return result


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True)
@click.option("--seconds", default=4.0, show_default=True, help="Of each measurement.")
@click.option("--only", type=click.Choice(["jdbcstore", "activemq"]), help="To profile it.")
def main(rounds: int, seconds: float, only: str | None) -> None:
    with ExitStack() as stack:
        server = PostgresqlServer()
        stack.callback(server.close)
        brokers = {}
        for name, run in (("jdbcstore", _ours), ("activemq", _theirs)):
            if only in (None, name):
                brokers[name] = stack.enter_context(run(server))
        for broker in brokers.values():  # a warm-up, not counted
            for work in _NAMES:
                broker.run(work, seconds)
            broker.measured.clear()
        for _ in range(rounds):
            for work in _NAMES:
                for broker in brokers.values():
                    broker.run(work, seconds)
        _print(brokers)


def _print(brokers: dict[str, Broker]) -> None:
    """Print messages per second, percentiles 50, 95, 99 of ms to a receipt, the broker's CPU per message."""
    heads = [f"{name} | ms to a receipt | CPU | client's CPU" for name in brokers]
    click.echo(f"| | {' | '.join(heads)} | ratio |\n{'|---' * (4 * len(brokers) + 2)}|")
    for work, name in _NAMES.items():
        cells = [name]
        every = [broker.measured[work] for broker in brokers.values()]
        for one in every:
            cells += [f"{median(one.rates):,.0f}", one.percentiles()]
            cells += [f"{median(one.cpu) * 1e6:,.0f} µs", f"{median(one.client_cpu):.0%}"]
        ratios = [ours / theirs for ours, theirs in zip(every[0].rates, every[-1].rates, strict=True)]
        click.echo(f"| {' | '.join(cells)} | {median(ratios):.2f} |")


@contextmanager
def _ours(server: PostgresqlServer) -> Iterator[Broker]:
    database = PostgresqlDatabase(server.url.set(drivername="postgresql+psycopg"))
    command = [sys.executable, "-m", "jdbcstore", "--url", database.url, "broker", "--stomp", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        ready = next(found for line in process.stdout if (found := READY.match(line)))
        yield Broker(int(ready[1]), process.pid)
    finally:
        process.terminate()
        process.communicate()
        database.close()


@contextmanager
def _theirs(server: PostgresqlServer) -> Iterator[Broker]:
    database = PostgresqlDatabase(server.url)
    login = (database.jdbc_url, database.username or "", database.password or "")
    try:
        with Peer(jvm_options=()) as peer, peer.broker(*login) as broker:
            yield Broker(broker.stomp_port, peer.pid)
    finally:
        database.close()


if __name__ == "__main__":
    main()
