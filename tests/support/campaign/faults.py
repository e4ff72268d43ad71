"""The ten kinds of fault, each done to a world within a few seconds, and mended before it returns."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from tests.support.campaign.processes import Running
from tests.support.campaign.standby import Pair
from tests.support.campaign.world import Broker, Worker, World

KINDS = ("kill", "pause", "crash", "terminate", "failover", "cut", "disk", "clock", "call", "versions")

_CALLS = (
    ("fsync,fdatasync", "EIO"),
    ("pwrite64,ftruncate", "ENOSPC"),
    ("pwrite64", "EIO"),
    ("pread64", "EIO"),
    ("openat", "EMFILE"),
    ("sendto", "ECONNRESET"),
    ("sendto", "ENOBUFS"),
    ("recvfrom", "ECONNRESET"),
    ("recvfrom", "ETIMEDOUT"),
    ("connect", "ETIMEDOUT"),
    ("accept4", "EMFILE"),
    ("epoll_wait,poll,ppoll", "EINTR"),
    ("fcntl", "ENOLCK"),
    ("mmap", "ENOMEM"),
)
"""System calls that fail, and how."""


class Faults:
    """What is done to a world. ``absent`` is what cannot be done on this machine or database, and why."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._pair: Pair | None = None
        self.absent = dict(world.absent)
        self._kinds: dict[str, Callable[[], str]] = {
            "kill": self._kill,
            "pause": self._pause,
            "crash": self._crash,
            "terminate": self._terminate,
            "failover": self._fail_over,
            "cut": self._cut,
            "disk": self._fill_disk,
            "clock": self._step_clock,
            "call": self._fail_call,
            "versions": self._turn_version,
        }
        if world.server is None:
            for kind in ("crash", "terminate"):
                self.absent[kind] = "the database is a file" if world.cluster is None else "its nodes fail"
        if world.cluster is not None:
            faults = world.cluster.faults()
            self._kinds |= {kind: partial(fault, chance) for kind, fault in faults.items()}
        if world.backend.id != "postgresql" or world.cluster is not None:
            self.absent["failover"] = "only PostgreSQL has a standby here"
        if shutil.which("strace") is None:
            self.absent["call"] = "no strace; on Debian: apt-get install strace"
        if len(world.brokers[0].versions) < 2:
            self.absent["versions"] = "no earlier commit is at hand"

    @property
    def kinds(self) -> list[str]:
        """The kinds that can be done."""
        return [kind for kind in self._kinds if kind not in self.absent]

    def do(self, kind: str) -> str:
        """Do one, and mend it; return what it was."""
        return self._kinds[kind]()

    def close(self) -> None:
        """End the standby, if there is one."""
        if self._pair is not None:
            self._pair.close()

    def _victim(self) -> Broker | Worker:
        """Choose the master as often as all others."""
        if self._chance.random() < 0.5:
            return self._world.serving()
        return self._chance.choice(self._world.processes)

    def _pass(self, least: float, most: float) -> None:
        time.sleep(self._chance.uniform(least, most))

    def _kill(self) -> str:
        victim = self._victim()
        victim.process.kill()
        if self._chance.random() < 0.2:  # and once more while it starts
            victim.start()
            self._pass(0.0, 0.7)
            victim.process.kill()
        victim.start()
        return victim.name

    def _pause(self) -> str:
        victim = self._victim()
        victim.process.send(signal.SIGSTOP)
        self._pass(self._world.lease * 0.8, self._world.lease * 2)
        victim.process.send(signal.SIGCONT)
        return victim.name

    def _crash(self) -> str:
        server = self._world.server
        assert server is not None
        how, name = self._chance.choice(
            [(server.kill, "SIGKILL"), (server.stop_at_once, "immediate"), (server.stop, "stop")]
        )
        how()
        self._pass(0.0, self._world.lease / 2)
        server.start()
        return name

    def _terminate(self) -> str:
        for database in (self._world.database, self._world.claimed):
            with suppress(DBAPIError):  # one was gone already
                database.end_connections()
        return "all sessions"

    def _fail_over(self) -> str:
        if self._pair is None:
            self._pair = Pair(self._world)
        self._pair.fail_over()
        return "to the standby"

    def _cut(self) -> str:
        broker = (
            self._world.serving() if self._chance.random() < 0.7 else self._chance.choice(self._world.brokers)
        )
        incoming = self._chance.random() < 0.5
        assert broker.network is not None
        broker.network.cut(incoming=incoming)
        self._pass(self._world.lease / 2, self._world.lease * 2)
        broker.network.mend()
        return f"{broker.name}, {'incoming' if incoming else 'outgoing'}"

    def _fill_disk(self) -> str:
        disk, server = self._world.disk, self._world.server
        assert disk is not None
        disk.fill()
        self._pass(0.3, 1.5)
        disk.free()
        if server is not None and not server.is_alive():
            server.kill()
            server.start()
        if self._pair is not None:
            self._pair.start_again()
        return "the database's"

    def _step_clock(self) -> str:
        broker = (
            self._world.serving() if self._chance.random() < 0.7 else self._chance.choice(self._world.brokers)
        )
        step = self._chance.choice(["+20", "-3600", "+3", "-3", "+0 x1.1", "+0 x0.9"])
        assert broker.clock is not None
        broker.clock.set(step)
        self._pass(1.0, self._world.lease * 1.5)
        broker.clock.set("+0")
        return f"{broker.name} {step}"

    def _fail_call(self) -> str:
        victim = self._victim()
        calls, error = self._chance.choice(_CALLS)
        number = self._chance.randint(1, 20)
        inject_failures(victim.process, calls, error, number, self._chance.uniform(0.5, 1.5))
        return f"{victim.name}: {calls} {error} at {number}"

    def _turn_version(self) -> str:
        broker = (
            self._world.serving() if self._chance.random() < 0.7 else self._chance.choice(self._world.brokers)
        )
        how = broker.versions.turn(broker.process, self._chance)
        broker.start()
        return f"{broker.name}, which {'was ' if how == 'killed' else ''}{how}, is now {broker.versions.name}"


def inject_failures(process: Running, calls: str, error: str, number: int, seconds: float) -> None:
    """Let the n-th of these system calls of each thread fail for a while, by strace."""
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(process.pid)]
    command += ["-e", f"trace={calls}", "-e", f"inject={calls}:error={error}:when={number}"]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    status = Path(f"/proc/{process.pid}/status")
    while tracer.poll() is None:
        with suppress(OSError):
            if "\nTracerPid:\t0\n" not in status.read_text():
                break
        time.sleep(0.01)
    with suppress(subprocess.TimeoutExpired):
        tracer.wait(seconds)
    tracer.terminate()
    tracer.wait(60.0)
