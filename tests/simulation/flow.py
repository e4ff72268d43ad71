"""A world of limited queues: processes that share them obey pauses, limits and rates that change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

from jdbcstore import Message
from jdbcstore.errors import StoreError
from jdbcstore.message import openwire
from jdbcstore.stores.claims import QueueFlow
from tests.simulation.claims import QUEUES, Shared, Worker
from tests.simulation.database import ServerSession, application_transaction
from tests.simulation.effects import Effects
from tests.simulation.scheduler import EPOCH_MS, current
from tests.support.histories.events import Held

_CLAIMED = """
SELECT c.ID, c.SESSION, c.TAKEN, m.CONTAINER, m.MSG, s.EXPIRES
FROM JDBCSTORE_CLAIMS c JOIN ACTIVEMQ_MSGS m ON m.ID = c.ID
LEFT JOIN JDBCSTORE_CLAIM_SESSIONS s ON s.ID = c.SESSION WHERE c.SESSION IS NOT NULL ORDER BY c.ID
"""
_THERE = "SELECT ID, CONTAINER, MSG FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://{}' ORDER BY ID"
_KEYS = ("k", "l", "m", None)
_SETTINGS = (
    "SELECT MOST, RATE, BURST, PAUSED, KEYING, KEY_MOST FROM JDBCSTORE_FLOW WHERE CONTAINER = 'queue://{}'"
)
_MILLION = 1_000_000


class LimitedWorker(Worker):
    """A process that also changes what is set."""

    def message(self, name: str) -> Message:
        number = int(name.rpartition(".")[2])
        return Message(name, group_id=_KEYS[number % len(_KEYS)])

    def do_weigh(self, client: str, chance: random.Random) -> None:
        key, weight = chance.choice(_KEYS) or "", chance.choice((1, 2, 5))
        self._set(client, chance, lambda flow: flow.set_key(key, weight=weight))

    def do_limit(self, client: str, chance: random.Random) -> None:
        claims, rate = chance.choice(((1, None), (2, 20.0), (3, None), (2, 3.0), (None, 5.0)))
        self._set(client, chance, lambda flow: flow.limit(claims=claims, rate=rate))

    def do_pause(self, client: str, chance: random.Random) -> None:
        self._set(client, chance, QueueFlow.pause)
        current().sleep(chance.choice((0.05, 0.5)))
        self._set(client, chance, QueueFlow.resume)

    def do_join(self, client: str, chance: random.Random) -> None:
        """Acknowledge and send in a transaction of the application's, which may be rolled back."""
        queue, target = chance.choice(QUEUES), chance.choice(QUEUES)
        names, claims = self._some(queue, chance.choice((1, 1, 2)))
        if not claims:
            return
        name, returns, acknowledges_first = (
            self.world.new_name(client),
            chance.random(),
            chance.random() < 0.5,
        )
        begun = current().now

        def run() -> None:
            with application_transaction() as connection:
                joined = self.store.join(connection)
                if not acknowledges_first:
                    joined.add(target, self.message(name))
                    current().sleep(returns * 0.2)
                joined.acknowledge(queue, *claims)
                if acknowledges_first:
                    current().sleep(returns * 0.2)
                    joined.add(target, self.message(name))
                if returns < 0.2:
                    raise StoreError("the application has changed its mind")

        with self._kept(queue, names, claims):
            acks = tuple((queue, one) for one in names)
            self.write(client, run, sends=[(target, name)], acks=acks, due=begun)

    def _set(self, client: str, chance: random.Random, change: object) -> None:
        assert callable(change)
        queue = chance.choice(QUEUES)
        self.write(client, lambda: change(self.store.queue(queue).flow))


class Limited(Shared):
    """Three processes whose queues have limits from the beginning."""

    operations: ClassVar = {**Shared.operations, "claim": 16, "join": 8, "limit": 2, "pause": 1, "weigh": 1}
    worker_class = LimitedWorker

    def prepare(self) -> None:
        chance = random.Random(self.seed)
        self._known: dict[int, tuple[int, int]] = {}
        begin = ((2, None, None), (None, 4 * _MILLION, 3), (1, _MILLION, 1))
        keyed = ((0, None), (1, 1), (2, None), (1, 2))
        rows = [
            (f"queue://{queue}", 0, *chance.choice(begin), 0, *chance.choice(keyed), None, None, None, 0)
            for queue in QUEUES
        ]
        self._messages: dict[int, tuple[str, str]] = {}
        self.server.fill("INSERT INTO JDBCSTORE_FLOW VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self.server.fill("INSERT INTO JDBCSTORE_STATE (NAME, NUMBER) VALUES (?, ?)", [("flow", 1)])
        self.server.on_claims = self._note_claims
        if self.traced is not None:
            self.effects = Effects(self.server, self._decoded)
            self.server.on_commit = lambda _: self.effects.look()
        super().prepare()

    def drain(self) -> None:
        self.server.fill("UPDATE JDBCSTORE_FLOW SET PAUSED = ?, MOST = NULL, RATE = NULL", [(0,)])
        super().drain()

    def _note_claims(self, session: ServerSession) -> None:
        server = self.server
        known, self._known = self._known, {}
        new: dict[str, list[str]] = {}
        held: dict[str, list[int]] = {queue: [] for queue in QUEUES}
        for id_, holder, taken, container, blob, expires in server.rows(_CLAIMED):
            queue = container.removeprefix("queue://")
            if queue not in held:
                continue
            self._known[id_] = holder, taken
            if (expires or 0) >= server.now_ms():
                held[queue].append(id_)
            if known.get(id_) != (holder, taken):
                new.setdefault(queue, []).append(self._decoded(id_, container, blob)[1])
        client = "?" if session.process is None else session.process.name
        at = (session.asked_ms - EPOCH_MS) / 1000
        for queue, names in new.items():
            [(most, rate, burst, paused, keying, of_key)] = server.rows(_SETTINGS.format(queue))
            settings = most, None if rate is None else rate / _MILLION, burst or 0, bool(paused), keying == 2
            keys = tuple(self._places(queue, held[queue])) if keying else ()
            self.note(Held(at, client, queue, tuple(names), len(held[queue]), *settings, of_key, keys))
            self.trace("held", client, queue=queue, names=names, held=len(held[queue]), most=most, rate=rate)

    def _decoded(self, id_: int, container: str, blob: Any) -> tuple[str, str]:
        """Return the key and the name of a message."""
        if id_ not in self._messages:
            message = openwire.decode(bytes(blob), sequence=id_, container=container)
            self._messages[id_] = message.group_id or "", str(message.body)
        return self._messages[id_]

    def _places(self, queue: str, held: list[int]) -> Iterator[tuple[str, str, int]]:
        """Yield the key, the name and the place in its key of each message that is claimed."""
        counts = Counter[str]()
        for id_, container, blob in self.server.rows(_THERE.format(queue)):
            key, name = self._decoded(id_, container, blob)
            if id_ in held:
                yield key, name, counts[key]
            counts[key] += 1
