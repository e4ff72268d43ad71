"""Several processes that want to be the master of one database, and what is done to them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import jdbcstore
from tests.databases import Database
from tests.failover.history import TRIGGERS, History
from tests.failover.hole import HoleLine
from tests.polling import wait_until
from tests.servers import Server

LEASE = 2.0
WAIT = 60.0


class Member:
    """One process, by way of a line of its own."""

    def __init__(self, name: str, url: str, locker: str, history: History) -> None:
        self.name = name
        self.line = HoleLine(url)
        self._locker = locker
        self._history = history
        self._closed = False
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.failover.member",
                self.line.url,
                self.name,
                self._locker,
                str(LEASE),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith("\n"):
                break  # it was killed while it wrote this
            when, *words = line.split()
            self._history.said.append((float(when), self.name, words))

    def send(self, what: signal.Signals) -> None:
        self.process.send_signal(what)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT)
        self._reader.join(WAIT)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def close(self) -> None:
        self.kill()
        if not self._closed:
            self._closed = True
            self.line.close()


@dataclass
class Takeover:
    """A fault that took the master away, and how long nobody stored anything."""

    fault: str
    seconds: float


class Harness:
    """``members`` processes on a database of a server of their own; a fault at a time, chosen by a seed."""

    def __init__(self, database: Database, server: Server, locker: str, members: int, seed: int) -> None:
        self._database = database
        self._server = server
        self._random = random.Random(seed)
        self.history = History()
        self.takeovers: list[Takeover] = []
        jdbcstore.open(database.url, cleanup_period=0.0).close()
        for statement in TRIGGERS[server.name]:
            database.execute(statement)
        self._members = [
            Member(f"m{number}", database.url, locker, self.history) for number in range(members)
        ]
        self.faults: dict[str, Callable[[Member], None]] = {
            "kill": self._kill,
            "pause": self._pause,
            "cut": lambda member: member.line.cut(),
            "swallow": self._swallow,
            "terminate": lambda _: self._terminate(),
            "restart": lambda _: server.restart(),
            "crash": lambda _: self._crash(),
        }

    def run(self, faults: int, *, kinds: tuple[str, ...] = ()) -> None:
        """Wait for a master, break something, and again."""
        chosen = [*kinds] or [*self.faults]
        for number in range(faults):
            master = self._master()
            kind = chosen[number % len(chosen)] if kinds else self._random.choice(chosen)
            # A fault that hits another than the master must not matter.
            target = master if self._random.random() < 0.8 else self._random.choice(self._members)
            time.sleep(self._random.uniform(0.1, 0.5))
            began = time.monotonic()
            self.faults[kind](target)
            self._note(
                kind, began, target if target is master and kind in ("kill", "pause", "swallow") else None
            )
        self._master()

    def finish(self) -> list[str]:
        """End all processes; what must not be."""
        for member in self._members:
            member.close()
        # Their last transactions may still be on their way.
        wait_until(lambda: self._database.connections() == 0, WAIT, "that every connection is gone")
        return self.history.check(self._database)

    def close(self) -> None:
        for member in self._members:
            member.close()

    def _master(self) -> Member:
        """Who stores messages now."""
        moment = time.monotonic()

        def stored() -> bool:
            return self.history.first_added_after(moment, "") is not None

        wait_until(stored, WAIT, "a master")
        [name] = [who for when, who, words in [*self.history.said] if when > moment and words[0] == "added"][
            :1
        ]
        return next(member for member in self._members if member.name == name)

    def _note(self, kind: str, began: float, deposed: Member | None) -> None:
        if deposed is None:
            return

        def followed() -> bool:
            # Or it was the master no longer when the fault came.
            return (
                self.history.first_added_in_new_epoch(began) is not None
                or self.history.first_added_after(began + LEASE, deposed.name) is not None
            )

        wait_until(followed, WAIT, "a master")
        moment = self.history.first_added_in_new_epoch(began)
        if moment is None:
            return
        self.takeovers.append(Takeover(kind, moment - began))

    def _kill(self, member: Member) -> None:
        member.kill()
        member.start()

    def _pause(self, member: Member) -> None:
        member.send(signal.SIGSTOP)
        threading.Timer(LEASE * 2, lambda: _continue(member.process)).start()

    def _swallow(self, member: Member) -> None:
        member.line.swallow()
        threading.Timer(LEASE * 2, member.line.flow).start()

    def _crash(self) -> None:
        self._server.kill()
        self._server.start()

    def _terminate(self) -> None:
        if self._server.name == "postgresql":
            self._database.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return
        query = "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = :db AND ID <> CONNECTION_ID()"
        for (number,) in self._database.rows(query, db=self._database.name):
            try:
                self._database.execute(f"KILL {number}")
            except Exception:  # noqa: S112 - it was gone already
                continue


def _continue(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGCONT)
