"""CPU per message of this process, by the way in which messages are added and acknowledged.

``python -m benchmarks.batches`` measures a store on SQLite, and a journal without its checkpoints. The ways
take turns in each round, because the machine may be busy with other work; figures are medians of rounds.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import click

import jdbcstore
from benchmarks.journaled import Journaled
from benchmarks.ours import BODY
from jdbcstore import Destination, Message, Store

_NAME = "BENCHMARK"
_AHEAD = 1_000
"""Messages in flight."""

Way = Callable[[Store, int], None]


def single(store: Store, count: int) -> None:
    """Add messages with a future each."""
    queue = store.queue(_NAME)
    _in_flight((lambda: queue.add_message_async(Message(BODY)) for _ in range(count)), _AHEAD)


def batches(size: int) -> Way:
    """Make a way that adds batches with a future each."""

    def add(store: Store, count: int) -> None:
        queue = store.queue(_NAME)
        starts = (
            lambda: queue.add_messages_async([Message(BODY) for _ in range(size)])
            for _ in range(count // size)
        )
        _in_flight(starts, _AHEAD // size)

    return add


def each(size: int) -> Way:
    """Make a way that adds batches whose messages are refused individually, each in its own destination."""
    destination = Destination.queue(_NAME)

    def add(store: Store, count: int) -> None:
        starts = (
            lambda: store.add_each_async([Message(BODY, destination=destination) for _ in range(size)])
            for _ in range(count // size)
        )
        _in_flight(starts, _AHEAD // size)

    return add


def acknowledged(size: int) -> Way:
    """Make a way that acknowledges this many messages by sequence in one call."""

    def acknowledge(store: Store, count: int) -> None:
        queue = store.queue(_NAME)
        last = store.last_sequence()
        numbers = range(last - count + 1, last + 1)
        parts: Iterator[Sequence[int]] = (numbers[at : at + size] for at in range(0, count, size))
        _in_flight((lambda part=part: queue.acknowledge_async(*part) for part in parts), _AHEAD // size)  # type: ignore[misc]

    return acknowledge


def _in_flight(starts: Iterator[Callable[[], Future[Any]]], window: int) -> None:
    waiting: deque[Future[Any]] = deque()
    for start in starts:
        if len(waiting) >= max(2, window):
            waiting.popleft().result()
        waiting.append(start())
    while waiting:
        waiting.popleft().result()


_WAYS: dict[str, tuple[Way, Way]] = {
    "one by one": (single, acknowledged(1)),
    "batches of 10": (batches(10), acknowledged(10)),
    "batches of 100": (batches(100), acknowledged(100)),
    "batches of 500": (batches(500), acknowledged(500)),
    "each of 100": (each(100), acknowledged(100)),
}


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True)
@click.option("--count", default=20_000, show_default=True, help="Messages of a measurement.")
def main(rounds: int, count: int) -> None:
    for name, opened in (("store", _plain), ("journal", _journaled)):
        costs: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in _WAYS}
        for _ in range(rounds):
            for way, (add, acknowledge) in _WAYS.items():
                with opened() as store:
                    costs[way][0].append(_cost(add, store, count))
                    costs[way][1].append(_cost(acknowledge, store, count))
        click.echo(f"\n{name}, load {os.getloadavg()[0]:.1f}\n")
        click.echo("| µs of CPU a message | add | acknowledge |\n|---|---|---|")
        for way, (adds, acknowledgements) in costs.items():
            click.echo(f"| {way} | {median(adds):.1f} | {median(acknowledgements):.1f} |")


def _cost(way: Way, store: Store, count: int) -> float:
    """Measure CPU microseconds of this process for a message."""
    start = time.process_time()
    way(store, count)
    return (time.process_time() - start) / count * 1e6


@contextmanager
def _plain() -> Iterator[Store]:
    with (
        tempfile.TemporaryDirectory() as folder,
        jdbcstore.open(f"sqlite:///{folder}/store.db", cleanup_period=0.0) as store,
    ):
        yield store


@contextmanager
def _journaled() -> Iterator[Store]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Journaled(f"sqlite:///{folder}/store.db", Path(folder), checkpoints=False) as journaled,
    ):
        yield journaled.store


if __name__ == "__main__":
    main()
