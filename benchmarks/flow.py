"""``python -m benchmarks.flow``: what limits, rates and keys of a queue cost each claim.

One process claims and acknowledges one message at a time, of queues that have the same backlog in one
database, in turns: that of a private server of each vendor, or a file of SQLite. Prints as Markdown the
microseconds of a message, and of CPU of this process and of the server, with their ratios to a plain one: for
the time the median of the rounds' ratios, for the CPU that of the least. On a busy machine only the CPU says
something, with many short rounds: ``--rounds 100 --messages 10``.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple

import click

from benchmarks import cpu
from jdbcstore import Message
from jdbcstore.stores.claims import ClaimQueue, Claims
from tests.support.servers import ServerMissing
from tests.support.servers.alone import VENDORS, database_of

_SIZE = 200
_PAGE = 500
_MANY = 1_000_000
_PLAIN = "plain"
_KINDS: Mapping[str, Callable[[ClaimQueue], None]] = {
    _PLAIN: lambda _: None,
    "a limit": lambda queue: queue.flow.limit(claims=1000),
    "a rate": lambda queue: queue.flow.limit(rate=_MANY, burst=100_000),
    "by keys": lambda queue: queue.flow.share(),
    "keys in order": lambda queue: queue.flow.share(in_order=True),
}


class _Cost(NamedTuple):
    """Microseconds of a claim with its acknowledgement."""

    took: float
    client: float
    """Of CPU, of this process."""
    server: float

    @property
    def used(self) -> float:
        """Return those of CPU."""
        return self.client + self.server


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True)
@click.option("--messages", default=200, show_default=True, help="Claimed of each queue in a round.")
@click.option("--backlog", default=5000, show_default=True)
@click.option("--keys", default=300, show_default=True)
@click.option("--only", type=click.Choice(VENDORS), multiple=True)
def main(rounds: int, messages: int, backlog: int, keys: int, only: tuple[str, ...]) -> None:
    for name in only or VENDORS:
        try:
            with database_of(name) as url:
                times = _measured(url, rounds, messages, backlog, keys)
        except ServerMissing as missing:
            click.echo(f"{name}: {missing}\n")
            continue
        click.echo(
            f"| {name} | µs a message | of a plain one | µs of CPU, client + server | of a plain one |"
        )
        click.echo("|---|---|---|---|---|")
        plain = times[_PLAIN]
        least = min(one.used for one in plain)
        for kind, found in times.items():
            took = [one.took for one in found]
            ratio = median(one.took / before.took for one, before in zip(found, plain, strict=True))
            best = min(found, key=lambda one: one.used)
            click.echo(
                f"| {kind} | {median(took):,.0f} ({min(took):,.0f} to {max(took):,.0f}) | {ratio:.2f}"
                f" | {best.client:,.0f} + {best.server:,.0f} | {best.used / least:.2f} |"
            )
        click.echo("")
    click.echo(
        f"{rounds} rounds of {messages}, {backlog} messages, {keys} keys, load {os.getloadavg()[0]:.1f}."
    )


def _measured(url: str, rounds: int, messages: int, backlog: int, keys: int) -> dict[str, list[_Cost]]:
    """Return what a message costs in each round, by the kind of queue."""
    times: dict[str, list[_Cost]] = defaultdict(list)
    with Claims(url) as claims:
        queues = {kind: _filled(claims.queue(f"BENCHMARK.{kind}"), backlog, keys) for kind in _KINDS}
        for kind, queue in queues.items():
            _KINDS[kind](queue)
            _measure(queue, 1)  # keys of messages that are there already become known
        for _ in range(rounds):
            for kind, queue in queues.items():
                times[kind].append(_measure(queue, messages))
    return times


def _filled(queue: ClaimQueue, backlog: int, keys: int) -> ClaimQueue:
    for begin in range(0, backlog, _PAGE):
        numbers = range(begin, min(begin + _PAGE, backlog))
        queue.add(*(Message("x" * _SIZE, group_id=f"k{number % keys}") for number in numbers))
    return queue


def _measure(queue: ClaimQueue, count: int) -> _Cost:
    """Measure claims with their acknowledgements, one after the other."""
    server = cpu.below(os.getpid())
    before, used, begun = cpu.nanoseconds(server), time.process_time(), time.perf_counter()
    for _ in range(count):
        found = queue.claim()
        assert found, "the backlog is too small"
        queue.acknowledge(*found)
    took, used = time.perf_counter() - begun, time.process_time() - used
    return _Cost(took / count * 1e6, used / count * 1e6, (cpu.nanoseconds(server) - before) / count / 1e3)


if __name__ == "__main__":
    main()
