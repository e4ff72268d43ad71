"""A database, two brokers on it, clients of all kinds, and workers: what the campaign breaks."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from jdbcstore import Configuration, JdbcStore
from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.backends import Backend
from tests.support.campaign.clients import (
    ALONE,
    FIRST,
    QUEUES,
    SCHEDULED,
    Client,
    Endpoint,
    Progress,
    StompConsumer,
    Surroundings,
    XaProducer,
    make_clients,
)
from tests.support.campaign.clusters import Balancer, Cluster
from tests.support.campaign.processes import Nurse, Running
from tests.support.campaign.versions import Versions
from tests.support.campaign.workers import JOBS, TASKS, Adder, Publisher
from tests.support.databases import Database, SqliteDatabase
from tests.support.failover.surroundings import Missing, Network, SkewedClock
from tests.support.faults.proxy import ProxyLine
from tests.support.histories.checker import Rules, Violation, check
from tests.support.histories.events import Delivery, Event, Left, Problem, Write
from tests.support.histories.recorder import Recorder, collect
from tests.support.ports import free_port
from tests.support.servers import Server

LEASE = 2.0
LEASE_OF_CLUSTER = 8.0
"""Longer than a cluster takes to find a dead node, so that its master keeps the lease meanwhile."""
BACK = 60.0
"""The seconds after a fault in which each group of clients must have done something."""
DRAIN = 60.0
GROUPS = ("stomp", "openwire", "claims", "celery")
_DISK = "800m"
_CONFIGURATION = """
[broker]
scheduler_support = true
become_slave = true

