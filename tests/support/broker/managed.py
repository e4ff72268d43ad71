"""The management of an engine, without a process around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jdbcstore import Store
from jdbcstore.broker.condition import BrokerCondition, BrokerState
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.management.audit import Actor
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.management.views import BrokerIdentity, LockEvent
from jdbcstore.broker.transport.connector import Connector
from jdbcstore.util.clock import Clock, SystemClock

ALICE = Actor("alice", "127.0.0.1:5000")


@dataclass
class Master:
    """A :class:`jdbcstore.broker.management.master.Served` of one engine."""

    engine: Engine
    store: Store
    connectors: Sequence[Connector] = ()


@dataclass
class Process:
    """A :class:`jdbcstore.broker.management.master.Managed` of one engine."""

    master: Master | None
    handed_over: list[bool] = field(default_factory=list)
    history: Sequence[LockEvent] = ()
    identity: BrokerIdentity = field(default_factory=BrokerIdentity)

    @property
    def condition(self) -> BrokerCondition:
        return BrokerCondition(state=BrokerState.SERVING if self.master else BrokerState.WAITING)

    def hand_over(self) -> None:
        self.handed_over.append(True)


def managed(engine: Engine, clock: Clock | None = None) -> Management:
    """The management of this engine."""
    return Management(Process(Master(engine, engine.store)), clock or SystemClock())
