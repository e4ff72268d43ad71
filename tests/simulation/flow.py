"""A world of limited queues: processes that share them obey pauses, limits and rates that change."""

from __future__ import annotations

import random
from typing import ClassVar

from jdbcstore.message import openwire
from jdbcstore.stores.claims import QueueFlow
from tests.simulation.claims import QUEUES, Shared, Worker
from tests.simulation.database import ServerSession
from tests.simulation.scheduler import EPOCH_MS, current
from tests.support.histories.events import Held

_CLAIMED = """
SELECT c.ID, c.SESSION, c.TAKEN, m.CONTAINER, m.MSG, s.EXPIRES
FROM JDBCSTORE_CLAIMS c JOIN ACTIVEMQ_MSGS m ON m.ID = c.ID
LEFT JOIN JDBCSTORE_CLAIM_SESSIONS s ON s.ID = c.SESSION WHERE c.SESSION IS NOT NULL ORDER BY c.ID
"""
_SETTINGS = "SELECT MOST, RATE, BURST, PAUSED FROM JDBCSTORE_FLOW WHERE CONTAINER = 'queue://{}'"
_MILLION = 1_000_000


class LimitedWorker(Worker):
    """A process that also changes what is set."""

    def do_limit(self, client: str, chance: random.Random) -> None:
        claims, rate = chance.choice(((1, None), (2, 20.0), (3, None), (2, 3.0), (None, 5.0)))
        self._set(client, chance, lambda flow: flow.limit(claims=claims, rate=rate))

    def do_pause(self, client: str, chance: random.Random) -> None:
        self._set(client, chance, QueueFlow.pause)
        current().sleep(chance.choice((0.05, 0.5)))
        self._set(client, chance, QueueFlow.resume)

    def _set(self, client: str, chance: random.Random, change: object) -> None:
        assert callable(change)
        queue = chance.choice(QUEUES)
        self.write(client, lambda: change(self.store.queue(queue).flow))


class Limited(Shared):
    """Three processes whose queues have limits from the beginning."""

    operations: ClassVar = {**Shared.operations, "claim": 16, "limit": 2, "pause": 1}
    worker_class = LimitedWorker

    def prepare(self) -> None:
        chance = random.Random(self.seed)
        self._known: dict[int, tuple[int, int]] = {}
        begin = ((2, None, None), (None, 4 * _MILLION, 3), (1, _MILLION, 1))
        rows = [(f"queue://{queue}", 0, *chance.choice(begin), 0) for queue in QUEUES]
        self.server.fill("INSERT INTO JDBCSTORE_FLOW VALUES (?, ?, ?, ?, ?, ?)", rows)
        self.server.fill("INSERT INTO JDBCSTORE_STATE (NAME, NUMBER) VALUES (?, ?)", [("flow", 1)])
        self.server.on_claims = self._note_claims
        super().prepare()

    def drain(self) -> None:
        self.server.fill("UPDATE JDBCSTORE_FLOW SET PAUSED = ?, MOST = NULL, RATE = NULL", [(0,)])
        super().drain()

    def _note_claims(self, session: ServerSession) -> None:
        server = self.server
        known, self._known = self._known, {}
        new: dict[str, list[str]] = {}
        held = dict.fromkeys(QUEUES, 0)
        for id_, holder, taken, container, blob, expires in server.rows(_CLAIMED):
            queue = container.removeprefix("queue://")
            if queue not in held:
                continue
            self._known[id_] = holder, taken
            held[queue] += (expires or 0) >= server.now_ms()
            if known.get(id_) != (holder, taken):
                message = openwire.decode(bytes(blob), sequence=id_, container=container)
                new.setdefault(queue, []).append(str(message.body))
        client = "?" if session.process is None else session.process.name
        at = (session.asked_ms - EPOCH_MS) / 1000
        for queue, names in new.items():
            [(most, rate, burst, paused)] = server.rows(_SETTINGS.format(queue))
            settings = most, None if rate is None else rate / _MILLION, burst or 0, bool(paused)
            self.note(Held(at, client, queue, tuple(names), held[queue], *settings))
            self.trace("held", client, queue=queue, names=names, held=held[queue], most=most, rate=rate)
