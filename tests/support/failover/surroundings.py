"""What a member's process lives in: a clock of its own, a network of its own, a database on a slow disk.

Each needs a program that a machine may lack, and says so.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

_FAKETIME = "*-linux-*/faketime/libfaketimeMT.so.1"
_DELAY = 0.3
_networks = itertools.count(1)


class Missing(Exception):
    """This machine has not what this takes."""


class SkewedClock:
    """The wall clock of a process, by libfaketime; its monotonic clock stays as it is.

    :raises Missing: there is no libfaketime
    """

    def __init__(self, directory: Path) -> None:
        found = next(Path("/usr/lib").glob(_FAKETIME), None)
        if found is None:
            raise Missing("no libfaketime; on Debian: apt-get install libfaketime")
        self._file = directory / "clock"
        self.environment = {
            "LD_PRELOAD": str(found),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            # Each look at any clock would read the file, and those that wait for the interpreter look often.
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.set("+0")

    def set(self, skew: str) -> None:
        """As libfaketime has it: ``+3600`` is an hour ahead, ``+0 x1.1`` a tenth too fast."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{skew}\n")
        new.replace(self._file)


class Network:
    """A network namespace with one link to ours, which can be down: then packets are lost without a word.

    :raises Missing: we are not root, or there is no ``ip``, or it may not
    """

    def __init__(self) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise Missing("ip netns needs root and iproute2")
        number = next(_networks)
        self.name = f"jdbcstore-{os.getpid()}-{number}"
        self._link = f"js{os.getpid() % 10**7}-{number}"
        # 198.18.0.0/15 is for tests of networks, and this link goes nowhere.
        prefix, first = f"198.18.{os.getpid() % 256}", number % 63 * 4
        self.host = f"{prefix}.{first + 1}"
        self.inside = inside = f"{prefix}.{first + 2}"
        """Its own address."""
        _ip("netns", "add", self.name)
        try:
            _ip("link", "add", self._link, "type", "veth", "peer", "name", "inside", "netns", self.name)
            _ip("addr", "add", f"{self.host}/30", "dev", self._link)
            _ip("link", "set", self._link, "up")
            _ip("-n", self.name, "addr", "add", f"{inside}/30", "dev", "inside")
            _ip("-n", self.name, "link", "set", "inside", "up")
        except BaseException:
            self.close()
            raise

    @property
    def command(self) -> list[str]:
        """What runs the words after it in this network."""
        return ["ip", "netns", "exec", self.name]

    def down(self) -> None:
        _ip("link", "set", self._link, "down")

    def up(self) -> None:
        _ip("link", "set", self._link, "up")

    def cut(self, *, incoming: bool) -> None:
        """Lose every packet of one direction, which nobody is told of: a queue without room drops them."""
        full = ("root", "bfifo", "limit", "0")
        if incoming:
            _run("tc", "qdisc", "replace", "dev", self._link, *full)
        else:
            _run("tc", "-n", self.name, "qdisc", "replace", "dev", "inside", *full)

    def mend(self) -> None:
        """Let packets of both directions pass again."""
        for words in (["dev", self._link], ["dev", "inside"]):
            where = [] if words[1] == self._link else ["-n", self.name]
            subprocess.run(["tc", *where, "qdisc", "del", *words, "root"], capture_output=True, check=False)

    def close(self) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"{' '.join(words)}: {done.stderr.strip()}")


class SlowDisk:
    """Each flush of a server to its disk takes longer, by strace, until :meth:`close`.

    :raises Missing: there is no strace, or it may not trace
    """

    def __init__(self, server: int) -> None:
        strace = shutil.which("strace")
        if strace is None:
            raise Missing("no strace; on Debian: apt-get install strace")
        delay = f"fsync,fdatasync:delay_enter={round(_DELAY * 1e6)}"
        targets = [word for pid in processes(server) for word in ("-p", str(pid))]
        command = [
            strace,
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "trace=fsync,fdatasync",
            "-e",
            f"inject={delay}",
        ]
        self._process = subprocess.Popen([*command, *targets], stderr=subprocess.DEVNULL)
        while not _is_traced(server):
            # Before that, SIGTERM would leave a child of its behind.
            if self._process.poll() is not None:
                raise Missing("strace may not trace the server: run as root")
            time.sleep(0.01)

    def close(self) -> None:
        """Let it be as fast as it is."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(180)


def _is_traced(pid: int) -> bool:
    return "\nTracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()


def processes(pid: int) -> list[int]:
    """This process and all its children."""
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [one for child in children.read_text().split() for one in processes(int(child))]
        except OSError:  # ended meanwhile
            continue
    return found
