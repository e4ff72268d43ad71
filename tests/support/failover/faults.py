"""What is done to a master, or to another member, or to the database under all of them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from tests.support.databases import Database
from tests.support.failover.members import Member
from tests.support.failover.surroundings import Missing, SlowDisk, processes
from tests.support.servers import Server
from tests.support.zookeeper import ZooKeeper

HOUR = 3600


@dataclass(frozen=True)
class Fault:
    """``deposes`` are the lockers by which the master that it hits is followed within a lease."""

    do: Callable[[Member], None]
    deposes: frozenset[str] = frozenset()


class Faults:
    """All of them, on one database; what they leave to be mended later is mended by threads of their own.

    ``absent`` is what cannot be done on this machine, and why.
    """

    def __init__(
        self,
        database: Database,
        server: Server,
        lease: float,
        source: random.Random,
        *,
        zookeeper: ZooKeeper | None = None,
    ) -> None:
        self._database = database
        self._server = server
        self._lease = lease
        self._random = source
        self._mending: list[threading.Timer] = []
        self.absent: dict[str, str] = {}
        self.kinds: dict[str, Fault] = {
            "kill": Fault(self._kill, frozenset({"lease", "database", "file", "zookeeper"})),
            "pause": Fault(self._pause, frozenset({"lease", "database", "zookeeper"})),
            "vanish": Fault(self._vanish, frozenset({"lease", "database"})),
            "cut": Fault(lambda member: member.line.cut_all()),
            "terminate": Fault(lambda _: self._terminate()),
            "restart": Fault(lambda _: self._restart(server.stop)),
            "crash": Fault(lambda _: self._restart(server.stop_at_once)),
            "clock": Fault(self._step_clock),
            "drift": Fault(self._drift),
            "slow disk": Fault(lambda _: self._slow_disk()),
            "stalled disk": Fault(lambda _: self._stall()),
        }
        if zookeeper is not None:
            self.kinds["zookeeper"] = Fault(lambda _: self._restart_zookeeper(zookeeper))
        for kind, needed in (("slow disk", self._try_slow_disk),):
            try:
                needed()
            except Missing as missing:
                self.leave_out(kind, str(missing))

    def leave_out(self, kind: str, why: str) -> None:
        """Have this fault not done, and told of."""
        self.kinds.pop(kind, None)
        self.absent[kind] = why

    def settle(self) -> None:
        """Wait until all is mended."""
        while self._mending:
            self._mending.pop().join()

    def _later(self, seconds: float, mend: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, mend)
        timer.daemon = True
        timer.start()
        self._mending.append(timer)

    def _kill(self, member: Member) -> None:
        member.kill()
        member.start()

    def _pause(self, member: Member) -> None:
        member.pause()
        self._later(self._lease * 2, member.resume)

    def _vanish(self, member: Member) -> None:
        member.vanish()
        self._later(self._lease * 2, member.appear)

    def _terminate(self) -> None:
        if self._server.name == "postgresql":
            self._database.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            )
            return
        query = "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = :db AND ID <> CONNECTION_ID()"
        for (number,) in self._database.rows(query, db=self._database.name):
            with contextlib.suppress(DBAPIError):  # it was gone already
                self._database.execute(f"KILL {number}")

    def _restart(self, stop: Callable[[], None]) -> None:
        down = self._random.uniform(0, 1.5) * self._lease
        stop()
        time.sleep(down)
        self._server.start()

    def _restart_zookeeper(self, zookeeper: ZooKeeper) -> None:
        zookeeper.kill()
        time.sleep(self._random.uniform(0, 1.5) * self._lease)
        zookeeper.start()

    def _step_clock(self, member: Member) -> None:
        if member.clock is not None:
            member.clock.set(self._random.choice([f"+{HOUR}", f"-{HOUR}", "+0"]))

    def _drift(self, member: Member) -> None:
        if member.clock is not None:
            member.clock.set(self._random.choice(["+0 x1.2", "+0 x0.8"]))

    def _try_slow_disk(self) -> None:
        assert self._server.pid is not None
        SlowDisk(self._server.pid).close()

    def _slow_disk(self) -> None:
        assert self._server.pid is not None
        self._later(self._lease * 2, SlowDisk(self._server.pid).close)

    def _stall(self) -> None:
        """The server stands still, as it does when its disk does not answer."""
        assert self._server.pid is not None
        stopped = processes(self._server.pid)
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(self._random.uniform(0.5, 1.5) * self._lease)
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
