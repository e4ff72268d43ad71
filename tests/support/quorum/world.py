"""Brokers on three machines with their journal in a stream, and their clients."""

from __future__ import annotations

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jdbcstore import Configuration, JdbcStore
from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreError
from jdbcstore.journal.stream.members import group
from jdbcstore.testing.polling import wait_until
from tests.support.broker.openwire import jms
from tests.support.campaign.clients import (
    ALONE,
    FIRST,
    QUEUES,
    SCHEDULED,
    Client,
    Progress,
    StompConsumer,
    Surroundings,
    XaProducer,
    make_clients,
)
from tests.support.faults.proxy import ProxyLine
from tests.support.histories.checker import Rules, Violation, check
from tests.support.histories.events import Delivery, Event, Left, Outcome, Problem, Write
from tests.support.histories.recorder import Recorder
from tests.support.jms_pair.clients import Batches, Consumer, PairClient, Producer
from tests.support.jms_pair.history import QUEUE, SUBSCRIBERS, TOPIC, History
from tests.support.jms_pair.history import Delivery as Received
from tests.support.quorum.surroundings import OPENWIRE, STREAM, Machine, Switch
from tests.support.quorum.writers import Writers
from tests.support.stomp import Connection, Refused

LEASE = 1.0
"""Seconds: of the lease, and of the session of ZooKeeper."""
BACK = 120.0
"""Seconds after a fault in which each kind of client must have done something."""
_DRAIN = 120.0
_PASSING = ("does not answer", "cannot reach")
"""What is said by a broker that may end: it found no server when it started."""
_SMALL = {"journal_log_file_size": "64 kb", "kept_for_followers": "256 kb"}
"""Much is released, so that some need a copy."""
_EXAMPLE = """
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="broker" persistent="true">
  <persistenceAdapter>
    <replicatedLevelDB
      directory="{directory}"
      replicas="3"
      bind="tcp://0.0.0.0:0"
      zkAddress="{zookeepers}"
      zkPassword="password"
      zkPath="/activemq/leveldb-stores"
      hostname="{node}.example.org"
      />
  </persistenceAdapter>
</broker>
"""
"""Example 5.1 of the manual of the Replicated LevelDB store, addresses aside."""


@dataclass(frozen=True)
class Plan:
    """What a world is made of."""

    seed: str
    by_zookeeper: bool
    """Whether ZooKeeper elects the master; else a lease: in the database, or beside the stream."""
    syncs: bool
    """Whether the nats-servers sync before they acknowledge."""
    replicated: bool
    """Whether each broker has an SQLite of its own; else they share a PostgreSQL."""
    mutation: str = ""
    """The name of a defect that is put into the brokers."""
    previous: Path | None = None
    """The folder of another version of the product, which brokers may have instead of this one."""

    def __str__(self) -> str:
        kind = "replicated" if self.replicated else "shared"
        election = "ZooKeeper" if self.by_zookeeper else "lease"
        return f"{self.seed}, {kind}, {election}, {self.sync}"

    @property
    def sync(self) -> str:
        """The option of the journal."""
        return "quorum_disk" if self.syncs else "quorum_mem"

    @property
    def options(self) -> dict[str, str | float | bool]:
        """The options of each broker, beside its addresses: section and name of each."""
        journal: dict[str, str | float] = {
            "stream_name": STREAM,
            "sync": self.sync,
            "checkpoint_interval": 2.0,
        }
        journal |= _SMALL if self.replicated else {"journal_log_file_size": "1 mb"}
        locker: dict[str, str | float] = {"lock_keep_alive_period": LEASE / 5, "session_timeout": LEASE}
        if self.by_zookeeper:
            locker["type"] = "zookeeper-locker"
        elif self.replicated:
            locker["type"] = "stream-locker"
        else:
            del locker["session_timeout"]
            locker |= {"type": "lease-database-locker", "lock_acquire_sleep_interval": LEASE}
        return {
            "broker_scheduler_support": True,
            "broker_become_slave": True,
            **{f"locker_{name}": value for name, value in locker.items()},
            **{f"journal_{name}": value for name, value in journal.items()},
        }


