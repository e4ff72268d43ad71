"""A world of masters whose batches are sent before the ones before them are answered."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import ClassVar

from jdbcstore import Message
from jdbcstore.abc import MessageReference
from jdbcstore.errors import LockLost, OutcomeUnknown, StoreError
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.util.futures import StoreFuture
from tests.simulation.masters import CONFIG, Broker, Led, Masters
from tests.simulation.scheduler import Process, current
from tests.support.histories.events import Outcome, Write

AHEAD = replace(CONFIG, adapter="tests.simulation.database:PipelinedAdapter")
_HASTY = replace(AHEAD, reconnect_timeout=0.2)
"""What is in doubt is soon given up."""


class Sending(Broker):
    """A master to which messages are given one after the other, without waiting."""

    def _open(self) -> Led:
        return JdbcStore(self.world.server.url, _HASTY, clock=self.clock, locker=self._locker())

    def do_send(self, client: str, chance: random.Random) -> None:
        store, epoch, begun, process = self._serving(), self.epoch, current().now, self.process
        sent: list[tuple[str, StoreFuture[MessageReference]]] = []
        try:
            for _ in range(chance.choice((1, 3, 6))):
                name = self.world.new_name(client)
                sent.append((name, store.queue("Q").add_message_async(Message(name))))
            for _, future in sent:
                while not future.done():
                    current().sleep(0.005)
        finally:
            for name, future in sent:
                is_told = future.done() and not process.is_dead
                outcome = _outcome(future.exception()) if is_told else Outcome.UNKNOWN
                sends = (("Q", name),)
                self.world.note(Write(begun, current().now, client, outcome, sends=sends, epoch=epoch))


def _outcome(error: BaseException | None) -> Outcome:
    if error is None:
        return Outcome.OK
    if isinstance(error, OutcomeUnknown) or (isinstance(error, LockLost) and error.in_doubt):
        return Outcome.UNKNOWN
    assert isinstance(error, StoreError), error
    return Outcome.FAILED


class Ahead(Masters):
    """Two such brokers on one database."""

    operations: ClassVar = {
        "send": 12,
        "publish": 2,
        "receive": 9,
        "acknowledge": 7,
        "transaction": 2,
        "bury": 1,
    }

    faults: ClassVar = {
        "kill": 1,
        "pause": 1,
        "cut": 3,
        "lost": 2,
        "unknown": 3,
        "late": 4,
        "busy": 8,
        "restart": 1,
    }

    def prepare(self) -> None:
        self.highest = 0
        self.ids: set[int] = set()
        super().prepare()

    def _note_change(self, process: Process) -> None:
        super()._note_change(process)
        new = [id_ for (id_,) in self.server.rows("SELECT ID FROM ACTIVEMQ_MSGS") if id_ not in self.ids]
        self.ids.update(new)
        if new and min(new) < self.highest:
            self.problem(f"message {min(new)} was committed after message {self.highest}")
        self.highest = max([self.highest, *new])

    def new_members(self) -> list[Broker]:
        return [Sending(self, number) for number in range(self.members_count)]
