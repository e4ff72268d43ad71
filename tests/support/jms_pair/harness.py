"""An ActiveMQ and ours, or two of a kind, on one database; the master is killed or stopped."""

from __future__ import annotations

import random
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import jdbcstore
from jdbcstore import Configuration, JdbcStore
from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.message.openwire import decode
from jdbcstore.testing.polling import wait_until
from tests.support.broker.openwire import jms
from tests.support.broker.programs import BrokerProcess
from tests.support.databases import Database
from tests.support.interop.activemq import Peer
from tests.support.jms_pair.clients import Batches, Consumer, PairClient, Producer
from tests.support.jms_pair.history import QUEUE, SUBSCRIBERS, TOPIC, Findings, History
from tests.support.ports import free_port

PATIENCE = 300.0
_DRAINED = 90.0
_IDLE = 10.0
"""Seconds without any delivery after which an ActiveMQ's consumers are replaced. Its client waits at most one
between two redeliveries."""
ACQUIRE_MS = 100
_ROW_LOCK = f"""
[locker]
type = "database-locker"
lock_acquire_sleep_interval = {ACQUIRE_MS / 1000}
"""


class Member(Protocol):
    """One broker of the pair, which serves or waits for the lock."""

    def serving(self) -> None:
        """Wait until it serves."""

    def kill(self) -> None: ...

    def stop(self) -> None:
        """End it in order, as the master that it is."""

    def pause(self) -> None:
        """Keep it from changing any row until it is resumed, while it waits for the lock."""

    def resume(self) -> None: ...


class Java:
    """An ActiveMQ 5.17.2 in a process of its own."""

    def __init__(self, database: Database, port: int) -> None:
        self._peer = Peer(patience=PATIENCE)
        login = (database.jdbc_url, database.username or "", database.password or "")
        self._peer_is_up: Future[object] = _threads.submit(
            self._peer.broker, *login, openwire_port=port, acquire_ms=ACQUIRE_MS
        )

    def serving(self) -> None:
        self._peer_is_up.result(PATIENCE)

    def kill(self) -> None:
        self._peer.kill()

    def stop(self) -> None:
        self._peer.close()

    def pause(self) -> None:
        """Not this one: while it starts it may hold the tables, and removes nothing from them."""

    def resume(self) -> None: ...


class Ours:
    """A ``jdbcstore broker``."""

    def __init__(self, database: Database, port: int, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "broker.toml").write_text(_ROW_LOCK)
        options = ("--url", database.url, "--config", str(folder / "broker.toml"))
        self._process = BrokerProcess(folder, *options, "--openwire", f"127.0.0.1:{port}")
        self.log = self._process.log

    def serving(self) -> None:
        self._process.ready()

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        assert self._process.end() == 0, self.log.read_text()[-3000:]

    def pause(self) -> None:
        self._process.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.process.send_signal(signal.SIGCONT)


_threads = ThreadPoolExecutor(thread_name_prefix="java")


