"""``python -m benchmarks.management``: a broker with and without its management, as a Markdown table.

Both run all the time, each on a separate SQLite file, and take turns in each row of each round. The one with
management is asked for ``/metrics`` and its destinations once a second. With ``--before`` a third one is that
of another checkout, such as one without counters.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click

from benchmarks.stomp import _READY, Broker
from tests.support import ROOT
from tests.support.broker.programs import free_port

_WORKS = {
    "send-16": "SEND with receipt, 16 connections",
    "transactions": "transactions of 100 SENDs, 1 connection",
    "drain-auto": "consume, `ack:auto`",
}
_PERIOD = 1.0


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True)
@click.option("--seconds", default=3.0, show_default=True, help="Of each measurement.")
@click.option("--before", type=click.Path(path_type=Path), help="Another checkout.")
def main(rounds: int, seconds: float, before: Path | None) -> None:
    with ExitStack() as stack:
        brokers = {
            "off": stack.enter_context(_running(ROOT, None)),
            "on": stack.enter_context(_running(ROOT, free_port())),
        }
        if before is not None:
            brokers["before"] = stack.enter_context(_running(before, None))
        for broker in brokers.values():  # a warm-up, not counted
            for work in _WORKS:
                broker.run(work, seconds)
            broker.measured = Broker(0, 0).measured
        for number in range(rounds):
            for work in _WORKS:
                for broker in [*brokers.values()][:: 1 if number % 2 else -1]:
                    broker.run(work, seconds)
        _print(brokers)


def _print(brokers: dict[str, Broker]) -> None:
    """Messages per second, the broker's CPU per message, and the median of its ratios."""
    heads = [f"{name} | CPU" for name in brokers]
    ratios = [f"CPU, on/{name}" for name in brokers if name != "on"]
    click.echo(f"| | {' | '.join([*heads, *ratios])} |\n{'|---' * (3 * len(brokers))}|")
    for work, name in _WORKS.items():
        every = {key: broker.measured[work] for key, broker in brokers.items()}
        cells = [name]
        for one in every.values():
            cells += [f"{median(one.rates):,.0f}", f"{median(one.cpu) * 1e6:,.1f} µs"]
        for key, one in every.items():
            if key != "on":
                pairs = zip(every["on"].cpu, one.cpu, strict=True)
                cells.append(f"{median(on / other for on, other in pairs):.2f}")
        click.echo(f"| {' | '.join(cells)} |")


@contextmanager
def _running(checkout: Path, health: int | None) -> Iterator[Broker]:
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jdbcstore", "--url", f"sqlite:///{folder}/mq.db", "broker"]
        command += ["--stomp", "127.0.0.1:0"]
        if health is not None:
            command += ["--health", f"127.0.0.1:{health}"]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        process = subprocess.Popen(
            command,
            cwd=checkout,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        stopping = threading.Event()
        try:
            assert process.stdout is not None
            ready = next(found for line in process.stdout if (found := _READY.match(line)))
            if health is not None:
                threading.Thread(target=_watch, args=(health, stopping), daemon=True).start()
            yield Broker(int(ready[1]), process.pid)
        finally:
            stopping.set()
            process.terminate()
            process.communicate()


def _watch(port: int, stopping: threading.Event) -> None:
    while not stopping.wait(_PERIOD):
        for path in ("metrics", "api/destinations"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
                answer.read()


if __name__ == "__main__":
    main()
