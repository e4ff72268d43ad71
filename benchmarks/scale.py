"""``python -m benchmarks.scale``: what limits producers that wait for their receipts, by simulation.

Each broker has a database of its own, and one session that stores; all databases are on one server and share
its log. A worker does one thing at a time, on a free processor unless it is a device. A broker commits what
has arrived once its last senders are back, and one commit is under way. Times are microseconds, and none is
random. Prints as Markdown how near this comes to measured rates, and the rates of 16 processors whose clients
are elsewhere. ``results/scale.md`` says which times are measured.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import NamedTuple

import click

MEASURED = {1: (2771, 2200), 4: (7672, 5821), 16: (14361, 12797), 64: (20305, 18927)}
"""Messages a second over STOMP by the number of connections: with the database in memory, and on a disk."""
_DEVICES = ("log", "network")
_EXPECTED, _BATCH = 32, 250
"""The most messages that a broker waits for, and the most of a commit."""
_Then = Callable[[], None]


@dataclass(frozen=True)
class Costs:
    """Service times in microseconds; the defaults are those of the machine with two processors."""

    turn: float = 30.0
    """Receipts that arrive together, in the client."""
    client: float = 13.0
    """A message in the client."""
    arrive: float = 20.0
    """A message in a broker, until it waits for a commit."""
    commit: float = 179.0
    """A commit in a broker: the statement, and reading its answer."""
    answer: float = 7.0
    """A message in a broker, from the commit to its receipt."""
    insert: float = 94.0
    """A commit in the database's process, without its rows and the flush."""
    row: float = 19.0
    """A message in the database's process."""
    flush: float = 93.0
    """A flush of the log, of all commits that wait for it."""
    log: float = 2.1
    """The log of a message, 2.1 KB at a gigabyte a second."""
    network: float = 0.0
    """A message and its receipt on a network, 1.4 KB; 0 for loopback."""
    tail: float = 22.0
    """A worker from its last task until it sleeps, for which nothing else waits."""


class Outcome(NamedTuple):
    """Messages a second, the share of the time for which the busiest of each kind works, busy processors."""

    rate: float
    shares: Mapping[str, float]
    cores: float


def _sleep() -> None:
    """End a worker's tail."""


class Machine:
    """Workers that share some processors, and devices."""

    def __init__(self, cores: int, tail: float = 0.0) -> None:
        self.now = 0.0
        self.used: defaultdict[str, float] = defaultdict(float)
        """The time for which each worker has worked."""
        self._free, self._tail, self._numbers = cores, tail, itertools.count()
        self._ends: list[tuple[float, int, str, _Then]] = []
        self._tasks: defaultdict[str, deque[tuple[float, _Then]]] = defaultdict(deque)
        """The tasks of each worker, in their order; it is at the first one."""
        self._ready: deque[str] = deque()
        """The workers that wait for a processor."""

    def work(self, worker: str, cost: float, then: _Then) -> None:
        """Queue a task of a worker."""
        self._tasks[worker].append((cost, then))
        if len(self._tasks[worker]) == 1:
            self._ready.append(worker)

    def run(self, until: float) -> None:
        """Let the time pass."""
        self._begin()
        while self._ends and self._ends[0][0] <= until:
            self.now, _, worker, then = heapq.heappop(self._ends)
            self._free += worker not in _DEVICES
            then()
            self._tasks[worker].popleft()
            if self._tasks[worker]:
                self._ready.append(worker)
            elif worker not in _DEVICES and then is not _sleep:
                self.work(worker, self._tail, _sleep)
            self._begin()
        self.now = until

    def _begin(self) -> None:
        """Give the free processors to those that wait, in turn."""
        for _ in range(len(self._ready)):
            worker = self._ready.popleft()
            if worker not in _DEVICES and not self._free:
                self._ready.append(worker)
                continue
            cost, then = self._tasks[worker][0]
            self.used[worker] += cost
            self._free -= worker not in _DEVICES
            heapq.heappush(self._ends, (self.now + cost, next(self._numbers), worker, then))


class Log:
    """The log of a server, whose flushes are shared."""

    def __init__(self, machine: Machine, costs: Costs) -> None:
        self._machine, self._costs = machine, costs
        self._waiting: list[tuple[int, _Then]] = []

    def flush(self, messages: int, then: _Then) -> None:
        self._waiting.append((messages, then))
        if len(self._waiting) == 1:
            self._machine.work("log", 0.0, self._write)  # after the flush that is under way

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        cost = self._costs.flush + self._costs.log * sum(messages for messages, _ in waiting)
        self._machine.work("log", cost, lambda: self._flushed(waiting))

    @staticmethod
    def _flushed(waiting: list[tuple[int, _Then]]) -> None:
        for _, then in waiting:
            then()


