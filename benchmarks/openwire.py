"""``python -m benchmarks.openwire``: our broker and a real ActiveMQ under a JMS client, as a Markdown table.

Both run all the time, each on a separate database of one PostgreSQL, ActiveMQ 5.17.2 with its JDBC store and
the JVM's own options, and take turns in each row of each round. Both are warmed up first. The client is one
Java program, ``OpenWireLoad.java``, with ActiveMQ's own JMS client. SEND over STOMP is measured on our broker
in the same rounds, by :mod:`benchmarks.stomp_client`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import click

from benchmarks import cpu
from tests.support.databases import Database
from tests.support.interop.activemq import Peer, classpath
from tests.support.jvm import compiled
from tests.support.servers.alone import server_of

_READY = re.compile(r"ready stomp=\S+:(\d+) \w+=(\S+:\d+) ")
_NAMES = {
    "send-1": "persistent sends, 1 producer",
    "send-4": "persistent sends, 4 producers",
    "send-16": "persistent sends, 16 producers",
    "transactions": "transactions of 100 sends",
    "async": "asynchronous persistent sends, window of 1 MiB",
    "drain-auto": "consume, automatic acknowledgement",
    "drain-client": "consume, client acknowledgement of 100",
    "drain-each": "consume, each acknowledged (INDIVIDUAL)",
    "drain-transacted": "consume, transactions of 100",
}
_STOMP = ("send-1", "send-4", "send-16")
_QUEUES = itertools.count(1)


@dataclass
class Measured:
    """The measurements of one broker and one workload, over the rounds."""

    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, result: dict[str, Any], used: float) -> None:
        self.rates.append(result["messages"] / result["seconds"])
        self.latencies += result["latencies"]
        self.cpu.append(used / max(result["messages"], 1))

    def percentiles(self) -> str:
        if len(self.latencies) < 2:
            return ""
        cuts = quantiles(self.latencies, n=1000)
        return " / ".join(f"{cuts[at]:.1f}" for at in (499, 949, 989))


class Load:
    """The Java program; a context manager that ends it."""

    def __init__(self) -> None:
        jars, source = classpath(), Path(__file__).with_name("OpenWireLoad.java")
        classes = compiled({source.name: source.read_text()}, jars)
        self._process = subprocess.Popen(
            ["java", "-Xmx512m", "-cp", f"{classes}:{jars}", "OpenWireLoad"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.communicate()

    def run(self, url: str, work: str, queue: str, seconds: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(url, work, queue, seconds, file=self._process.stdin, flush=True)
        result: dict[str, Any] = json.loads(self._process.stdout.readline())
        return result


@dataclass
class Broker:
    """A broker to measure, at its address."""

    url: str
    process: int
    stomp_port: int
    load: Load
    measured: dict[str, Measured] = field(default_factory=dict)

    def run(self, work: str, seconds: float) -> Measured:
        """Run the client's workload on a new queue; record the figures, and return all of this workload."""
        queue = f"BENCH.{next(_QUEUES)}"
        if work.startswith("drain"):
            self.load.run(self.url, "fill", queue, seconds)
        before = cpu.seconds(self.process)
        result = self.load.run(self.url, work, queue, seconds)
        measured = self.measured.setdefault(work, Measured())
        measured.add(result, cpu.seconds(self.process) - before)
        return measured

    def run_stomp(self, work: str, seconds: float) -> None:
        command = [sys.executable, "-m", "benchmarks.stomp_client", str(self.stomp_port), work, str(seconds)]
        before = cpu.seconds(self.process)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
        used = cpu.seconds(self.process) - before
        self.measured.setdefault(f"stomp-{work}", Measured()).add(json.loads(done.stdout), used)


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True)
@click.option("--seconds", default=4.0, show_default=True, help="Of each measurement.")
@click.option("--only", type=click.Choice(["jdbcstore", "activemq"]), help="To profile it.")
def main(rounds: int, seconds: float, only: str | None) -> None:
    with ExitStack() as stack:
        _, make = stack.enter_context(server_of("postgresql"))
        load = stack.enter_context(Load())
        brokers: dict[str, Broker] = {}
        for name, run in (("jdbcstore", run_ours), ("activemq", run_activemq)):
            if only in (None, name):
                brokers[name] = stack.enter_context(run(make, load))
        for number in range(rounds + 1):
            for broker in brokers.values():
                if number == 1:  # the first round was a warm-up
                    broker.measured.clear()
            for work in _NAMES:
                for name, broker in brokers.items():
                    broker.run(work, seconds)
                    if name == "jdbcstore" and work in _STOMP:
                        broker.run_stomp(work, seconds)
            click.echo(f"round {number} of {rounds}, load {os.getloadavg()[0]:.1f}", err=True)
        _print(brokers)


def _print(brokers: dict[str, Broker]) -> None:
    """Print messages per second, percentiles 50, 95, 99 of ms to a response, the broker's CPU per message."""
    heads = [f"{name} | ms to a response | CPU" for name in brokers]
    click.echo(f"| | {' | '.join(heads)} | rate | CPU |\n{'|---' * (3 * len(brokers) + 3)}|")
    for work, name in _NAMES.items():
        cells = [name]
        every = [broker.measured[work] for broker in brokers.values()]
        for one in every:
            cells += [f"{median(one.rates):,.0f}", one.percentiles(), f"{median(one.cpu) * 1e6:,.0f} µs"]
        rates = [ours / theirs for ours, theirs in zip(every[0].rates, every[-1].rates, strict=True)]
        costs = [ours / theirs for ours, theirs in zip(every[0].cpu, every[-1].cpu, strict=True)]
        click.echo(f"| {' | '.join(cells)} | {median(rates):.2f} | {median(costs):.2f} |")
    ours = brokers.get("jdbcstore")
    for work in _STOMP if ours is not None else ():
        assert ours is not None
        openwire, stomp = ours.measured[work], ours.measured[f"stomp-{work}"]
        ratio = median(ow / st for ow, st in zip(openwire.cpu, stomp.cpu, strict=True))
        click.echo(
            f"\nOur CPU, {_NAMES[work]}: OpenWire {median(openwire.cpu) * 1e6:.0f} µs,"
            f" STOMP {median(stomp.cpu) * 1e6:.0f} µs, ratio {ratio:.2f}"
        )


@contextmanager
def run_ours(make: Callable[[], Database], load: Load) -> Iterator[Broker]:
    database = make()
    command = [sys.executable, "-m", "jdbcstore", "--url", database.url, "broker"]
    command += ["--stomp", "127.0.0.1:0", "--openwire", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        ready = next(found for line in process.stdout if (found := _READY.match(line)))
        yield Broker(f"tcp://{ready[2]}", process.pid, int(ready[1]), load)
    finally:
        process.terminate()
        process.communicate()
        database.close()


@contextmanager
def run_activemq(make: Callable[[], Database], load: Load) -> Iterator[Broker]:
    database = make()
    login = (database.jdbc_url, database.username or "", database.password or "")
    try:
        with Peer(jvm_options=()) as peer, peer.broker(*login) as broker:
            yield Broker(broker.openwire_url, peer.pid, broker.stomp_port, load)
    finally:
        database.close()


if __name__ == "__main__":
    main()
