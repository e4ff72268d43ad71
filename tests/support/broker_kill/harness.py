"""Eight producers, eight consumers, and a broker that is killed again and again."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import jdbcstore
from jdbcstore import Configuration, JdbcStore
from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.testing.polling import wait_until
from tests.support.broker.programs import BrokerProcess
from tests.support.broker_kill.checker import check
from tests.support.broker_kill.clients import Address, Addresses, Client
from tests.support.broker_kill.consumers import Consumer, consumers
from tests.support.broker_kill.history import QUEUES, SUBSCRIPTIONS, TOPIC, History
from tests.support.broker_kill.producers import Batches, Pipeline, Producer, Sender

PATIENCE = 120.0
ROW_LOCK = """
[locker]
type = "database-locker"
lock_acquire_sleep_interval = 0.1
"""


class Harness:
    """One run on one empty database, of a server or a file. What is chosen is chosen by the seed."""

    def __init__(self, url: str, directory: Path, seed: int, *, of_server: bool) -> None:
        self.history = History()
        self.kills = 0
        self._url = url
        self._directory = directory
        (directory / "broker.toml").write_text(ROW_LOCK if of_server else "")
        self._chance = random.Random(seed)
        self._addresses = Addresses()
        self.brokers: list[BrokerProcess] = []
        """All that were started; the last may be running."""
        self._consumers = [*consumers(self.history, self._addresses, seed)]
        self._producers = [*self._make_producers(seed)]

    def _make_producers(self, seed: int) -> list[Producer]:
        def make(kind: type[Producer], number: int, *destinations: str) -> Producer:
            return kind(f"P{number}", self.history, self._addresses, seed, destinations)

        return [
            make(Sender, 0, "ORDERS"),
            make(Pipeline, 1, "ORDERS"),
            make(Sender, 2, "ITEMS"),
            make(Pipeline, 3, "ITEMS"),
            make(Batches, 4, "ORDERS", "ITEMS", "WORK", TOPIC),
            make(Batches, 5, "WORK"),
            make(Sender, 6, TOPIC),
            make(Pipeline, 7, TOPIC),
        ]

    @property
    def clients(self) -> list[Client]:
        return [*self._consumers, *self._producers]

    def start(self) -> None:
        """The first broker; producers begin when every durable subscription is there."""
        self._start_broker()
        for consumer in self._consumers:
            consumer.start()
        wait_until(lambda: all(consumer.subscribed for consumer in self._consumers), PATIENCE, "subscribed")
        for producer in self._producers:
            producer.start()

    def kill(self) -> None:
        """Let them work for a while, kill the broker and start another; now and then kill that early."""
        self._work(self._chance.choice((20, 200, 1_000)) + self._chance.randrange(50))
        _spin(self._chance.uniform(0.0, 0.005))
        self._addresses.set(None)
        self.brokers[-1].kill()
        self.kills += 1
        if self._chance.random() < 0.1:
            self._spawn()
            _spin(self._chance.uniform(0.0, 2.0))
            self.brokers[-1].kill()
        self._start_broker()

    def finish(self) -> list[str]:
        """Let all be consumed, stop; what was wrong."""
        self._stop(self._producers)
        self._wait_drained()
        self._stop(self._consumers)
        self.brokers[-1].end()
        for broker in self.brokers:
            if "Traceback" in (log := broker.log.read_text(errors="replace")):
                self.history.problem(f"a broker logged: {log[-3000:]}")
        return check(self.history, self._present())

    def close(self) -> None:
        for client in self.clients:
            client.stop()
        for broker in self.brokers:
            broker.kill()
        for client in self.clients:
            if client.is_alive():
                client.join(PATIENCE)

    def _start_broker(self) -> None:
        self._spawn()
        self._addresses.set(Address(len(self.brokers), self.brokers[-1].ready()))

    def _spawn(self) -> None:
        options = ("--url", self._url, "--config", str(self._directory / "broker.toml"))
        self.brokers.append(BrokerProcess(self._directory, *options))

    def _work(self, goal: int) -> None:
        """Wait until so much was confirmed."""
        beyond = self.history.number + goal
        if not self.history.wait_beyond(beyond, PATIENCE):
            self.history.problem(f"broker {len(self.brokers)} did not do enough in {PATIENCE:g} s")

    def _wait_drained(self) -> None:
        """Wait until the consumers have left nothing, while nobody sends."""
        configuration = Configuration(data_source=DataSourceConfig(url=self._url))
        with JdbcStore.configured(configuration, read_only=True) as store:
            counts = [store.queue(queue).message_count for queue in QUEUES]
            counts += [store.topic(TOPIC).subscription(name, name).message_count for name in SUBSCRIPTIONS]
            with suppress(AssertionError):  # the checker says what is left
                wait_until(lambda: not any(count() for count in counts), PATIENCE)

    def _stop(self, clients: list[Consumer] | list[Producer]) -> None:
        for client in clients:
            client.stop()
        for client in clients:
            client.join(PATIENCE)
            if client.is_alive():
                self.history.problem(f"{client.name} does not come to its end")

    def _present(self) -> dict[str, list[str]]:
        """What the store still has, by scope."""
        with jdbcstore.open(self._url, cleanup_period=0) as store:
            topic = store.topic(TOPIC)
            sources = {queue: store.queue(queue) for queue in (*QUEUES, "ActiveMQ.DLQ")}
            present = {
                queue: [str(m.body) for m in source.recover(10_000)] for queue, source in sources.items()
            }
            for name in SUBSCRIPTIONS:
                subscription = topic.subscription(name, name)
                present[name] = [str(message.body) for message in subscription.recover(10_000)]
        for body in present.pop("ActiveMQ.DLQ"):
            self.history.problem(f"{body} became a dead letter")
        return present


def _spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
