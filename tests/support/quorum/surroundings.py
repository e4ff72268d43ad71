"""Three machines on two networks, each a namespace with a nats-server, a ZooKeeper and a broker."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from jdbcstore.testing.polling import wait_until
from tests.support import tiers
from tests.support.campaign.clients import Endpoint
from tests.support.campaign.processes import Running
from tests.support.campaign.versions import Versions
from tests.support.campaign.world import Disk
from tests.support.failover.surroundings import Missing, _ip, _run
from tests.support.interop.activemq import QUICK_START
from tests.support.jvm import NO_TRACES

STOMP, OPENWIRE, _NATS, _ROUTES, _MONITOR, _CLIENT, _PEER, _VOTES = (
    61613,
    61616,
    4222,
    6222,
    8222,
    2181,
    2888,
    3888,
)
STREAM = "quorum"
_WAIT = 120.0
_TICK = 200
"""Milliseconds. A session of ZooKeeper lasts 2 to 20 of them."""
_NUMBERS = (1, 2, 3)

MAIN, ELECTION = "main", "election"
NETWORKS = (MAIN, ELECTION)
_FIRST = {MAIN: 0, ELECTION: 128}
"""What is added to a machine's number in its address, by network."""


class Switch:
    """Two networks of machines, each a namespace with a link to the bridge of either.

    ZooKeeper has one for itself, so that it may be lost alone. This process has a link to the other one.

    :raises Missing: we are not root, or there is no ``ip``
    """

    def __init__(self) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise Missing("ip netns needs root and iproute2")
        self._name = f"jsq{os.getpid() % 10**7}"
        self._prefix = _free_prefix()
        self.host = f"{self._prefix}.126"
        self._spaces: list[str] = []
        try:
            self._add(self._name)
            for network in NETWORKS:
                _ip("-n", self._name, "link", "add", network, "type", "bridge")
                _ip("-n", self._name, "link", "set", network, "up")
            _ip("link", "add", self._name, "type", "veth", "peer", "name", "host", "netns", self._name)
            self._join("host", MAIN)
            _ip("addr", "add", f"{self.host}/25", "dev", self._name)
            _ip("link", "set", self._name, "up")
            for number in _NUMBERS:
                self._add(f"{self._name}-{number}")
                for network in NETWORKS:
                    self._plug(number, network)
        except BaseException:
            self.close()
            raise

    def _add(self, space: str) -> None:
        _ip("netns", "add", space)
        self._spaces.append(space)
        _ip("-n", space, "link", "set", "lo", "up")

    def _join(self, port: str, network: str) -> None:
        _ip("-n", self._name, "link", "set", port, "master", network)
        _ip("-n", self._name, "link", "set", port, "up")

    def _plug(self, number: int, network: str) -> None:
        space, port = f"{self._name}-{number}", f"{network}{number}"
        _ip("-n", self._name, "link", "add", port, "type", "veth", "peer", "name", network, "netns", space)
        self._join(port, network)
        _ip("-n", space, "addr", "add", f"{self.address(number, network)}/25", "dev", network)
        _ip("-n", space, "link", "set", network, "up")

    def address(self, number: int, network: str = MAIN) -> str:
        """Return the address of a machine."""
        return f"{self._prefix}.{number + _FIRST[network]}"

    def command(self, number: int) -> tuple[str, ...]:
        """Return what runs the words after it on a machine."""
        return ("ip", "netns", "exec", f"{self._name}-{number}")

    def cut(self, number: int, networks: Sequence[str], *, incoming: bool, outgoing: bool) -> None:
        """Lose every packet to a machine or from it, which nobody is told of."""
        full = ("root", "bfifo", "limit", "0")
        for network in networks:
            if incoming:
                _run("tc", "-n", self._name, "qdisc", "replace", "dev", f"{network}{number}", *full)
            if outgoing:
                _run("tc", "-n", f"{self._name}-{number}", "qdisc", "replace", "dev", network, *full)

    def mend(self, number: int) -> None:
        """Let all packets pass again."""
        for network in NETWORKS:
            for space, device in (
                (self._name, f"{network}{number}"),
                (f"{self._name}-{number}", network),
            ):
                words = ["tc", "-n", space, "qdisc", "del", "dev", device, "root"]
                subprocess.run(words, capture_output=True, check=False)

    def close(self) -> None:
        """Remove it."""
        for space in reversed(self._spaces):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def _free_prefix() -> str:
    """Return the first three numbers of addresses that nothing on this machine has."""
    # 198.18.0.0/15 is for tests of networks.
    used = subprocess.run(["ip", "-4", "addr"], capture_output=True, text=True, check=True).stdout
    start = os.getpid()
    return next(one for one in (f"198.19.{(start + i) % 256}" for i in range(256)) if f" {one}." not in used)


