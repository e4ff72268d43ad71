"""Brokers on three machines with their journal in a stream, their clients, and what is done to them."""

from __future__ import annotations

import random
import shutil
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from jdbcstore import Configuration, JdbcStore
from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreError
from jdbcstore.journal.stream.pieces import PieceHead
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.testing.polling import wait_until
from tests.support.broker.openwire import jms
from tests.support.broker_kill.stomp import Connection, Refused
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
from tests.support.histories.events import Delivery, Event, Fault, Left, Problem, Write
from tests.support.histories.recorder import Recorder
from tests.support.jms_pair.clients import Batches, Consumer, PairClient, Producer
from tests.support.jms_pair.history import QUEUE, SUBSCRIBERS, TOPIC, History
from tests.support.jms_pair.history import Delivery as Received
from tests.support.quorum.surroundings import OPENWIRE, Machine, Switch

LEASE = 2.0
"""Seconds: of the lease, and of the session of ZooKeeper."""
BACK = 120.0
"""Seconds after a fault in which each kind of client must have done something."""
_DRAIN = 120.0
_STREAM = "quorum"
_CONFIGURATION = """
url = "{url}"

[broker]
scheduler_support = true
become_slave = true

[locker]
{locker}

[journal]
stream = "{stream}"
stream_name = "{name}"
sync = "{sync}"
checkpoint_interval = 2.0
journal_log_file_size = "1 mb"
"""
_LEASE = f"""type = "lease-database-locker"
lock_acquire_sleep_interval = {LEASE}
lock_keep_alive_period = {LEASE / 5}
"""
_ZOOKEEPER = f"""type = "zookeeper-locker"
address = "{{servers}}"
session_timeout = {LEASE}
lock_keep_alive_period = {LEASE / 5}
"""


class _Probe(Connection):
    patience = 2.0


class _Consumer(Consumer):
    """A consumer that does not ask its client which broker it is connected to: all are ours."""

    def _note(self, client: jms.Jms, message: Any) -> None:
        del client
        body, is_again = str(message.getText()), bool(message.getJMSRedelivered())
        self.history.deliver(Received(self.reader, body, is_again, "ours"))