class _Consumer(Consumer):
    """A consumer that does not ask its client which broker it is connected to: all are ours."""

    def _note(self, client: jms.Jms, message: Any) -> None:
        del client
        body, is_again = str(message.getText()), bool(message.getJMSRedelivered())
        self.history.deliver(Received(self.reader, body, is_again, "ours"))


def _left(url: str) -> tuple[list[Left], set[str]]:
    """Return what is left in a database, and the dead letters."""
    configuration = Configuration(data_source=DataSourceConfig(url=url))
    left: list[Left] = []
    with JdbcStore.configured(configuration, read_only=True, journaled=True) as store:
        for name in QUEUES:
            left += [Left(name, str(message.body)) for message in store.queue(name).recover(10_000)]
        subscription = store.topic("NEWS").subscription("first", "first")
        left += [Left(FIRST, str(message.body)) for message in subscription.recover(10_000)]
        dead = {str(message.body) for message in store.queue("ActiveMQ.DLQ").recover(10_000)}
    return left, dead


class World:
    """All of it, on an empty database.

    :param url: of the database that the brokers share, if they do
    """

    def __init__(self, switch: Switch, machines: list[Machine], url: str | None, plan: Plan) -> None:
        jms.activemq("ActiveMQConnectionFactory")  # or it is not there; and one thread starts Java
        self.machines = machines
        self.switch = switch
        self.plan = plan
        self.recorder = Recorder()
        self.ended: list[str] = []
        """Brokers that have ended by themselves, with their last words."""
        self._url = url
        self._progress = Progress()
        self._quiet = threading.Event()
        self._jms = History()
        self._line: ProxyLine | None = None
        if url is not None:
            JdbcStore(url).close()
            self._line = ProxyLine(url, switch.host)
        stream = ",".join(machine.nats_address for machine in machines)
        self.journal = JournalConfig(stream=stream, stream_name=STREAM)
        for machine in machines:
            self._configure(machine)
        self.writers = Writers(self.journal)
        for machine in machines:
            machine.start_broker()
        wait_until(self._has_master, 120.0, "a master")
        shared = Surroundings(
            self.recorder, self._progress, self._quiet, tuple(one.endpoint for one in machines), plan.seed
        )
        self._producers, self._consumers = make_clients(shared)
        brokers = ",".join(f"tcp://{machine.address}:{OPENWIRE}" for machine in machines)
        common = (
            self._jms,
            f"failover:({brokers})?jms.redeliveryPolicy.maximumRedeliveries=-1",
            {OPENWIRE: "ours"},
        )
        self._readers: list[PairClient] = [
            _Consumer("Q-transacted", QUEUE, True, *common),
            _Consumer("Q-acknowledging", QUEUE, False, *common),
            *(_Consumer(f"T-{name}", name, name == "transacted", *common) for name in SUBSCRIBERS),
        ]
        self._senders: list[PairClient] = [
            Producer("plain", QUEUE, *common),
            Producer("second", QUEUE, *common),
            Producer("topic", TOPIC, *common),
            Batches("batch", *common),
        ]

    def _configure(self, machine: Machine) -> None:
        """Write the configuration of a broker, whose database is empty."""
        plan = self.plan
        machine.wipe()
        zookeepers = ",".join(one.zookeeper_address for one in self.machines)
        options = plan.options | {"journal_stream": str(self.journal.stream), "journal_node": machine.node}
        if plan.replicated and plan.by_zookeeper:
            file = machine.folder / "activemq.xml"
            directory = machine.database.parent
            given = {"directory": directory, "zookeepers": zookeepers, "node": machine.node}
            file.write_text(_EXAMPLE.format(**given))
            del options["locker_type"]
        else:
            file = machine.folder / "broker.toml"
            url = f"sqlite:///{machine.database}" if self._line is None else self._line.url
            sections = ["journal.replicated = true"] if plan.replicated else []
            sections += [f'locker.address = "{zookeepers}"'] if plan.by_zookeeper else []
            file.write_text("\n".join([f'url = "{url}"', *sections]))
        environment = {f"JDBCSTORE_{name.upper()}": str(value) for name, value in options.items()}
        machine.configure(file, environment | {"CAMPAIGN_MUTATION": plan.mutation}, plan.previous)

    def start(self) -> None:
        """Start the clients: producers when the subscriptions are there."""
        for consumer in (*self._consumers, *self._readers):
            consumer.start()
        [durable] = [one for one in self._consumers if isinstance(one, StompConsumer) and one.scope == FIRST]
        ready = [durable.subscribed, *(one.ready for one in self._readers)]
        wait_until(lambda: all(one.is_set() for one in ready), 120.0, "subscriptions")
        for producer in (*self._producers, *self._senders):
            producer.start()
        self.await_service("the start")

    def _has_master(self) -> bool:
        self.tend()  # ZooKeeper may be starting yet
        return any(machine.accepts() for machine in self.machines)

    def master(self) -> Machine:
        """Return the machine whose broker serves, or one of them."""
        return next((machine for machine in self.machines if machine.accepts()), self.machines[0])

    def tend(self) -> None:
        """Start each broker again that has ended, as a supervisor does."""
        for machine in self.machines:
            if machine.broker is not None and machine.broker.has_ended():
                words = machine.log.read_text(errors="replace")[-1500:].rstrip()
                self.ended.append(f"{machine.number}: {words}")
                if not any(one in words.splitlines()[-1] for one in _PASSING):
                    self.recorder.add(Problem(time.monotonic(), f"broker {machine.number} ended: {words}"))
                machine.start_broker()

    def await_service(self, fault: str) -> float:
        """Wait until each kind of client has done something; return the seconds."""
        begin = time.monotonic()
        before, number = {**self._progress.done}, self._jms.number

        def is_back() -> bool:
            self.tend()
            done = self._progress.done
            groups = all(done[group] > before.get(group, 0) for group in ("stomp", "openwire"))
            return groups and self._jms.number > number

        try:
            wait_until(is_back, BACK)
        except AssertionError:
            text = f"no service for all within {BACK:g} s after {fault}"
            self.recorder.add(Problem(time.monotonic(), text))
        self.writers.look()
        return time.monotonic() - begin

    def time_to_serve(self) -> float:
        """Kill the master, and return the seconds until another has confirmed a message."""
        master = self.master()
        assert master.broker is not None
        begin = time.monotonic()
        master.broker.send(signal.SIGKILL)
        while True:
            for machine in self.machines:
                if machine is master:
                    continue
                with (
                    suppress(OSError, Refused),
                    Connection(61613, address=machine.address, patience=2.0) as connection,
                ):
                    headers = {"destination": "/queue/PROBE", "persistent": "true", "receipt": "r"}
                    connection.write("SEND", headers, b"probe")
                    connection.expect()
                    seconds = time.monotonic() - begin
                    master.start_broker()
                    return seconds
            time.sleep(0.02)

    def finish(self) -> tuple[list[Violation], dict[str, int]]:
        """Let all be consumed, end everything; return what is wrong, and what was done."""
        self._quiet.set()
        self._stop(self._senders)
        with suppress(AssertionError):
            wait_until(lambda: not self._waiting(), _DRAIN)
        for text in self._waiting():
            self.recorder.add(Problem(time.monotonic(), f"not consumed in {_DRAIN:g} s: {text}"))
        for clients in (self._producers, self._consumers, self._readers):
            self._stop(clients)
        self.writers.look()
        if self.plan.replicated:
            self.await_level("the end")
        ending = sorted(self.machines, key=lambda one: one.accepts())  # the master last
        for machine in ending:
            if machine.broker is not None and not machine.broker.has_ended() and not machine.broker.end():
                self.recorder.add(Problem(time.monotonic(), f"{machine.number} did not end when asked to"))
        return self._judge(ending[-1])

    def await_level(self, what: str) -> None:
        """Wait until each broker has in a database of its own what the stream has now."""
        goal = 0

        def is_level() -> bool:
            nonlocal goal
            self.tend()
            with suppress(StoreError):
                found = group(self.journal)
                goal = goal or found.last_record
                level = {
                    one.node
                    for one in found.members
                    if one.is_alive and one.is_complete and not one.wants and one.applied >= goal
                }
                return {machine.node for machine in self.machines} <= level
            return False

        try:
            wait_until(is_level, BACK)
        except AssertionError:
            text = f"not all brokers have everything within {BACK:g} s before {what}"
            with suppress(StoreError):
                text += f": {group(self.journal)}"
            self.recorder.add(Problem(time.monotonic(), text))

    def _judge(self, master: Machine) -> tuple[list[Violation], dict[str, int]]:
        events: list[Event] = [*self.recorder.events]
        left, dead = _left(f"sqlite:///{master.database}" if self._url is None else self._url)
        events += left
        if self._url is None:
            for machine in self.machines:
                other = _left(f"sqlite:///{machine.database}")
                if other != (left, dead):
                    text = f"{machine.node} has {other}, and {master.node}, the master, {(left, dead)}"
                    events.append(Problem(time.monotonic(), text))
        found = check(events, Rules(alone=ALONE, unordered=(SCHEDULED,)))
        found += [Violation("jms", text) for text in self._jms.check(dead).wrong]
        found += [Violation("order", text) for text in self._unordered()]
        found += [Violation("writers", text) for text in self.writers.wrong]
        counts = {
            "writes": sum(isinstance(event, Write) for event in events) + len(self._jms.sent),
            "deliveries": sum(isinstance(one, Delivery) for one in events) + len(self._jms.deliveries),
            "writers": len(self.writers.every),
            "branches": sum(
                isinstance(one, Write)
                and one.outcome is Outcome.OK
                and any(to == "ITEMS" for to, _ in one.sends)
                for one in events
            ),
            "ended by themselves": len(self.ended),
            "dead letters": len(dead),
        }
        return found, counts

    def _unordered(self) -> Iterator[str]:
        latest: dict[tuple[str, str], list[int]] = defaultdict(list)
        for one in self._jms.deliveries:
            producer, _, number = one.body.partition("-")
            place = [int(part) for part in number.split(".")]
            if one.reader in SUBSCRIBERS and not one.redelivered:
                if place < latest[one.reader, producer]:
                    yield f"{one.body} came to {one.reader} behind {latest[one.reader, producer]}"
                latest[one.reader, producer] = place

    def _waiting(self) -> list[str]:
        self.tend()
        left = [f"{name} of {scope}" for scope in (*QUEUES, FIRST) for name in self._progress.waiting(scope)]
        [xa] = [one for one in self._producers if isinstance(one, XaProducer)]
        left += [f"{xa.doubtful} branches in doubt"] if xa.doubtful else []
        return left + [f"{body} for {who}" for who, all_ in self._jms.missing(()).items() for body in all_]

    def _stop(self, clients: Sequence[Client | PairClient]) -> None:
        for client in clients:
            client.stop()
        for client in clients:
            if client.ident is not None:
                client.join(120.0)

    def close(self) -> None:
        """End the clients and brokers."""
        for clients in (self._producers, self._consumers, self._senders, self._readers):
            self._stop(clients)
        for machine in self.machines:
            if machine.broker is not None:
                machine.broker.send(signal.SIGKILL)
        self.writers.close()
        if self._line is not None:
            self._line.close()