class Server:
    """A program on a machine, started again on the data of before."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.folder = folder
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self.folder)

    def send(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Machine:
    """One of the three. ``close`` ends what runs on it."""

    def __init__(self, switch: Switch, number: int, folder: Path, program: str, setting: str) -> None:
        self.number = number
        self.address = switch.address(number)
        self.folder = folder / f"m{number}"
        self.folder.mkdir()
        self._opened = ExitStack()
        self._switch = switch
        self.disk = Disk(self.folder / "disk")
        """That of its nats-server."""
        self._opened.callback(self.disk.close)
        self.storage = Disk(self.folder / "storage")
        """That of its broker."""
        self._opened.callback(self.storage.close)
        self.nats = self._make_nats(program, setting)
        self.zookeeper = self._make_zookeeper()
        self.log = self.folder / "broker.log"
        self.endpoint = Endpoint(self.address, STOMP, OPENWIRE)
        self.versions: Versions | None = None
        """Those of its broker, once that is configured."""
        self._configuration = self.folder
        self.broker: Running | None = None

    def _make_nats(self, program: str, setting: str) -> Server:
        folder = self.folder / "nats"
        folder.mkdir()
        routes = ", ".join(f"nats://{self._switch.address(one)}:{_ROUTES}" for one in _NUMBERS)
        (folder / "nats.conf").write_text(
            f"server_name: n{self.number}\nlisten: {self.address}:{_NATS}\nhttp: {self.address}:{_MONITOR}\n"
            f"jetstream {{ store_dir: {self.disk.folder}/nats\nmax_file_store: 500MB\n{setting} }}\n"
            f"cluster {{ name: c\nlisten: {self.address}:{_ROUTES}\nroutes: [{routes}] }}\n"
        )
        server = Server(folder, (*self._switch.command(self.number), program, "-c", f"{folder}/nats.conf"))
        self._opened.callback(server.kill)
        return server

    def _make_zookeeper(self) -> Server:
        folder = self.folder / "zookeeper"
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "myid").write_text(f"{self.number}\n")
        ensemble = "".join(
            f"server.{one}={self._switch.address(one, ELECTION)}:{_PEER}:{_VOTES}\n" for one in _NUMBERS
        )
        (folder / "zoo.cfg").write_text(
            f"tickTime={_TICK}\ninitLimit=50\nsyncLimit=10\ndataDir={folder}/data\nadmin.enableServer=false\n"
            f"clientPort={_CLIENT}\nclientPortAddress={self.zookeeper_address.partition(':')[0]}\n{ensemble}"
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        java = ("java", NO_TRACES, *QUICK_START, "-Xmx64m", "-cp", "/usr/share/java/zookeeper.jar", main)
        server = Server(folder, (*self._switch.command(self.number), *java, f"{folder}/zoo.cfg"))
        self._opened.callback(server.kill)
        return server

    def __str__(self) -> str:
        if self.versions is None or not self.versions.current:
            return str(self.number)
        return f"{self.number} (of {self.versions.name})"

    def configure(self, file: Path, environment: dict[str, str], previous: Path | None) -> None:
        """Prepare what starts its broker, with a configuration and an environment."""
        self._configuration = file
        preloaded = ("nats", "kazoo.client", "jdbcstore.journal.stream.log", "jdbcstore.lockers.zookeeper")
        prefix = self._switch.command(self.number)
        self.versions = Versions(previous, *preloaded, prefix=prefix, environment=environment)
        self._opened.callback(self.versions.close)

    def start_broker(self) -> None:
        """Start the broker, unless it runs."""
        if self.broker is None or self.broker.has_ended():
            assert self.versions is not None
            words = ("--stomp", f"{self.address}:{STOMP}", "--openwire", f"{self.address}:{OPENWIRE}")
            name = ("--name", self.node, "--config", str(self._configuration))
            self.broker = self.versions.start(self.log, "jdbcstore", "broker", *words, *name)

    @property
    def database(self) -> Path:
        """The file of the database that its broker has for itself, if brokers share nothing."""
        return self.storage.folder / "store" / "jdbcstore.db"

    @property
    def node(self) -> str:
        """The name of its broker."""
        return f"b{self.number}"

    @property
    def nats_address(self) -> str:
        """The address of its nats-server."""
        return f"nats://{self.address}:{_NATS}"

    @property
    def zookeeper_address(self) -> str:
        """The address of its ZooKeeper."""
        return f"{self._switch.address(self.number, ELECTION)}:{_CLIENT}"

    def wipe(self) -> None:
        """Remove the database that its broker, which does not run, has for itself."""
        shutil.rmtree(self.database.parent, ignore_errors=True)
        self.database.parent.mkdir()

    def is_healthy(self) -> bool:
        """Return whether the nats-server serves all that it has."""
        with contextlib.suppress(URLError, OSError):
            url = f"http://{self.address}:{_MONITOR}/healthz"
            with urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        return False

    def leads(self) -> bool:
        """Return whether its nats-server leads the stream."""
        url = f"http://{self.address}:{_MONITOR}/jsz?streams=true"
        with contextlib.suppress(URLError, OSError, ValueError, KeyError, IndexError):
            with urlopen(url, timeout=2) as answer:
                facts: Any = json.load(answer)
            streams = facts["account_details"][0]["stream_detail"]
            [stream] = [one for one in streams if one["name"] == STREAM]
            return bool(stream["cluster"]["leader"] == f"n{self.number}")
        return False

    def accepts(self) -> bool:
        """Return whether its broker listens: then it is the master, or believes so."""
        with contextlib.suppress(OSError), socket.create_connection((self.address, STOMP), 0.5):
            return True
        return False

    def close(self) -> None:
        """End all."""
        self._opened.close()


@contextlib.contextmanager
def machines(program: str, setting: str) -> Iterator[tuple[Switch, list[Machine]]]:
    """Yield three machines, whose nats-servers and ZooKeepers run."""
    tiers.starts("servers")
    with ExitStack() as opened:
        folder = Path(tempfile.mkdtemp(prefix="jdbcstore-quorum-"))
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        switch = Switch()
        opened.callback(switch.close)
        three = []
        for number in _NUMBERS:
            three.append(Machine(switch, number, folder, program, setting))
            opened.callback(three[-1].close)
        for machine in three:
            machine.nats.start()
            machine.zookeeper.start()
        wait_until(lambda: all(machine.is_healthy() for machine in three), _WAIT, "three nats-servers")
        yield switch, three