class World:
    """All of it, on an empty database."""

    def __init__(
        self, switch: Switch, machines: list[Machine], url: str, seed: str, *, by_zookeeper: bool, syncs: bool
    ) -> None:
        jms.activemq("ActiveMQConnectionFactory")  # or it is not there; and one thread starts Java
        self.machines = machines
        self.switch = switch
        self.by_zookeeper = by_zookeeper
        self.recorder = Recorder()
        self.ended: list[str] = []
        """Brokers that have ended by themselves, with their last words."""
        self._url = url
        self._progress = Progress()
        self._quiet = threading.Event()
        self._jms = History()
        JdbcStore(url).close()
        self._line = ProxyLine(url, switch.host)
        stream = ",".join(f"nats://{machine.address}:4222" for machine in machines)
        servers = ",".join(f"{machine.address}:2181" for machine in machines)
        sync = "quorum_disk" if syncs else "quorum_mem"
        locker = _ZOOKEEPER.format(servers=servers) if by_zookeeper else _LEASE
        (machines[0].folder.parent / "broker.toml").write_text(
            _CONFIGURATION.format(url=self._line.url, locker=locker, stream=stream, name=_STREAM, sync=sync)
        )
        self._writers = Writers(JournalConfig(stream=stream, stream_name=_STREAM))
        for machine in machines:
            machine.start_broker()
        wait_until(lambda: any(machine.accepts() for machine in machines), 120.0, "a master")
        shared = Surroundings(
            self.recorder, self._progress, self._quiet, tuple(one.endpoint for one in machines), seed
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

    def master(self) -> Machine:
        """Return the machine whose broker serves, or one of them."""
        return next((machine for machine in self.machines if machine.accepts()), self.machines[0])

    def tend(self) -> None:
        """Start each broker again that has ended, as a supervisor does."""
        for machine in self.machines:
            if machine.broker is not None and machine.broker.has_ended():
                self.ended.append(f"{machine.number}: {machine.log.read_text(errors='replace')[-600:]}")
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
        self._writers.look()
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
                with suppress(OSError, Refused), _Probe(61613, address=machine.address) as connection:
                    headers = {"destination": "/queue/PROBE", "persistent": "true", "receipt": "r"}
                    connection.send("SEND", headers, "probe")
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
        self._writers.look()
        for machine in sorted(self.machines, key=lambda one: one.accepts()):  # the master last
            if machine.broker is not None and not machine.broker.has_ended() and not machine.broker.end():
                self.recorder.add(Problem(time.monotonic(), f"{machine.number} did not end when asked to"))
        return self._judge()

    def _judge(self) -> tuple[list[Violation], dict[str, int]]:
        configuration = Configuration(data_source=DataSourceConfig(url=self._url))
        events: list[Event] = [*self.recorder.events]
        with JdbcStore.configured(configuration, read_only=True) as store:
            for name in QUEUES:
                events += [Left(name, str(message.body)) for message in store.queue(name).recover(10_000)]
            subscription = store.topic("NEWS").subscription("first", "first")
            events += [Left(FIRST, str(message.body)) for message in subscription.recover(10_000)]
            dead = {str(message.body) for message in store.queue("ActiveMQ.DLQ").recover(10_000)}
        found = check(events, Rules(alone=ALONE, unordered=(SCHEDULED,)))
        found += [Violation("jms", text) for text in self._jms.check(dead).wrong]
        found += [Violation("order", text) for text in self._unordered()]
        found += [Violation("writers", text) for text in self._writers.wrong]
        counts = {
            "writes": sum(isinstance(event, Write) for event in events) + len(self._jms.sent),
            "deliveries": sum(isinstance(one, Delivery) for one in events) + len(self._jms.deliveries),
            "writers": len(self._writers.every),
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
        self._writers.close()
        self._line.close()


class Writers:
    """Who has written the stream: once another has, none of before may write again."""

    def __init__(self, config: JournalConfig) -> None:
        self._config = config
        self._server: StreamServer | None = None
        self._next = 1
        self.every: list[int] = []
        self.wrong: list[str] = []

    def look(self) -> None:
        """Read what was written since the last look, and is not released."""
        try:
            self._server = server = self._server or StreamServer(self._config, create=False)
            state = server.state()
            for at, message in server.messages(max(self._next, state.first), state.last):
                writer = PieceHead.unpack(message).writer
                if self.every and writer != self.every[-1] and writer in self.every:
                    self.wrong.append(f"message {at} is of a writer that another had followed")
                if writer not in self.every:
                    self.every.append(writer)
                self._next = at + 1
        except StoreError:
            return  # it is read next time

    def close(self) -> None:
        """Close the connection."""
        if self._server is not None:
            self._server.close()


class Faults:
    """What is done, each within some seconds, and mended before it returns."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self.done: Counter[str] = Counter()
        self.kinds: dict[str, Callable[[Machine], None]] = {
            "kill": self._kill,
            "pause": self._pause,
            "nats kill": self._kill_nats,
            "nats pause": self._pause_nats,
            "nats wipe": self._wipe,
            "disk": self._fill,
            "machine": self._kill_machine,
            "cut in": lambda one: self._cut(one, incoming=True, outgoing=False),
            "cut out": lambda one: self._cut(one, incoming=False, outgoing=True),
            "cut": lambda one: self._cut(one, incoming=True, outgoing=True),
        }
        if world.by_zookeeper:
            self.kinds |= {"zookeeper kill": self._kill_zookeeper, "zookeeper pause": self._pause_zookeeper}

    def do(self, kind: str) -> str:
        """Do one, and mend it; return what it was."""
        world, chance = self._world, self._chance
        with suppress(AssertionError):  # a quorum must live
            wait_until(self._all_serve, 60.0)
        one = world.master() if chance.random() < 0.5 else chance.choice(world.machines)
        if kind.startswith("nats") and chance.random() < 0.6:
            one = next((machine for machine in world.machines if machine.leads()), one)
        begin = time.monotonic()
        self.kinds[kind](one)
        what = f"{kind} on {one.number}"
        world.recorder.add(Fault(begin, time.monotonic(), what))
        self.done[kind] += 1
        return what

    def _all_serve(self) -> bool:
        return all(machine.is_healthy() for machine in self._world.machines)

    def _pass(self, *seconds: float) -> None:
        time.sleep(self._chance.choice(seconds) * self._chance.uniform(0.7, 1.3))

    def _kill(self, one: Machine) -> None:
        assert one.broker is not None
        one.broker.kill()
        one.start_broker()

    def _pause(self, one: Machine) -> None:
        assert one.broker is not None
        one.broker.send(signal.SIGSTOP)
        self._pass(LEASE, 2 * LEASE)
        one.broker.send(signal.SIGCONT)

    def _kill_nats(self, one: Machine) -> None:
        one.nats.kill()
        self._pass(0.1, 2.0, 8.0)
        one.nats.start()

    def _pause_nats(self, one: Machine) -> None:
        one.nats.send(signal.SIGSTOP)
        self._pass(1.0, 5.0, 14.0)
        one.nats.send(signal.SIGCONT)

    def _wipe(self, one: Machine) -> None:
        one.nats.kill()
        shutil.rmtree(one.disk.folder / "nats", ignore_errors=True)
        self._pass(0.1, 5.0)
        one.nats.start()

    def _fill(self, one: Machine) -> None:
        one.disk.fill()
        self._pass(1.0, 4.0)
        one.disk.free()
        try:
            wait_until(one.is_healthy, 3.0)
        except AssertionError:  # it goes on after a restart only
            one.nats.kill()
            one.nats.start()

    def _kill_machine(self, one: Machine) -> None:
        assert one.broker is not None
        one.broker.kill()
        one.nats.kill()
        one.zookeeper.kill()
        self._pass(0.1, 3.0)
        one.nats.start()
        one.zookeeper.start()
        one.start_broker()

    def _cut(self, one: Machine, *, incoming: bool, outgoing: bool) -> None:
        self._world.switch.cut(one.number, incoming=incoming, outgoing=outgoing)
        self._pass(LEASE, 3 * LEASE, 12.0)
        self._world.switch.mend(one.number)

    def _kill_zookeeper(self, one: Machine) -> None:
        one.zookeeper.kill()
        self._pass(0.1, 3.0)
        one.zookeeper.start()

    def _pause_zookeeper(self, one: Machine) -> None:
        one.zookeeper.send(signal.SIGSTOP)
        self._pass(LEASE, 3 * LEASE)
        one.zookeeper.send(signal.SIGCONT)
