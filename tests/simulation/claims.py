"""A world of claims: processes that share queues without a master, each with a lease."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from jdbcstore import Message
from jdbcstore.errors import ClaimLost, OutcomeUnknown, StoreError
from jdbcstore.message import openwire
from jdbcstore.stores.claims import Claim, Claims
from tests.simulation.masters import CONFIG
from tests.simulation.scheduler import Killed, Process, current
from tests.simulation.world import Member, World
from tests.support.histories.checker import Rules
from tests.support.histories.events import Delivery, Left, Outcome, Return

QUEUES, DEAD = ("Q", "R"), "DLQ"
LEASE = 0.9
MOST = 3
PATIENCE = 60.0
"""Seconds after which everything can be claimed."""
THERE = "SELECT 1 FROM ACTIVEMQ_MSGS WHERE CONTAINER IN ('queue://Q', 'queue://R') LIMIT 1"


class Worker(Member):
    """A process that adds, claims and settles."""

    def __init__(self, world: Shared, number: int) -> None:
        super().__init__(world, number)
        self.held: dict[str, dict[str, Claim]] = {}

    def _live(self, process: Process) -> None:
        scheduler = current()
        while True:
            self.held = {queue: {} for queue in QUEUES}
            try:
                self.store = self._open(process)
            except StoreError:
                scheduler.sleep(0.1)
                continue
            self.world.trace("lease", process.name, session=self.store.database.lease.number)
            for _ in range(self.workers):
                self.wake()
            return

    def _open(self, process: Process) -> Claims:
        """Open the store that this process's clients will use."""
        return Claims(
            self.world.server.url,
            CONFIG,
            name=process.name,
            lease=LEASE,
            max_redeliveries=MOST,
            dead_letters=DEAD,
            clock=self.clock,
        )

    def do_add(self, client: str, chance: random.Random) -> None:
        queue = chance.choice(QUEUES)
        names = [self.world.new_name(client) for _ in range(chance.choice((1, 1, 1, 3)))]
        delay = chance.choice((0.0, 0.0, 0.0, 0.2, 1.0))
        begun = current().now
        add = self.store.queue(queue).add
        self.write(
            client,
            lambda: add(*(self.message(name) for name in names), delay=delay),
            sends=[(queue, name) for name in names],
            due=begun + delay,
        )

    def message(self, name: str) -> Message:
        """Return a message of this name."""
        return Message(name)

    def do_claim(self, client: str, chance: random.Random) -> None:
        self.claim(client, chance.choice(QUEUES), chance.choice((1, 2, 4)), chance.choice((0.0, 0.0, 0.3)))

    def claim(self, client: str, queue: str, limit: int, wait: float = 0.0) -> int:
        """Claim messages; how many."""
        world, held = self.world, self.held[queue]
        assert isinstance(world, Shared)
        try:
            claims = self.store.queue(queue).claim(limit, wait=wait)
        except StoreError:
            raise
        except Killed:
            raise
        except BaseException as error:
            world.problem(f"{client} cannot claim: {error!r}")
            raise
        for claim in claims:
            name = str(claim.message.body)
            again = claim.redeliveries > 0 or (queue, name) in world.released
            world.note(Delivery(current().now, client, queue, name, again, failures=claim.redeliveries))
            world.trace("claim", client, message=name, redeliveries=claim.redeliveries, session=claim.session)
            held[name] = claim
        return len(claims)

    def do_acknowledge(self, client: str, chance: random.Random) -> None:
        self.acknowledge(
            client, chance.choice(QUEUES), chance.choice((1, 1, 2, 3)), newest=chance.random() < 0.3
        )

    def acknowledge(self, client: str, queue: str, count: int, *, newest: bool = False) -> None:
        """Acknowledge the first claims that are held, or the last ones first."""
        names, claims = self._some(queue, count, newest=newest)
        if claims:
            acknowledge = self.store.queue(queue).acknowledge
            acks = tuple((queue, name) for name in names)
            with self._kept(queue, names, claims):
                self.write(client, lambda: acknowledge(*claims), acks=acks)

    @contextmanager
    def _kept(self, queue: str, names: list[str], claims: list[Claim]) -> Iterator[None]:
        """Keep the claims after a failure, but for those that are lost."""
        held = self.held[queue]
        try:
            yield
        except StoreError as error:
            lost = error.sequences if isinstance(error, ClaimLost) else ()
            held.update(
                (name, claim) for name, claim in zip(names, claims, strict=True) if claim.sequence not in lost
            )
            raise

    def _some(self, queue: str, count: int, *, newest: bool = False) -> tuple[list[str], list[Claim]]:
        held = self.held[queue]
        names = [*(reversed(held) if newest else held)][:count]
        return names, [held.pop(name) for name in names]

    def do_reject(self, client: str, chance: random.Random) -> None:
        queue = chance.choice(QUEUES)
        names, claims = self._some(queue, 1)
        delay = chance.choice((0.0, 0.0, 0.3))
        if claims:
            with self._kept(queue, names, claims):
                self._give_back(client, queue, names[0], self.store.queue(queue).reject, claims[0], delay)

    def do_release(self, client: str, chance: random.Random) -> None:  # noqa: ARG002
        queue = chance.choice(QUEUES)
        names, claims = self._some(queue, 1)
        if claims:
            assert isinstance(self.world, Shared)
            self.world.released.add((queue, names[0]))  # which is no redelivery
            with self._kept(queue, names, claims):
                self.store.queue(queue).release(*claims)

    def _give_back(self, client: str, queue: str, name: str, reject: Any, claim: Any, delay: float) -> None:
        outcome = Outcome.UNKNOWN
        try:
            reject(claim, delay=delay)
            outcome = Outcome.OK
        except OutcomeUnknown:
            raise
        except StoreError:
            outcome = Outcome.FAILED
            raise
        finally:
            self.world.note(Return(current().now, client, queue, name, outcome))
            self.world.trace("reject", client, message=name, outcome=outcome.value)

    def do_extend(self, client: str, chance: random.Random) -> None:  # noqa: ARG002
        queue = self.store.queue(chance.choice(QUEUES))
        queue.extend(*[*self.held[queue.destination.name].values()][:2])

    def do_rest(self, client: str, chance: random.Random) -> None:  # noqa: ARG002
        current().sleep(chance.choice((0.1, 0.5, 1.2)))


