"""Random sends, acknowledgements, rejections, closings and restarts: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

import jdbcstore
from jdbcstore.broker.api import BrokerTransaction, Delivery
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.turns import TurnLoop
from jdbcstore.config.policy import PolicyEntry, RedeliveryPolicy
from tests.support.broker.consuming import PATIENCE, Recorder, consume, message, quiet

T = TypeVar("T")

AGAIN = RedeliveryPolicy(initial_redelivery_delay=0, redelivery_delay=0, maximum_redeliveries=2)
POLICIES = (
    PolicyEntry(queue="plain", max_page_size=2),
    PolicyEntry(queue="again", max_page_size=2, redelivery_policy=AGAIN, memory_limit=8_000),
    PolicyEntry(queue="by.priority", max_page_size=2, prioritized_messages=True, memory_limit=16_000),
    PolicyEntry(queue="small", max_page_size=2, memory_limit=8_000, pending_queue_policy="vmQueueCursor"),
    PolicyEntry(
        queue="file",
        max_page_size=2,
        memory_limit=8_000,
        pending_queue_policy="fileQueueCursor",
        prioritized_messages=True,
    ),
)
NAMES = ("plain", "again", "by.priority", "small", "file")
PRIORITIZED = ("by.priority", "file")
COLOURS = ("red", "blue")
numbers = st.integers(0, 1000)


class Watcher(Recorder):
    """A consumer that knows what it may get."""

    def __init__(self, machine: EngineMachine, colour: str | None) -> None:
        super().__init__(keeps_messages=False)
        self.machine = machine
        self.colour = colour
        self.held: list[Delivery] = []
        self.last: dict[str, int] = {}
        """By queue: the number of the last stored message that was new."""

    def deliver(self, delivery: Delivery) -> None:
        machine, body = self.machine, str(delivery.message.body)
        assert body in machine.waiting, "it was consumed, or is with another consumer"
        machine.waiting.remove(body)
        assert self.colour in (None, delivery.message.properties["colour"])
        assert delivery.redelivered or body not in machine.seen
        if body not in machine.seen and delivery.message.persistent and delivery.message.priority == 4:
            name, _, number = body.partition(":")
            assert int(number) > self.last.get(name, 0)
            self.last[name] = int(number)
        machine.seen.add(body)
        self.held.append(delivery)
        super().deliver(delivery)


class EngineMachine(RuleBasedStateMachine):
    """What is sent ``waits``, is with one consumer, was consumed, or is dead."""

    url = "memory:"
    concurrent = False
    """Whether messages are given out while they are being written."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        where = self.url.format(Path(self.folder.name))
        self.store = jdbcstore.open(where, cleanup_period=0)
        self.runner = asyncio.Runner(loop_factory=TurnLoop)
        self.waiting: set[str] = set()
        self.seen: set[str] = set()
        self.dead: set[str] = set()
        self.transient: set[str] = set()
        self.sent = 0
        self.consumers: list[Watcher] = []
        self.pending: list[asyncio.Future[None]] = []
        self.engine = self.run(self.start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        result = self.runner.run(asyncio.wait_for(work, PATIENCE))
        for watcher in self.consumers:
            if watcher.error is not None:
                raise watcher.error
        return result

    async def start(self) -> Engine:
        options = EngineOptions(concurrent_store_and_dispatch_queues=self.concurrent)
        engine = Engine(self.store, Policies(POLICIES), options=options)
        await engine.start()
        return engine

    def pick(self, number: int) -> Watcher:
        return self.consumers[number % len(self.consumers)]

    def new(self, name: str, colour: str, priority: int, *, persistent: bool) -> jdbcstore.Message:
        self.sent += 1
        body = f"{name}:{self.sent}"
        self.waiting.add(body)
        if not persistent:
            self.transient.add(body)
        headers: dict[str, Any] = {"priority": priority, "persistent": persistent}
        return message(body, name, properties={"colour": colour}, **headers)

    @rule(
        name=st.sampled_from(NAMES),
        colour=st.sampled_from(COLOURS),
        count=st.integers(1, 12),
        persistent=st.booleans(),
        priority=st.sampled_from([4, 4, 9]),
        wait=st.booleans(),
    )
    def send(self, name: str, colour: str, count: int, persistent: bool, priority: int, wait: bool) -> None:
        async def send() -> None:
            for _ in range(count):
                sent = self.new(name, colour, priority, persistent=persistent)
                self.pending.append(self.engine.send(sent, "test"))
            if wait and name != "small":  # which may be full
                await asyncio.gather(*self.pending[-count:])

        self.run(send())

    @rule(
        name=st.sampled_from((*NAMES, ">")),
        prefetch=st.sampled_from([1, 3, 100]),
        colour=st.sampled_from([None, None, *COLOURS]),
        priority=st.sampled_from([0, 0, 1]),
    )
    def subscribe(self, name: str, prefetch: int, colour: str | None, priority: int) -> None:
        async def subscribe() -> None:
            watcher = Watcher(self, colour)
            await consume(
                self.engine,
                # Dead letters are not for these consumers.
                ",".join(NAMES) if name == ">" else name,
                prefetch=prefetch,
                priority=priority,
                selector=None if colour is None else f"colour = '{colour}'",
                recorder=watcher,
            )
            self.consumers.append(watcher)

        self.run(subscribe())

    def take(self, watcher: Watcher, count: int) -> list[Delivery]:
        taken, watcher.held = watcher.held[:count], watcher.held[count:]
        return taken

    @precondition(lambda self: self.consumers)
    @rule(number=numbers, count=st.integers(1, 20), wait=st.booleans())
    def acknowledge(self, number: int, count: int, wait: bool) -> None:
        async def acknowledge() -> None:
            watcher = self.pick(number)
            done = watcher.subscription.acknowledge(self.take(watcher, count))
            self.pending.append(done)
            if wait:
                await done

        self.run(acknowledge())

    @precondition(lambda self: self.consumers)
    @rule(number=numbers, count=st.integers(1, 3))
    def reject(self, number: int, count: int) -> None:
        async def reject() -> None:
            watcher = self.pick(number)
            taken = self.take(watcher, count)
            for delivery in taken:
                body = watcher.said[delivery]
                if body.startswith("again") and delivery.message.redelivery_counter < 2:
                    self.waiting.add(body)
                elif body not in self.transient:
                    self.dead.add(body)
            self.pending.append(watcher.subscription.reject(taken))

        self.run(reject())

    @precondition(lambda self: self.consumers)
    @rule(number=numbers, count=st.integers(0, 9), sends=st.integers(0, 3), commits=st.booleans())
    def transact(self, number: int, count: int, sends: int, commits: bool) -> None:
        async def transact() -> None:
            watcher = self.pick(number)
            transaction: BrokerTransaction = self.engine.begin("test")
            taken = watcher.held[:count]
            transaction.acknowledge(watcher.subscription, taken)
            await quiet()
            sent = [self.new(name, "red", 4, persistent=True) for name in NAMES[:sends]]
            for each in sent:
                self.pending.append(transaction.send(each))
            if commits:
                del watcher.held[: len(taken)]
                self.pending.append(transaction.commit())
            else:
                self.waiting.difference_update(str(each.body) for each in sent)
                transaction.rollback()

        self.run(transact())

    @precondition(lambda self: self.consumers)
    @rule(number=numbers, pause=st.booleans())
    def pause(self, number: int, pause: bool) -> None:
        async def change() -> None:
            subscription = self.pick(number).subscription
            (subscription.pause if pause else subscription.resume)()

        self.run(change())

    @precondition(lambda self: self.consumers)
    @rule(number=numbers)
    def close(self, number: int) -> None:
        async def close() -> None:
            self.give_up(self.pick(number))

        self.run(close())

    def give_up(self, watcher: Watcher) -> None:
        self.consumers.remove(watcher)
        self.waiting.update(watcher.said[delivery] for delivery in watcher.held)
        watcher.subscription.close()

    @rule()
    def settle(self) -> None:
        self.run(quiet())

    async def stop(self) -> None:
        for watcher in [*self.consumers]:
            self.give_up(watcher)
        await self.engine.stop()
        # Producers that still wait for room hear nothing more.
        for sent in self.pending:
            if not sent.done():
                sent.cancel()
        await asyncio.gather(*self.pending, return_exceptions=True)
        self.pending.clear()

    @rule()
    def restart(self) -> None:
        async def restart() -> None:
            await self.stop()
            queues = [self.store.queue(name, prioritized=name in PRIORITIZED) for name in NAMES]
            stored = {str(each.body) for queue in queues for each in queue.recover(10_000)}
            assert stored <= self.waiting
            self.waiting = stored
            self.seen &= stored
            self.engine = await self.start()

        self.run(restart())

    def teardown(self) -> None:
        try:
            self.run(self.end())
        finally:
            self.runner.close()
            self.store.close()
            self.folder.cleanup()

    async def end(self) -> None:
        for watcher in [*self.consumers]:
            self.give_up(watcher)
        last, graves = Watcher(self, None), Recorder()
        expected = len(self.waiting)
        await consume(self.engine, ",".join(NAMES), recorder=last)
        await last.drain(expected)
        await asyncio.gather(*self.pending)
        await consume(self.engine, "ActiveMQ.DLQ", recorder=graves)
        await graves.drain(len(self.dead))
        await quiet()
        assert not self.waiting
        assert set(graves.bodies) == self.dead
        assert len(graves.bodies) == len(self.dead)
        await self.engine.stop()
        assert self.store.destinations() == []


class SqliteMachine(EngineMachine):
    url = "sqlite:///{}/mq.db"


class ConcurrentMachine(SqliteMachine):
    concurrent = True


@pytest.mark.parametrize(
    ("machine", "examples"), [(EngineMachine, 40), (SqliteMachine, 12), (ConcurrentMachine, 12)]
)
def test_the_engine_keeps_count(machine: type[EngineMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
        ),
    )
