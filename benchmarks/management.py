"""``python -m benchmarks.management``: a broker with and without its management and metrics, in Markdown.

``rounds``: both run all the time, each on a separate SQLite file, and take turns in many short rounds. In
each, one after the other stores as many messages, and delivers them; in the middle, the one with management
is asked for ``/metrics`` and its destinations. Printed is the processor time of the brokers per message: the
median, and that of the ratios of the rounds with their quartiles. It depends less than a rate on what else
the machine does. With ``--before`` a third broker is that of another checkout, such as one without counters.

``memory``: each gets messages for very many queues, and loses them; then for as many others.
"""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import click

from benchmarks.stomp import READY
from benchmarks.stomp_client import BODY, connect
from tests.support import ROOT
from tests.support.ports import free_port

_WORKS = {"send": "SEND with receipt, 16 connections", "deliver": "delivery and ACK of each"}
_PATIENCE = 600
_END = b"\0"


@dataclass
class Broker:
    """A broker process, its ports, and the processor seconds per message that it has used."""

    port: int
    health: int | None
    process: int
    asked: bool = True
    """Whether a monitoring system polls it."""
    used: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _WORKS})
    scrapes: list[float] = field(default_factory=list)
    """Seconds that the answers took."""

    def cpu(self) -> float:
        """Return processor seconds of its threads; finer than those of ``/proc/PID/stat``."""
        threads = Path(f"/proc/{self.process}/task").glob("*/schedstat")
        return sum(int(path.read_text().split()[0]) for path in threads) / 1e9

    def memory(self) -> float:
        """Return its resident memory, in MB."""
        status = Path(f"/proc/{self.process}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    def scrape(self) -> None:
        """Request the pages of a monitoring system, if there is a management."""
        begun = time.perf_counter()
        for path in ("metrics", "api/destinations") if self.health and self.asked else ():
            self.ask(path)
        self.scrapes.append(time.perf_counter() - begun)

    def ask(self, path: str) -> bytes:
        """Request a page of its management."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/{path}", timeout=_PATIENCE) as answer:
            found: bytes = answer.read()
            return found

    def measure(self, count: int) -> None:
        """Store and deliver this many messages; the queue is empty before and after."""
        for work in _WORKS:
            before = self.cpu()
            scraping = threading.Thread(target=self.scrape)
            (self._send if work == "send" else self._deliver)(count, scraping)
            scraping.join()
            self.used[work].append((self.cpu() - before) / count)

    def _send(self, count: int, scraping: threading.Thread) -> None:
        frame = b"SEND\ndestination:/queue/BENCH\npersistent:true\nreceipt:r\n\n" + BODY + _END
        sockets = {one.fileno(): one for one in (connect(self.port) for _ in range(16))}
        poll = select.epoll()
        for number, one in sockets.items():
            poll.register(number, select.EPOLLIN)
            one.sendall(frame)
        sent, stored = len(sockets), 0
        while stored < count:
            for number, _ in poll.poll(_PATIENCE):
                data = sockets[number].recv(65536)
                assert data.startswith((b"RECEIPT", b"\n")), data
                if _END not in data:
                    continue
                stored += 1
                if stored == count // 2:
                    scraping.start()
                if sent < count:
                    sent += 1
                    sockets[number].sendall(frame)
        for one in sockets.values():
            one.close()

    def _deliver(self, count: int, scraping: threading.Thread) -> None:
        with connect(self.port) as consumer:
            consumer.sendall(b"SUBSCRIBE\nid:1\ndestination:/queue/BENCH\nack:client-individual\n\n\0")
            rest, acknowledged = b"", 0
            while acknowledged < count:
                data = consumer.recv(1 << 18)
                assert data, "the broker closed the connection"
                *frames, rest = (rest + data).split(_END)
                acks = []
                for frame in frames:
                    found = re.search(rb"\nack:([^\n]*)\n", frame)
                    assert found is not None, frame
                    acks.append(b"ACK\nid:%b\n\n\0" % found[1])
                    acknowledged += 1
                    if acknowledged == count // 2:
                        scraping.start()
                consumer.sendall(b"".join(acks))
            consumer.sendall(b"DISCONNECT\nreceipt:end\n\n\0")
            while b"RECEIPT" not in rest:
                rest += consumer.recv(65536)

    def fill(self, names: list[str]) -> None:
        """Store a message in each of these queues."""
        with connect(self.port) as one:
            for at in range(0, len(names), 500):
                some = names[at : at + 500]
                headers = (f"destination:/queue/{name}\npersistent:true\nreceipt:r\n" for name in some)
                one.sendall("".join(f"SEND\n{given}\nx\0" for given in headers).encode())
                _receive(one, len(some))

    def empty(self, pattern: str, count: int) -> None:
        """Consume this many messages from the queues of a pattern."""
        with connect(self.port) as one:
            one.sendall(f"SUBSCRIBE\nid:1\ndestination:/queue/{pattern}\nack:auto\n\n\0".encode())
            _receive(one, count)
            one.sendall(b"DISCONNECT\nreceipt:end\n\n\0")
            _receive(one, 1)

    def destinations(self) -> int:
        """Return the number of destinations in its memory."""
        found = re.findall(rb"(?m)^jdbcstore_destinations{.*} ([\d.e+]+)$", self.ask("metrics"))
        return int(sum(map(float, found)))


def _receive(one: socket.socket, frames: int) -> None:
    while frames > 0:
        data = one.recv(1 << 18)
        assert data, "the broker closed the connection"
        assert not data.startswith(b"ERROR"), data
        frames -= data.count(_END)


@click.group(help=__doc__)
def main() -> None: ...


@main.command()
@click.option("--rounds", default=60, show_default=True)
@click.option("--messages", default=5000, show_default=True, help="Of each round.")
@click.option("--before", type=click.Path(path_type=Path), help="Another checkout.")
@click.option("--unasked", is_flag=True, help="Nothing asks for metrics: answers weigh in short rounds.")
def rounds(rounds: int, messages: int, before: Path | None, unasked: bool) -> None:
    """Measure processor time per message."""
    with ExitStack() as stack:
        brokers = {
            "off": stack.enter_context(_running(ROOT, None)),
            "on": stack.enter_context(_running(ROOT, free_port())),
        }
        brokers["on"].asked = not unasked
        if before is not None:
            brokers["before"] = stack.enter_context(_running(before, None))
        for number in range(-2, rounds):
            for broker in [*brokers.values()][:: 1 if number % 2 else -1]:
                broker.measure(messages)
            if number < 0:  # a warm-up, not counted
                for broker in brokers.values():
                    for used in broker.used.values():
                        used.clear()
        heads = [*(f"{name}, µs" for name in brokers), *(f"on/{name}" for name in brokers if name != "on")]
        click.echo(f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
        on = brokers["on"].used
        for work, title in _WORKS.items():
            cells = [f"{1e6 * median(one.used[work]):.1f}" for one in brokers.values()]
            cells += [_ratio(on[work], one.used[work]) for name, one in brokers.items() if name != "on"]
            click.echo(f"| {title} | {' | '.join(cells)} |")


def _ratio(these: list[float], others: list[float]) -> str:
    """Format the median of the ratios of each round, their quartiles, and the ratio of the sums."""
    low, middle, high = quantiles([one / other for one, other in zip(these, others, strict=True)], n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f}; all together {sum(these) / sum(others):.3f})"


@main.command()
@click.option("--destinations", default=10_000, show_default=True)
@click.option("--generations", default=3, show_default=True)
@click.option("--seconds", default=75.0, show_default=True, help="To forget those that are idle.")
def memory(destinations: int, generations: int, seconds: float) -> None:
    """Measure resident memory with very many destinations."""
    with ExitStack() as stack:
        brokers = {
            "off": stack.enter_context(_running(ROOT, None)),
            "on": stack.enter_context(_running(ROOT, free_port())),
        }
        click.echo("| | off, MB | on, MB | destinations |\n|---|---|---|---|")

        def show(what: str) -> None:
            cells = [f"{broker.memory():.0f}" for broker in brokers.values()]
            click.echo(f"| {what} | {' | '.join(cells)} | {brokers['on'].destinations():,} |")

        for broker in brokers.values():
            broker.measure(1000)
            broker.scrape()
        show("none yet")
        for generation in range(generations):
            names = [f"G{generation}.{number:05}" for number in range(destinations)]
            for broker in brokers.values():
                broker.fill(names)
            show(f"{destinations:,} queues with a message")
            for broker in brokers.values():
                for _ in range(10):
                    broker.scrape()
            show("asked for metrics and destinations ten times")
            for broker in brokers.values():
                broker.empty(f"G{generation}.>", destinations)
            time.sleep(seconds)
            show("emptied, and forgotten")


@contextmanager
def _running(checkout: Path, health: int | None) -> Iterator[Broker]:
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jdbcstore", "--url", f"sqlite:///{folder}/mq.db", "broker"]
        command += ["--stomp", "127.0.0.1:0"]
        if health is not None:
            command += ["--health", f"127.0.0.1:{health}"]
        process = subprocess.Popen(
            command,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            ready = next(found for line in process.stdout if (found := READY.match(line)))
            yield Broker(int(ready[1]), health, process.pid)
        finally:
            process.terminate()
            process.communicate()


if __name__ == "__main__":
    main()