class Broker:
    """A broker, its session and its producers."""

    def __init__(self, number: int, machine: Machine, log: Log, costs: Costs) -> None:
        self._name, self._session, self._client = f"broker {number}", f"session {number}", f"client {number}"
        self._machine, self._log, self._costs = machine, log, costs
        self._waiting = self._expected = self.stored = 0
        self._is_committing = False

    def produce(self, count: int) -> None:
        """Have so many producers send their next message."""
        if self._costs.network:
            worker, cost = "network", self._costs.network
        else:
            worker, cost = self._client, self._costs.client
            self._machine.work(worker, self._costs.turn, _sleep)
        for _ in range(count):
            self._machine.work(worker, cost, self._read)

    def _read(self) -> None:
        self._machine.work(self._name, self._costs.arrive, self._arrive)

    def _arrive(self) -> None:
        self._waiting += 1
        self._commit()

    def _commit(self) -> None:
        if not self._is_committing and self._waiting >= max(1, min(self._expected, _EXPECTED)):
            self._is_committing = True
            self._machine.work(self._name, self._costs.commit, self._insert)

    def _insert(self) -> None:
        batch = min(self._waiting, _BATCH)
        self._waiting -= batch
        cost = self._costs.insert + self._costs.row * batch
        self._machine.work(self._session, cost, lambda: self._log.flush(batch, partial(self._answer, batch)))

    def _answer(self, batch: int) -> None:
        self._machine.work(self._name, self._costs.answer * batch, partial(self._end, batch))

    def _end(self, batch: int) -> None:
        self.stored += batch
        self._is_committing, self._expected = False, batch + self._waiting
        self.produce(batch)
        self._commit()


def simulate(
    costs: Costs, *, producers: int, brokers: int = 1, cores: int = 2, seconds: float = 0.5
) -> Outcome:
    """Simulate brokers with so many producers each, for this time after a warm-up of a tenth of it."""
    machine = Machine(cores, costs.tail)
    log = Log(machine, costs)
    every = [Broker(number, machine, log, costs) for number in range(brokers)]
    for broker in every:
        broker.produce(producers)
    machine.run(seconds * 1e5)
    before = sum(one.stored for one in every)
    machine.used.clear()
    machine.run(seconds * 1.1e6)
    stored = sum(one.stored for one in every) - before
    busy = {worker: used / seconds / 1e6 for worker, used in machine.used.items()}
    shares: defaultdict[str, float] = defaultdict(float)
    for worker, share in busy.items():
        kind = worker.partition(" ")[0]
        shares[kind] = max(shares[kind], share)
    processors = sum(share for worker, share in busy.items() if worker not in _DEVICES)
    return Outcome(stored / seconds, shares, processors)


@click.command(help=__doc__)
def main(**given: float) -> None:
    costs = Costs(**given)
    heads = ["connections", *("in memory", "simulated", "ratio"), *("on a disk", "simulated", "ratio")]
    click.echo(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    in_memory = replace(costs, flush=0.0, log=0.0)
    for producers, rates in MEASURED.items():
        cells = [f"{producers}"]
        for where, measured in zip((in_memory, costs), rates, strict=True):
            rate = simulate(where, producers=producers).rate
            cells += [f"{measured:,}", f"{rate:,.0f}", f"{rate / measured:.2f}"]
        click.echo(f"| {' | '.join(cells)} |")
    kinds = ("broker", "session", "log", "network")
    click.echo(f"\n| brokers | producers of each | a second | {' | '.join(kinds)} | busy processors |")
    click.echo("|---" * (4 + len(kinds)) + "|")
    elsewhere = replace(costs, network=costs.network or 1.1)
    for brokers in (1, 2, 4, 6, 8):
        for producers in (16, 64):
            rate, shares, cores = simulate(elsewhere, producers=producers, brokers=brokers, cores=16)
            busy = " | ".join(f"{shares[kind]:.0%}" for kind in kinds)
            click.echo(f"| {brokers} | {producers} | {rate:,.0f} | {busy} | {cores:.1f} |")


for cost in fields(Costs):
    main = click.option(f"--{cost.name}", default=cost.default, show_default=True)(main)

if __name__ == "__main__":
    main()