class PairHarness:
    """One run on one empty database. What is chosen is chosen by the seed."""

    def __init__(
        self, database: Database, folder: Path, seed: int, brokers: tuple[str, str] = ("java", "ours")
    ) -> None:
        jms.activemq("ActiveMQConnectionFactory")  # or it is not there
        self.history = History()
        self.ends: list[tuple[str, str]] = []
        """Who was ended, and how."""
        self._database = database
        self._folder = folder
        self._chance = random.Random(seed)
        self._ports = {free_port(): kind for kind in brokers}
        self._logs: list[Path] = []
        self._members: dict[int, Member] = {}
        """By port."""
        self._master, self._waiting = self._ports
        jdbcstore.open(database.url, cleanup_period=0.0).close()
        addresses = ",".join(f"tcp://127.0.0.1:{port}" for port in self._ports)
        url = f"failover:({addresses})"
        if "java" not in brokers:  # a client that redelivers without end may stop for good at an ActiveMQ
            url += "?jms.redeliveryPolicy.maximumRedeliveries=-1"
        common = self._common = (self.history, url, self._ports)
        self._consumers = self._new_consumers()
        self._producers: list[PairClient] = [
            Producer("plain", QUEUE, *common),
            Producer("topic", TOPIC, *common),
            Batches("batch", *common),
        ]

    def _new_consumers(self) -> list[PairClient]:
        return [
            Consumer("Q-transacted", QUEUE, True, *self._common),
            Consumer("Q-acknowledging", QUEUE, False, *self._common),
            *(Consumer(f"T-{name}", name, name == "transacted", *self._common) for name in SUBSCRIBERS),
        ]

    def start(self) -> None:
        self._start(self._master)
        self._members[self._master].serving()
        self.history.master = f"{self._ports[self._master]} 0"
        self._start(self._waiting)
        self._start_consumers()
        for client in self._producers:
            client.start()

    def _start_consumers(self) -> None:
        for client in self._consumers:
            client.start()
        wait_until(lambda: all(client.ready.is_set() for client in self._consumers), PATIENCE, "subscribed")

    def end_master(self) -> None:
        """Let all work for a while, and kill or stop the master; the other takes over."""
        beyond = self.history.number + self._chance.choice((5, 30, 100))
        kind = self._ports[self._master]
        if not self.history.wait_beyond(beyond, PATIENCE):
            self.history.problem(f"{kind} did not do enough in {PATIENCE:g} s after {self.ends[-1:]}")
        master = self._members[self._master]
        is_kill = self._chance.random() < 0.6
        waiting = self._members[self._waiting]
        waiting.pause()  # or it removes what is acknowledged before it is noted
        try:
            (master.kill if is_kill else master.stop)()
            self.ends.append((kind, "killed" if is_kill else "stopped"))
            self._note_rows(kind)
        finally:
            waiting.resume()
        self._master, self._waiting = self._waiting, self._master
        self.history.master = f"{self._ports[self._master]} {len(self.ends)}"
        self._members[self._master].serving()
        self._start(self._waiting)

    def finish(self) -> Findings:
        """Let all be consumed, and stop."""
        self._stop(self._producers)
        if self._ports[self._master] == "java":
            self._release()
        with suppress(AssertionError):  # the history says what is missing
            wait_until(lambda: not self._awaited(), _DRAINED, "all consumed")
        self._stop(self._consumers)
        self._note_rows(self._ports[self._master])
        dead = self._dead()
        self.close()
        for log in self._logs:
            if "Traceback" in (text := log.read_text(errors="replace")):
                self.history.problem(f"a broker logged: {text[text.index('Traceback') - 500 :][:3000]}")
        return self.history.check(dead)

    def _awaited(self) -> int:
        """How many messages are missing that are still to be delivered."""
        missing = self.history.missing(self._dead())
        acknowledged = {(name, body) for name, body, _ in self._acknowledged()}
        stored = self._stored(f"topic://{TOPIC}")
        awaited = [(name, body) for name in SUBSCRIBERS for body in missing[name] & stored]
        return len({*awaited} - acknowledged) + len(missing[QUEUE] & self._stored(f"queue://{QUEUE}"))

    def _release(self) -> None:
        """Replace an ActiveMQ's consumers if they have got nothing for a while, and not all."""
        number, since = -1, 0.0

        def is_idle() -> bool:
            nonlocal number, since
            if len(self.history.deliveries) != number:
                number, since = len(self.history.deliveries), time.monotonic()
            return not self._awaited() or time.monotonic() - since > _IDLE

        wait_until(is_idle, PATIENCE, "consumed, or idle")
        held = self._awaited()
        if not held:
            return
        self.history.held = held
        self._stop(self._consumers)
        self._consumers = self._new_consumers()
        self._start_consumers()

    def close(self) -> None:
        for client in (*self._producers, *self._consumers):
            client.stop()
        members, self._members = self._members, {}
        for member in members.values():
            member.kill()

    def _note_rows(self, kind: str) -> None:
        """Note what an ended broker has left of the messages."""
        stored = self._stored(f"queue://{QUEUE}") | self._stored("queue://ActiveMQ.DLQ")
        self.history.lose(kind, self.history.confirmed(QUEUE) - stored)
        self.history.skip(kind, self._acknowledged())

    def _acknowledged(self) -> list[tuple[str, str, str]]:
        """The topic's acknowledged messages in the tables: subscriber, body, and both numbers."""
        topic = f"topic://{TOPIC}"
        last: dict[str, int] = {}
        for name, number in self._database.rows(
            "SELECT SUB_NAME, LAST_ACKED_ID FROM ACTIVEMQ_ACKS WHERE CONTAINER = :topic", topic=topic
        ):
            last[name] = max(int(number or 0), last.get(name, 0))
        rows = self._database.rows("SELECT ID, MSG FROM ACTIVEMQ_MSGS WHERE CONTAINER = :topic", topic=topic)
        bodies = {int(number): str(decode(blob).body) for number, blob in rows}
        return [
            (name, body, f"{number} <= {last[name]}")
            for name in SUBSCRIBERS
            for number, body in bodies.items()
            if number <= last[name]
        ]

    def _stored(self, container: str) -> set[str]:
        """The bodies of what is in the tables."""
        rows = self._database.rows("SELECT MSG FROM ACTIVEMQ_MSGS WHERE CONTAINER = :name", name=container)
        return {str(decode(blob).body) for (blob,) in rows}

    def _start(self, port: int) -> None:
        if self._ports[port] == "java":
            self._members[port] = Java(self._database, port)
            return
        ours = self._members[port] = Ours(self._database, port, self._folder / str(port))
        self._logs.append(ours.log)

    def _stop(self, clients: list[PairClient]) -> None:
        for client in clients:
            client.stop()
        for client in clients:
            client.join(PATIENCE)
            if client.is_alive():
                self.history.problem(f"{client.name} does not come to its end")

    def _dead(self) -> set[str]:
        """Bodies of dead letters: the client puts a message there whose acknowledgement was lost."""
        configuration = Configuration(data_source=DataSourceConfig(url=self._database.url))
        with JdbcStore.configured(configuration, read_only=True) as store:
            return {str(message.body) for message in store.queue("ActiveMQ.DLQ").recover(100_000)}
