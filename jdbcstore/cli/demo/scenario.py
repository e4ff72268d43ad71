"""The scenario of the demo: start all processes, kill the broker repeatedly, and compute the outcome."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from jdbcstore import JdbcStore
from jdbcstore.cli.demo.ledger import Counts, DemoOutcome, Ledger

_INTERVAL = 0.02
_STALLED = 90.0
_LONGEST_AIM = 0.05


class ProcessFailed(Exception):
    """A process of the demo ended unexpectedly, or the run stalled."""


class Process(AbstractContextManager["Process"]):
    """A worker in a process of its own.

    It ends when its standard input is closed, so it does not outlive its parent process.
    """

    def __init__(self, role: str, *arguments: object, log: IO[bytes], url: str = "") -> None:
        self.role = role
        self._popen = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "jdbcstore.cli.demo.workers", role, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=_environment(url),
            # Ctrl-C in the terminal must reach only the demo, which stops the other processes.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def ended(self) -> bool:
        """Return whether the process has ended successfully.

        :raises ProcessFailed: it has failed
        """
        code = self._popen.poll()
        if code:
            raise ProcessFailed(f"the {self.role} process {self.pid} ended with exit code {code}")
        return code == 0

    def end_input(self) -> None:
        """Close its standard input, which asks it to end."""
        if self._popen.stdin is not None:
            with suppress(BrokenPipeError):
                self._popen.stdin.close()

    def kill(self) -> None:
        """Kill it with SIGKILL, which it cannot handle."""
        self._popen.send_signal(signal.SIGKILL)
        self._popen.wait()

    def __exit__(self, *_exc: object) -> None:
        self.kill()
        self.end_input()


def _environment(url: str) -> dict[str, str]:
    """Return this process's environment plus the store's URL, which must not appear in process listings."""
    package = str(Path(__file__).parents[3])
    path = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "JDBCSTORE_URL": url,
        "PYTHONPATH": f"{package}{os.pathsep}{path}" if path else package,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """The parameters of a run: ``folder`` is a new one, ``url`` a store whose ``queue`` is empty."""

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
        """The consumer's own store: every delivery, for Spark SQL."""
        return self.folder / "moved.db"

    @property
    def shares(self) -> list[int]:
        """The number of messages that each producer sends."""
        each, more = divmod(self.messages, self.producers)
        return [each + (number < more) for number in range(self.producers)]


class Listener(NamedTuple):
    """Callbacks that report progress."""

    counts: Callable[[Counts], None]
    killed: Callable[[int, int, Counts], None]
    """Called with the number of the kill, the id of the killed process, and the progress so far."""


def run(plan: DemoPlan, listener: Listener) -> DemoOutcome:
    """Run the scenario, and read the outcome from disk.

    :raises ProcessFailed: a process ended unexpectedly, or there was no progress for 90 seconds
    """
    with ExitStack() as stack:
        _Run(plan, listener, stack).run()
    with JdbcStore(plan.url, read_only=True) as store:
        left = store.queue(plan.queue).message_count()
    with Ledger(plan.ledger) as ledger:
        return ledger.outcome(left)


class _Run:
    """One run; ``stack`` closes everything that it starts and opens."""

    def __init__(self, plan: DemoPlan, listener: Listener, stack: ExitStack) -> None:
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
        progressed = time.monotonic()
        while not condition():
            counts = self._ledger.counts()
            if counts != self._counts:
                self._counts = counts
                self._listener.counts(counts)
                progressed = time.monotonic()
            elif time.monotonic() > progressed + _STALLED:
                raise ProcessFailed(f"there was no progress for {_STALLED:.0f} seconds")
            self._broker.ended()
            if self._kills < self._plan.kills and counts.acknowledged >= self._next_kill():
                self._kill()
            time.sleep(_INTERVAL)
        self._listener.counts(self._ledger.counts())

    def _next_kill(self) -> int:
        """Return the number of acknowledged messages at the next kill; kills are spread over the run."""
        return self._plan.messages * (self._kills + 1) // (self._plan.kills + 1)

    def _kill(self) -> None:
        time.sleep(self._random.uniform(0, _LONGEST_AIM))
        self._broker.kill()
        self._kills += 1
        self._listener.killed(self._kills, self._broker.pid, self._ledger.counts())
        self._broker = self._start_broker()

    def _start_broker(self) -> Process:
        return self._start("broker", self._port, self._plan.folder, url=self._plan.url)

    def _start(self, role: str, *arguments: object, url: str = "") -> Process:
        return self._stack.enter_context(Process(role, *arguments, log=self._log, url=url))


def _free_port() -> int:
    """Return a free local port, for all brokers of this run."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
