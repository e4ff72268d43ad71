"""Several processes that want to be the master of one database, and what is done to them."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import jdbcstore
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.failover.checker import check
from tests.support.failover.faults import Faults
from tests.support.failover.history import History
from tests.support.failover.member import Specification
from tests.support.failover.members import Member
from tests.support.failover.recorder import Recording, record, recorded
from tests.support.failover.surroundings import Missing, Network, SkewedClock
from tests.support.servers import Server
from tests.support.zookeeper import ZooKeeper

LEASE = 2.0
WAIT = 120.0
_PERIODS = {"lease": 5, "database": 3, "file": 3, "zookeeper": 5}
"""Checks in the time of a lease."""


@dataclass(frozen=True)
class Arrangement:
    """Which processes there are.

    ``skewed`` gives each a clock of its own, ``apart`` gives all but the first a network of their own.
    """

    locker: str
    members: int = 2
    one_name: bool = False
    skewed: bool = False
    apart: bool = False
    allowed: float = 0.0
    """How far a process's clock may be from the database's and still judge the lease, in seconds."""


class _Deposed(NamedTuple):
    """A master that a fault has taken away; ``began`` is when, by the wall clock."""

    fault: str
    epoch: int
    began: float
    pressure: float
    events: list[str]


@dataclass(frozen=True)
class Takeover:
    """A fault that took the master away, and what followed, in seconds since the fault."""

    fault: str
    epoch: float
    """When the next one was the master."""
    write: float
    """When its first message was stored."""
    pressure: float
    """The part of the time in which some process of this machine waited for a processor."""
    events: list[str]
    """What the processes said meanwhile."""


class Harness:
    """Faults, one or two at a time, chosen by a seed; each on members that were well before."""

    def __init__(self, database: Database, server: Server, arrangement: Arrangement, seed: int) -> None:
        self._database = database
        self._arrangement = arrangement
        self._random = random.Random(seed)
        self._directory = TemporaryDirectory(prefix="jdbcstore-failover-")
        self.history = History()
        self._zookeeper = ZooKeeper() if arrangement.locker == "zookeeper" else None
        if self._zookeeper is not None:
            self._zookeeper.start()
        self.faults = Faults(database, server, LEASE, self._random, zookeeper=self._zookeeper)
        self.done: Counter[str] = Counter()
        self._deposed: list[_Deposed] = []
        jdbcstore.open(database.url, cleanup_period=0.0).close()
        record(database, server.name)
        self._members: list[Member] = []
        try:
            for number in range(arrangement.members):
                self._members.append(self._make_member(number))
        except BaseException:
            self.close()
            raise

    def _make_member(self, number: int) -> Member:
        arranged = self._arrangement
        folder = Path(self._directory.name, str(number))
        folder.mkdir()
        specification = Specification(
            self._database.url,
            name=f"m{number}",
            broker_name="broker" if arranged.one_name else f"broker-{number}",
            locker=arranged.locker,
            lease=LEASE,
            keep_alive=LEASE / _PERIODS[arranged.locker],
            directory=self._directory.name,
            zookeeper=self._zookeeper.address if self._zookeeper else "",
            allowed=arranged.allowed,
        )
        clock = network = None
        try:
            clock = SkewedClock(folder) if arranged.skewed else None
        except Missing as missing:
            self.faults.leave_out("clock", str(missing))
            self.faults.leave_out("drift", str(missing))
        try:
            network = Network() if arranged.apart and number else None
        except Missing as missing:
            self.faults.absent["ip netns"] = str(missing)
        return Member(specification, self.history, clock=clock, network=network)

    def run(self, faults: int, *, kinds: tuple[str, ...] = ()) -> None:
        """Wait until all are well, break something, and again. The kinds in order, or else any.

        :raises AssertionError: nobody was the master for two minutes
        """
        everything = self._possible()
        for number in range(faults):
            kind = kinds[number % len(kinds)] if kinds else self._random.choice(everything)
            # A fault that hits another than the master must not matter.
            hits_master, other = self._random.random() < 0.8, self._random.choice(self._members)
            second = None if kinds or self._random.random() < 0.8 else self._random.choice(everything)
            moment = self._random.uniform(0.0, 0.5) * LEASE
            master = self._settle()
            time.sleep(moment)
            target = master if hits_master or kinds else other
            self._break(kind, target, master, second)

    def _possible(self) -> list[str]:
        """The kinds to choose from; the likeliest are those that take the master away."""
        possible = {**self.faults.kinds}
        if not self._arrangement.skewed:
            possible = {kind: fault for kind, fault in possible.items() if kind not in ("clock", "drift")}
        deposing = [kind for kind, fault in possible.items() if self._arrangement.locker in fault.deposes]
        return [*possible, *deposing, *deposing]

    def _settle(self) -> Member:
        """Wait until all that was broken is mended, and all members are there; the master."""
        self.faults.settle()
        # A master whose lock is gone stores until it looks, or until the next one begins.
        moment = time.monotonic() + LEASE / min(_PERIODS.values())
        for member in self._members:
            self.history.wait_heard(member.name, moment, WAIT)
        stored = self.history.wait_stored(moment, WAIT)
        return next(member for member in self._members if member.name == stored.who)

    def _break(self, kind: str, target: Member, master: Member, second: str | None) -> None:
        fault = self.faults.kinds[kind]
        epoch = self.history.epoch_of(target.name)
        moment, began, pressure = time.monotonic(), time.time(), _pressure()
        self.done[kind] += 1
        fault.do(target)
        if second is not None:
            self.done[second] += 1
            self.faults.kinds[second].do(self._random.choice(self._members))
        elif target is master and self._arrangement.locker in fault.deposes:
            followed = self.history.wait_followed(epoch, WAIT)
            share = (_pressure() - pressure) / (time.time() - began)
            self._deposed.append(
                _Deposed(kind, epoch, began, share, self.history.events(moment, followed.when))
            )

    def finish(self) -> list[str]:
        """End all processes; what must not be."""
        for member in self._members:
            member.close()
        # Their last transactions may still be on their way.
        wait_until(lambda: self._database.connections() == 0, WAIT, "that every connection is gone")
        recording = recorded(self._database)
        self.takeovers = self._takeovers(recording)
        return check(self.history, recording, self._arrangement.allowed)

    def _takeovers(self, recording: Recording) -> list[Takeover]:
        """By the database's clock, which is this machine's."""
        writes: dict[int, float] = {}
        for change in recording.stored:
            writes.setdefault(change.epoch, change.at)
        found = []
        for one in self._deposed:
            at = min(at for number, at in recording.epochs if number > one.epoch)
            write = min(at for number, at in writes.items() if number > one.epoch)
            found.append(Takeover(one.fault, at - one.began, write - one.began, one.pressure, one.events))
        return [takeover for takeover in found if takeover.epoch >= 0]  # else it was none then

    def close(self) -> None:
        self.faults.settle()
        for member in self._members:
            member.close()
        if self._zookeeper is not None:
            self._zookeeper.close()
        self._directory.cleanup()


def _pressure() -> float:
    """Seconds in which some process has waited for a processor since the machine was started."""
    try:
        line = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return 0.0
    return int(line.rpartition("total=")[2]) / 1e6