[locker]
type = "lease-database-locker"
lock_acquire_sleep_interval = {lease}
lock_keep_alive_period = {keep_alive}
"""


_JOURNAL = """
[journal]
directory = "{directory}"
journal_shared = true
journal_log_files = 1
journal_log_file_size = "1 mb"
checkpoint_interval = 1.0
"""


class Disk:
    """A small file system of memory, which can be full at once.

    :raises Missing: we may not mount
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o755)
        self._mount("-t", "tmpfs", "-o", f"size={_DISK},mode=0755", "tmpfs")

    def _mount(self, *words: str) -> None:
        done = subprocess.run(
            ["mount", *words, str(self.folder)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Missing(f"no file system of its own: {done.stderr.strip()}")

    def fill(self) -> None:
        """Leave no room: whatever needs a page more fails."""
        for spare in range(20):  # what is written meanwhile does not fit
            used = shutil.disk_usage(self.folder).used
            with suppress(Missing):
                self._mount("-o", f"remount,size={max(used, 1 << 20) + (spare << 16)}")
                return

    def free(self) -> None:
        """Make room again."""
        self._mount("-o", f"remount,size={_DISK}")

    def close(self) -> None:
        """Remove it and all that is on it."""
        subprocess.run(["umount", "-l", str(self.folder)], check=False)


class Broker:
    """One of the brokers: started again whenever it has ended, in the version that it has at the time."""

    def __init__(
        self,
        name: str,
        folder: Path,
        url: str,
        previous: Path | None,
        configuration: str,
        mutation: str,
    ) -> None:
        self.name = name
        self.network: Network | None = None
        self.clock: SkewedClock | None = None
        self.absent: dict[str, str] = {}
        """Faults that cannot be done here, and why."""
        self._folder = folder / name
        self._folder.mkdir()
        self.log = self._folder / "log"
        try:
            self.network = Network()
        except Missing as missing:
            self.absent["cut"] = str(missing)
        try:
            self.clock = SkewedClock(self._folder)
        except Missing as missing:
            self.absent["clock"] = str(missing)
        host = self.network.host if self.network else "127.0.0.1"
        self.line = ProxyLine(url, host) if make_url(url).host else None
        inside = self.network.inside if self.network else host
        ports = (61613, 61616) if self.network else (free_port(), free_port())
        self.endpoint = Endpoint(inside, *ports)
        (self._folder / "broker.toml").write_text(configuration)
        environment = dict(self.clock.environment) if self.clock else {}
        if mutation:
            environment["CAMPAIGN_MUTATION"] = mutation
        prefix = tuple(self.network.command) if self.network else ()
        self.versions = Versions(previous, prefix=prefix, environment=environment)
        self._arguments = (
            "broker",
            *("--stomp", f"{inside}:{ports[0]}", "--openwire", f"{inside}:{ports[1]}", "--name", name),
            *("--url", self.line.url if self.line else url, "--config", str(self._folder / "broker.toml")),
        )
        self.process = self.start()

    def start(self) -> Running:
        """Start it in its version."""
        self.process = self.versions.start(self.log, "jdbcstore", *self._arguments)
        return self.process

    def close(self) -> None:
        """End it, and all that it lives in."""
        self.versions.close()
        if self.line is not None:
            self.line.close()
        if self.network is not None:
            self.network.close()


class Worker:
    """A process that claims or runs tasks; started again whenever it has ended."""

    def __init__(self, kind: str, number: int, nurse: Nurse, folder: Path, url: str, lease: float) -> None:
        self.name = f"{kind}{number}"
        self.log = folder / f"{self.name}.log"
        self._nurse = nurse
        self._arguments = (kind, url, str(lease), str(folder), self.name)
        self.process = self.start()

    def start(self) -> Running:
        """Start it."""
        self.process = self._nurse.start(self.log, "tests.support.campaign.workers", *self._arguments)
        return self.process


class World:
    """All of it, on an empty database. :meth:`close` removes everything."""

    def __init__(
        self,
        backend: Backend,
        seed: str,
        *,
        journaled: bool = False,
        previous: Path | None = None,
        mutation: str = "",
        cluster: Cluster | None = None,
    ) -> None:
        self.backend = backend
        self.cluster = cluster
        self.lease = LEASE if cluster is None else LEASE_OF_CLUSTER
        self.absent: dict[str, str] = {}
        self.recorder = Recorder()
        self.progress = Progress()
        self.quiet = threading.Event()
        self.ended: list[str] = []
        """Processes that have ended by themselves, with their last words."""
        self.server: Server | None = None
        self.disk: Disk | None = None
        self._opened = ExitStack()
        try:
            self._open(seed, previous, journaled, mutation)
        except BaseException:
            self._opened.close()
            raise

    def _open(self, seed: str, previous: Path | None, journaled: bool, mutation: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jdbcstore-campaign-"))
        self._opened.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        storage = self._storage()
        self._make_databases(storage)
        journal = _JOURNAL.format(directory=storage / "journal") if journaled else ""
        JdbcStore(self.database.url).close()
        address = self.database.url
        self.line = ProxyLine(address) if self.server or self.cluster else None
        if self.line is not None:
            self._opened.callback(self.line.close)
        url = (
            self.claimed.url
            if self.line is None
            else self.claimed.url_with(port=make_url(self.line.url).port)
        )
        configuration = _CONFIGURATION.format(lease=self.lease, keep_alive=self.lease / 5) + journal
        self.brokers: list[Broker] = []
        for name in ("one", "two"):
            broker = Broker(name, self.folder, address, previous, configuration, mutation)
            self._opened.callback(broker.close)
            self.brokers.append(broker)
            self.absent |= broker.absent
        if self.cluster is not None:
            self._balance(self.cluster)
        histories = self.folder / "histories"
        histories.mkdir()
        nurse = Nurse("tests.support.campaign.workers", "celery.apps.worker", "jdbcstore.plugins.kombu")
        self._opened.callback(nurse.close)
        self._histories = histories
        self.workers = [
            Worker(kind, number, nurse, histories, url, self.lease)
            for kind, number in (("claims", 1), ("claims", 2), ("celery", 1), ("celery", 2))
        ]
        shared = Surroundings(
            self.recorder, self.progress, self.quiet, tuple(broker.endpoint for broker in self.brokers), seed
        )
        producers, self._consumers = make_clients(shared)
        self._producers: list[Client] = [
            *producers,
            Adder("P5", shared, url, self.lease),
            Publisher("P6", shared, url, self.lease),
        ]
        self._opened.callback(self._stop_clients)
        for consumer in self._consumers:
            consumer.start()
        [durable] = [one for one in self._consumers if isinstance(one, StompConsumer) and one.scope == FIRST]
        wait_until(durable.subscribed.is_set, 300.0, "that the durable subscription is there")
        for producer in self._producers:
            producer.start()
        self.await_service("the start", 120.0)

    def _storage(self) -> Path:
        """Return the folder of the database and the journal: on a disk of its own, if there is one."""
        folder = self.folder / "disk"
        if self.cluster is not None:
            self.absent["disk"] = "the nodes are on disks of their own"
            return self.folder
        try:
            self.disk = Disk(folder)
            self._opened.callback(self.disk.close)
        except Missing as missing:
            self.absent["disk"] = str(missing)
        return folder if self.disk else self.folder

    def _balance(self, cluster: Cluster) -> None:
        """Lead each broker and all others to a node of the cluster, and read through the same balancer."""
        assert self.line is not None
        lines = [broker.line for broker in self.brokers if broker.line is not None]
        balancer = Balancer(cluster, [*lines, self.line])
        self._opened.callback(balancer.close)
        for database in (self.database, self.claimed):
            database.move(int(make_url(self.line.url).port or 0))
            database.settle = cluster.settle

    def _make_databases(self, folder: Path) -> None:
        """Make one database for the brokers and one for claims, which do not share their tables."""
        self.database: Database
        self.claimed: Database
        if self.cluster is not None:
            address = self.cluster.url
        elif self.backend.private is None:
            (folder / "claims").mkdir()
            self.database, self.claimed = SqliteDatabase(folder), SqliteDatabase(folder / "claims")
            return
        else:
            self.server = self.backend.private(folder)
            self._opened.callback(self._close_server)
            address = self.backend.private_url(self.server)
        self.database, self.claimed = self.backend.database(address), self.backend.database(address)

    def _close_server(self) -> None:
        if self.server is not None:  # it may be another one by now
            self.server.close()

    @property
    def processes(self) -> list[Broker | Worker]:
        """All that can be killed."""
        return [*self.brokers, *self.workers]

    def serving(self) -> Broker:
        """Return the broker that said last that it serves, or the first one."""
        said = [(_last_ready(broker.log), broker.name, broker) for broker in self.brokers]
        return max(said, key=lambda one: one[:2])[2]

    def tend(self) -> None:
        """Start each process again that has ended, as a supervisor does."""
        for member in self.processes:
            if member.process.has_ended():
                self.ended.append(f"{member.name}: {member.log.read_text(errors='replace')[-300:]}")
                member.start()

    def await_service(self, fault: str, within: float = BACK) -> dict[str, float]:
        """Wait until each group of clients has done something; return the seconds that each took."""
        begin = time.monotonic()
        before = {group: self.progress.done[group] for group in GROUPS}
        back: dict[str, float] = {}
        while len(back) < len(GROUPS) and time.monotonic() < begin + within:
            self.tend()
            self.progress.wait_beyond(before, 0.25)
            for group in [group for group in before if self.progress.done[group] > before[group]]:
                back[group] = time.monotonic() - begin
                del before[group]
        if before:
            text = f"{', '.join(before)}: nothing succeeded in {within:g} s after {fault}"
            self.recorder.add(Problem(time.monotonic(), text))
        return back

    def drain(self) -> list[str]:
        """Let all be consumed while nobody sends; return what is left, and was confirmed."""
        self.quiet.set()

        def left() -> list[str]:
            self.tend()
            waiting = [
                f"{name} of {scope}" for scope in (*QUEUES, FIRST) for name in self.progress.waiting(scope)
            ]
            [xa] = [one for one in self._producers if isinstance(one, XaProducer)]
            doubtful = [f"{xa.doubtful} branches in doubt"] if xa.doubtful else []
            return [*waiting, *doubtful, *_rows_left(self.database), *_rows_left(self.claimed)]

        with suppress(AssertionError):
            wait_until(lambda: not left(), DRAIN)
        return left()

    def use(self, server: Server) -> None:
        """Lead everybody to another server with the same content, under the same addresses."""
        self.server = server
        for database in (self.database, self.claimed):
            database.move(server.port)
        for line in (self.line, *(broker.line for broker in self.brokers)):
            if line is not None:
                line.lead_to(server.port)

    def history(self) -> list[Event]:
        """Return all that was recorded so far."""
        return [*self.recorder.events, *collect(self._histories)]

    def go_on(self) -> None:
        """Send again."""
        self.quiet.clear()

    def check(self) -> list[Violation]:
        """Return what is wrong so far; what is left is not looked at."""
        return check(
            self.history(), Rules(alone=ALONE, unordered=(SCHEDULED,), exclusive=(JOBS,), is_complete=False)
        )

    def finish(self) -> tuple[list[Violation], dict[str, int]]:
        """Let all be consumed, end everything; return what is wrong, and what was done."""
        left = self.drain()
        for text in left:
            self.recorder.add(Problem(time.monotonic(), f"not consumed in {DRAIN:g} s: {text}"))
        self._stop_clients()
        for broker in self.brokers:
            if not broker.process.has_ended() and not broker.process.end():
                self.recorder.add(Problem(time.monotonic(), f"{broker.name} did not end when asked to"))
        for worker in self.workers:
            worker.process.send(signal.SIGKILL)
        events = [*self.history(), *self._left()]
        for member in self.processes:
            for line in member.log.read_text(errors="replace").splitlines():
                # What an earlier version logs is not news, and asyncio's own calls may be failed, too.
                if "logger=asyncio" in line and str(ROOT / "jdbcstore") in line:
                    events.append(Problem(time.monotonic(), f"{member.name} logged: {line[:3000]}"))
        rules = Rules(alone=ALONE, unordered=(SCHEDULED,), exclusive=(JOBS,))
        counts = {
            "writes": sum(isinstance(event, Write) for event in events),
            "deliveries": sum(isinstance(event, Delivery) for event in events),
        }
        return check(events, rules), counts

    def _left(self) -> Iterator[Left]:
        if self.cluster is not None:
            self.cluster.settle()
        with _reading(self.database.url) as store:
            for name in QUEUES:
                yield from (Left(name, str(message.body)) for message in store.queue(name).recover(10_000))
            for message in store.topic("NEWS").subscription("first", "first").recover(10_000):
                yield Left(FIRST, str(message.body))
            for message in store.queue("ActiveMQ.DLQ").recover(10_000):
                origin = message.original_destination
                yield Left("ActiveMQ.DLQ", str(message.body), dead_for=origin.name if origin else "?")
        with _reading(self.claimed.url) as store:
            yield from (Left(JOBS, str(message.body)) for message in store.queue(JOBS).recover(10_000))
            yield from (
                Left(TASKS, _task(str(message.body))) for message in store.queue(TASKS).recover(10_000)
            )

    def _stop_clients(self) -> None:
        clients = [*self._producers, *self._consumers]
        for client in clients:
            client.stop()
        for client in clients:
            if client.ident is not None:
                client.join(60.0)

    def close(self) -> None:
        """Remove everything."""
        self._opened.close()


def _rows_left(database: Database) -> list[str]:
    try:
        rows = database.rows(
            "SELECT CONTAINER, COUNT(*), COUNT(XID) FROM ACTIVEMQ_MSGS"
            " WHERE CONTAINER LIKE 'queue://%' GROUP BY CONTAINER"
        )
    except DBAPIError as error:
        return [f"the database does not answer: {error}"]
    return [f"{count} of {name}, {in_doubt} of them prepared" for name, count, in_doubt in rows]


def _reading(url: str) -> JdbcStore:
    configuration = Configuration(data_source=DataSourceConfig(url=url))
    return JdbcStore.configured(configuration, read_only=True)


def _task(envelope: str) -> str:
    found = re.search(r"P6\.\d+", envelope)
    return found.group() if found else envelope


def _last_ready(log: Path) -> int:
    return log.read_text(errors="replace").rfind("ready stomp=") if log.exists() else -1
