"""A consumer that writes down what it gets, and an engine to get it from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from jdbcstore import Clock, Destination, Message, Store
from jdbcstore.broker.api import Delivery, Subscription, SubscriptionRequest
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.policies import Policies
from jdbcstore.config.policy import PolicyEntry

PATIENCE = 180.0
"""Seconds that something may take which is bound to come."""


class Recorder:
    """A :class:`jdbcstore.broker.api.Consumer`."""

    def __init__(self, *, keeps_messages: bool = True) -> None:
        self.keeps_messages = keeps_messages
        self.deliveries: list[Delivery] = []
        self.given: list[Any] = []
        """The bodies, as they came."""
        self.said: dict[Delivery, str] = {}
        self.subscription: Subscription
        self.error: Exception | None = None
        self.has_browsed = False
        self._changed = asyncio.Event()
        self._drained = 0

    def deliver(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self.given.append(delivery.message.body)
        self.said[delivery] = str(delivery.message.body)
        self._changed.set()

    def browsed(self) -> None:
        self.has_browsed = True
        self._changed.set()

    def end(self, error: Exception) -> None:
        self.error = error
        self._changed.set()

    @property
    def bodies(self) -> list[Any]:
        return [delivery.message.body for delivery in self.deliveries]

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until this holds, looking whenever something has come."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                if self.error is not None:
                    raise self.error
                self._changed.clear()
                await self._changed.wait()

    async def got(self, count: int) -> list[Delivery]:
        """Wait for so many deliveries altogether, and return them."""
        await self.wait(lambda: len(self.deliveries) >= count)
        return self.deliveries[:count]

    async def acknowledge(self, *deliveries: Delivery) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.subscription.acknowledge(deliveries)

    async def drain(self, total: int) -> None:
        """Acknowledge what comes, until so many have come altogether."""
        while True:
            count = len(self.deliveries)
            await self.acknowledge(*self.deliveries[self._drained : count])
            self._drained = count
            if count >= total:
                return
            await self.got(count + 1)


@asynccontextmanager
async def running(
    store: Store, *policies: PolicyEntry, clock: Clock | None = None, **options: Any
) -> AsyncIterator[Engine]:
    """An engine on this store."""
    engine = Engine(store, Policies(policies), clock=clock, options=EngineOptions(**options))
    async with asyncio.timeout(PATIENCE):
        await engine.start()
    try:
        yield engine
    finally:
        async with asyncio.timeout(PATIENCE):
            await engine.stop()


async def consume(engine: Engine, name: str, *, recorder: Recorder | None = None, **options: Any) -> Recorder:
    """Begin to consume a destination."""
    recorder = recorder or Recorder()
    request = SubscriptionRequest(destination=Destination.parse(name), **{"connection_id": "test", **options})
    async with asyncio.timeout(PATIENCE):
        recorder.subscription = await engine.subscribe(request, recorder)
    return recorder


def message(body: Any, name: str = "Q", **headers: Any) -> Message:
    return Message(body, destination=Destination.parse(name), **headers)


async def send(engine: Engine, *messages: Message) -> None:
    """Send all at once, and wait until all are durable: not a turn of the loop if they are at once.

    So does gather() since Python 3.12; before, it always took a turn, in which consumers get messages.
    """
    sent = [engine.send(each, "test") for each in messages]
    if not all(each.done() for each in sent):
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*sent)
    for each in sent:
        each.result()


async def quiet() -> None:
    """Let everything run that is ready to."""
    for _ in range(20):
        await asyncio.sleep(0)