class Shared(World):
    """Three processes that claim messages of two queues."""

    operations: ClassVar = {
        "add": 8,
        "claim": 10,
        "acknowledge": 7,
        "reject": 2,
        "release": 1,
        "extend": 1,
        "rest": 1,
    }
    faults: ClassVar = {**World.faults, "pause": 4}
    members_count = 3
    worker_class: type[Worker] = Worker
    claimed = True
    rules = Rules(unordered=frozenset(QUEUES), exclusive=frozenset(QUEUES), is_drained=True)

    def prepare(self) -> None:
        self.released: set[tuple[str, str]] = set()
        self.members = [self.worker_class(self, number) for number in range(self.members_count)]
        for worker in self.members:
            worker.start()
        self.scheduler.wait_until(self.is_idle, 60)

    def drain(self) -> None:
        """Let one process claim and acknowledge everything, once the leases of others have expired."""
        scheduler = self.scheduler
        drainer, *others = self.members
        for other in others:
            other.kill()
        for queue, held in drainer.held.items():
            while held:
                try:
                    drainer.acknowledge(f"{drainer.name}d", queue, 2)
                except StoreError:
                    continue
        end = scheduler.now + PATIENCE
        while (self.server.rows(THERE) or self.server.has_late()) and scheduler.now < end:
            for queue in QUEUES:
                with suppress(StoreError):
                    while drainer.claim(f"{drainer.name}d", queue, 5) or drainer.held[queue]:
                        drainer.acknowledge(f"{drainer.name}d", queue, 5)
            scheduler.sleep(0.7)

    def end(self) -> None:
        super().end()
        for id_, container, blob in self.server.rows(
            "SELECT ID, CONTAINER, MSG FROM ACTIVEMQ_MSGS ORDER BY ID"
        ):
            name = self.name_of(openwire.decode(bytes(blob), sequence=id_, container=container))
            place = container.removeprefix("queue://")
            if place == DEAD:
                origin = next((queue for queue in QUEUES if (queue, name) in self._sent()), "?")
                self.note(Left(DEAD, name, dead_for=origin))
            else:
                self.note(Left(place, name))

    def name_of(self, message: Message) -> str:
        """Return the name of a stored message."""
        return str(message.body)

    def _sent(self) -> set[tuple[str, str]]:
        return {key for event in self.history for key in getattr(event, "sends", ())}
