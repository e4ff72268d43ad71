"""``python -m benchmarks.console``: how long a broker takes for pages of its console, as a Markdown table.

There are many queues with a message each, some with a consumer, and one long queue. The times are those of
the header ``Server-Timing``: of the clock, and of the processor in the broker's loop, without the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, count, repeat
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

import click

import jdbcstore
from jdbcstore import Message
from tests.support.broker.console import ConsoleClient, console_of
from tests.support.broker.programs import Client
from tests.support.cli.console import console_on

_LONG = "LONG"
_DURATIONS = re.compile(r"page;dur=([\d.]+), cpu;dur=([\d.]+)")


@click.command(help=__doc__)
@click.option("--url", help="An empty database; by default an SQLite file.")
@click.option("--destinations", default=10_000, show_default=True)
@click.option("--messages", default=1_000_000, show_default=True, help="Of the long queue.")
@click.option("--consumers", default=1_000, show_default=True, help="Of a broker, on ten connections.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--apart", is_flag=True, help="Of jdbcstore console, without a broker.")
def main(url: str | None, destinations: int, messages: int, consumers: int, rounds: int, apart: bool) -> None:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        url = url or f"sqlite:///{Path(folder) / 'mq.db'}"
        _fill(url, destinations, messages)
        if apart:
            console = stack.enter_context(console_on(Path(folder), url))
        else:
            console, port = stack.enter_context(console_of(url))
            _consume(stack, port, consumers)
        click.echo("| page | ms, median | longest | processor, median |\n|---|---:|---:|---:|")
        for title, path in _pages(messages):
            clock, cpu = zip(*[_time(console, path) for _ in range(rounds)], strict=True)
            click.echo(f"| {title} | {median(clock):.0f} | {max(clock):.0f} | {median(cpu):.0f} |")


def _fill(url: str, destinations: int, messages: int) -> None:
    places = chain((f"Q{number:05}" for number in range(destinations)), repeat(_LONG, messages))
    with jdbcstore.open(url) as store:
        for names in _batches(places):
            with store.transaction() as transaction:
                for number, name in names:
                    transaction.queue(name).add_message(Message("x" * 200, properties={"n": number}))


def _consume(stack: ExitStack, port: int, consumers: int) -> None:
    """Begin to consume from the first queues, a message each, which is not acknowledged."""
    clients = [Client(port, acknowledges=False) for _ in range(10)]
    for client in clients:
        client.connect()
        stack.callback(client.close)
    for number in range(consumers):
        client = clients[number % len(clients)]
        client.connection.subscribe(f"/queue/Q{number:05}", id=str(number), ack="client-individual")


def _batches(places: Iterator[str]) -> Iterator[list[tuple[int, str]]]:
    numbered = zip(count(), places, strict=False)
    while batch := [one for one, _ in zip(numbered, range(2000), strict=False)]:
        yield batch


def _pages(messages: int) -> list[tuple[str, str]]:
    long = {"name": _LONG}
    return [
        ("overview", "/console"),
        ("queues", "/console/queues"),
        (
            "queues, page 50, the largest first",
            "/console/queues?" + urlencode({"sort": "size", "order": "desc", "page": 50}),
        ),
        ("consumers", "/console/consumers"),
        ("queues, searched", "/console/queues?search=99"),
        ("the long queue", "/console/queue?" + urlencode(long)),
        ("in its middle", "/console/queue?" + urlencode({**long, "after": messages // 2})),
        ("a selector that nothing matches", "/console/queue?" + urlencode({**long, "selector": "n < 0"})),
        ("a small queue", "/console/queue?name=Q00007"),
        ("dead letters", "/console/dead-letters"),
    ]


def _time(console: ConsoleClient, path: str) -> tuple[float, float]:
    page = console.ask("GET", path)
    found = _DURATIONS.search(page.headers["Server-Timing"] or "")
    if page.status != 200 or found is None:
        raise click.ClickException(f"{path}: {page.status} {page.text[:200]}")
    return float(found[1]), float(found[2])


if __name__ == "__main__":
    main()
