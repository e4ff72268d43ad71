"""The course of the demo: start everybody, kill the broker, judge what is left."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from jdbcstore import JdbcStore
from jdbcstore.cli.demo.ledger import Counts, Ledger, Outcome
from jdbcstore.cli.demo.processes import Process, ProcessFailed

_LOOK = 0.02
_STUCK = 90.0
_LONGEST_AIM = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the demo does. ``folder`` is a fresh one; ``url`` a store whose ``queue`` is empty."""

    folder: Path
    url: str
    queue: str
    messages: int
    producers: int
    kills: int

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def moved(self) -> Path:
        """The consumer's own store: every delivery, of which Spark is asked."""
        return self.folder / "moved.db"

    @property
    def shares(self) -> list[int]:
        """How many messages each producer sends."""
        each, more = divmod(self.messages, self.producers)
        return [each + (number < more) for number in range(self.producers)]


@dataclass(frozen=True, slots=True)
class Listener:
    """Who wants to know what happens while it does."""

    counts: Callable[[Counts], None]
    killed: Callable[[int, int, Counts], None]
    """The number of the kill, the process that is gone, and how far everybody was."""


def run(plan: Plan, listener: Listener) -> Outcome:
    """Play it through, and read the outcome from the disk.

    :raises ProcessFailed: a process ended by itself, or nothing moved for a long time
    """
    Ledger.create(plan.ledger).close()
    with ExitStack() as stack:
        _Course(plan, listener, stack).run()
    with JdbcStore(plan.url, read_only=True) as store:
        left = store.queue(plan.queue).message_count()
    with Ledger(plan.ledger) as ledger:
        return ledger.outcome(left)


class _Course:
    """One run; everything it starts and opens ends with ``stack``."""

    def __init__(self, plan: Plan, listener: Listener, stack: ExitStack) -> None:
        self._plan = plan
        self._listener = listener
        self._stack = stack
        self._log = stack.enter_context((plan.folder / "processes.log").open("ab"))
        self._port = _free_port()
        self._ledger = stack.enter_context(Ledger(plan.ledger))
        self._counts = Counts(0, 0, 0)
        self._kills = 0
        self._random = random.Random()  # noqa: S311
        self._broker = self._start_broker()

    def run(self) -> None:
        plan, queue = self._plan, f"/queue/{self._plan.queue}"
        consumer = self._start("consumer", self._port, queue, plan.ledger, plan.moved)
        producers = [
            self._start("producer", self._port, queue, plan.ledger, f"{plan.queue}-{number}", share)
            for number, share in enumerate(plan.shares, 1)
        ]
        self._watch_until(lambda: all(producer.ended() for producer in producers))
        with JdbcStore(plan.url, read_only=True) as store:
            left = store.queue(plan.queue)
            self._watch_until(lambda: consumer.ended() or left.message_count() == 0)
        consumer.end_input()
        self._watch_until(consumer.ended)
        self._broker.end_input()
        self._watch_until(self._broker.ended)

    def _watch_until(self, condition: Callable[[], bool]) -> None:
        moved = time.monotonic()
        while not condition():
            counts = self._ledger.counts()
            if counts != self._counts:
                self._counts = counts
                self._listener.counts(counts)
                moved = time.monotonic()
            elif time.monotonic() > moved + _STUCK:
                raise ProcessFailed(f"nothing moved for {_STUCK:.0f} seconds")
            self._broker.ended()
            if self._kills < self._plan.kills and counts.acknowledged >= self._next_kill():
                self._kill()
            time.sleep(_LOOK)
        self._listener.counts(self._ledger.counts())

    def _next_kill(self) -> int:
        """After how many acknowledged messages: the kills are spread over the whole course."""
        return self._plan.messages * (self._kills + 1) // (self._plan.kills + 1)

    def _kill(self) -> None:
        time.sleep(self._random.uniform(0, _LONGEST_AIM))
        self._broker.kill()
        self._kills += 1
        self._listener.killed(self._kills, self._broker.pid, self._ledger.counts())
        self._broker = self._start_broker()

    def _start_broker(self) -> Process:
        return self._start("serving", self._port, self._plan.folder, url=self._plan.url)

    def _start(self, module: str, *arguments: object, url: str = "") -> Process:
        return self._stack.enter_context(Process(module, *arguments, log=self._log, url=url))


def _free_port() -> int:
    """A port of this machine that nobody uses, for all brokers of this course."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
