"""The broker while it is the master, and its destinations by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from jdbcstore.abc import Store
from jdbcstore.broker.condition import BrokerCondition
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.management.views import BrokerIdentity, LockEvent
from jdbcstore.broker.queues.browser import Browser
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.broker.transport.connector import Connector
from jdbcstore.errors import DestinationNotFound, InvalidDestination, NotMaster
from jdbcstore.message.destination import Destination

CONNECTION = "management"
"""The connection id of messages that the management sends and consumes."""


class Served(Protocol):
    """A broker that is the master."""

    @property
    def engine(self) -> Engine | None:
        """None while it is not serving."""

    @property
    def connectors(self) -> Sequence[Connector]: ...

    @property
    def store(self) -> Store: ...


class Managed(Protocol):
    """The process of a broker."""

    @property
    def master(self) -> Served | None:
        """The broker, while it is the master."""

    @property
    def identity(self) -> BrokerIdentity:
        """The name and addresses that distinguish it from other brokers."""

    @property
    def history(self) -> Iterable[LockEvent]:
        """The last changes of the mastership, oldest first."""

    @property
    def condition(self) -> BrokerCondition:
        """Its state, with the reason and what to do."""

    def hand_over(self) -> None:
        """Become a slave, so that another broker becomes the master."""


class CurrentMaster:
    """The engine of a process, which it has only while it is the master."""

    def __init__(self, process: Managed) -> None:
        self.process = process

    def engine(self) -> Engine:
        """Return the engine.

        :raises NotMaster: the broker does not serve
        """
        return self.required()[1]

    def required(self) -> tuple[Served, Engine]:
        """Return the broker and its engine.

        :raises NotMaster: the broker does not serve
        """
        served = self.process.master
        engine = None if served is None else served.engine
        if served is None or engine is None:
            raise NotMaster(f"this broker is not serving: {self.process.condition}")
        return served, engine


def clients_of(served: Served) -> list[ClientConnection]:
    return [client for connector in served.connectors for client in connector.clients]


def existing(engine: Engine, name: Destination) -> Queue | Topic:
    destination = engine.destinations.get(name)
    if destination is None:
        raise missing(name)
    return destination


def missing(name: Destination) -> DestinationNotFound:
    return DestinationNotFound(f"{name} does not exist; send to it, or list the destinations")


def queue_of(engine: Engine, name: Destination) -> Queue:
    queue = existing(engine, name)
    if not isinstance(queue, Queue):
        raise InvalidDestination(f"{name} is a topic; only queues can be browsed and changed")
    return queue


def in_flight(engine: Engine) -> Iterator[Entry]:
    """Yield the messages that are with consumers, except browsers."""
    for subscription in engine.destinations.subscriptions:
        if not isinstance(subscription, Browser):
            yield from subscription.held
