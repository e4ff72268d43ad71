"""A broker's dead letters: what its consumers have rejected moves to a queue of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jdbcstore import Message
from jdbcstore.abc import Transaction
from jdbcstore.broker.queues.dead_letters import DeadLetters
from jdbcstore.config.policy import PolicyEntry, SharedDeadLetterStrategy
from jdbcstore.message.destination import Destination

DEAD = "ActiveMQ.DLQ"
STRATEGY = SharedDeadLetterStrategy()


class Target:
    """The queue of dead letters, as a transaction of the broker's has it."""

    def __init__(self, queue: Destination) -> None:
        self.queue = queue

    def stage(self, transaction: Transaction, message: Message) -> bool:
        transaction.queue(self.queue).add_message(message)
        return True


def stage(written: Transaction, store: Any, clock: Any, scope: str, message: Message) -> None:
    """Add the dead letter of a message to a transaction that removes the message."""
    loop: Any = SimpleNamespace(clock=clock)
    find: Any = Target
    unused: Any = None
    letters = DeadLetters(loop, unused, find, lambda _: PolicyEntry(), _audited=False, _events=unused)
    source: Any = SimpleNamespace(destination=Destination.queue(scope), store=store)
    entry: Any = SimpleNamespace(message=message, key=(source.destination, True, 1))
    letters._stage(written, source, STRATEGY, [entry], False, None, "rejected", {})
