"""Advisory messages about temporary destinations, without which a JMS client does not reply to one.

ActiveMQ's client subscribes to them when it connects. Other advisory topics exist like any topic, and nothing
is sent to them.
"""

from __future__ import annotations

from itertools import count

from jdbcstore.broker.api import Broker
from jdbcstore.broker.openwire.commands import Type, write_body, write_command
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import ConsumerId, MessageId, ProducerId

TOPICS = {
    DestinationKind.TEMPORARY_QUEUE: Destination.topic("ActiveMQ.Advisory.TempQueue"),
    DestinationKind.TEMPORARY_TOPIC: Destination.topic("ActiveMQ.Advisory.TempTopic"),
}
_ADD, _REMOVE = 0, 1


def is_advisory(destination: Destination) -> bool:
    """Whether a consumer of this destination gets advisories of temporary destinations, and nothing else."""
    return all(member in TOPICS.values() for member in destination.members)


class TemporaryAdvisories:
    """A connection's consumers of advisories; a :class:`~jdbcstore.broker.api.TemporaryWatcher`.

    What it sends needs no acknowledgement, and is not stored: there is a message for each temporary
    destination that exists, and for each change.
    """

    def __init__(self, output: ClientConnection, broker: Broker, version: int) -> None:
        self._output = output
        self._broker = broker
        self._version = version
        self._consumers: dict[ConsumerId, Destination] = {}
        self._producer = ProducerId(f"{output.connection_id}-advisories", -1, 1)
        self._numbers = count(1)

    def __contains__(self, consumer_id: ConsumerId) -> bool:
        return consumer_id in self._consumers

    def add(self, consumer_id: ConsumerId, destination: Destination) -> None:
        """Send a consumer what exists, and every change."""
        # Those before it are notified again, which does no harm.
        self.close_watch()
        self._consumers[consumer_id] = destination
        self._broker.watch_temporary(self)

    def remove(self, consumer_id: ConsumerId) -> None:
        self._consumers.pop(consumer_id, None)
        if not self._consumers:
            self.close_watch()

    def close_watch(self) -> None:
        """Be notified no more."""
        self._broker.unwatch_temporary(self)

    def temporary_created(self, destination: Destination) -> None:
        self._send(destination, _ADD)

    def temporary_deleted(self, destination: Destination) -> None:
        self._send(destination, _REMOVE)

    def _send(self, destination: Destination, operation: int) -> None:
        topic, version = TOPICS[destination.kind], self._version
        consumers = [one for one, wanted in self._consumers.items() if topic in wanted.members]
        if not consumers:
            return
        info = write_body(Type.DESTINATION_INFO, version, destination=destination, operation=operation)
        message = write_body(
            Type.MESSAGE,
            version,
            producer_id=self._producer,
            destination=topic,
            message_id=MessageId(self._producer, next(self._numbers)),
            type="Advisory",
            data=info,
        )
        for consumer_id in consumers:
            values = {"consumer_id": consumer_id, "destination": topic, "message": message}
            self._output.write(write_command(Type.MESSAGE_DISPATCH, version, **values))
