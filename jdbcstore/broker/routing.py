"""Routing of sends: the destinations of a message, and the message for each."""

from __future__ import annotations

from jdbcstore.broker.amending import with_expiration
from jdbcstore.broker.destinations import DestinationRegistry
from jdbcstore.broker.queues.dead_letters import renamed
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.temporary import TemporaryDestinations
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.util.clock import Clock

_MOST_MEMBERS = 1000
"""The most members of a composite destination, each of which stores a copy with the composite's whole
name."""


class Router:
    """Finds the queues and topics of a message: members of composites, and virtual destinations.

    :param is_audited: whether the store drops a message id that it has seen in any destination
    """

    def __init__(
        self,
        destinations: DestinationRegistry,
        temporary: TemporaryDestinations,
        clock: Clock,
        *,
        is_audited: bool,
    ) -> None:
        self._find, self._virtual = destinations.find, destinations.virtual
        self._temporary = temporary
        self._clock = clock
        self._is_audited = is_audited

    def route(self, message: Message, connection_id: str) -> list[tuple[Queue | Topic, Message]]:
        """Return each destination of a message, and the message for it.

        :raises InvalidDestination: it cannot be sent there
        """
        members = self.members(message, connection_id)
        messages = [addressed(message, member) for member in members]
        if any(map(self._virtual.apply_to, members)):
            messages = [copy for original in messages for copy in self._virtual.route(original)]
        if self._is_audited:
            messages[1:] = [copy.replace(message_id=renamed(copy.message_id)) for copy in messages[1:]]
        targets = [(self._find(copy.destination), copy) for copy in messages if copy.destination]
        now_ms = self._clock.now_ms()
        return [(target, with_expiration(copy, target.policy, now_ms)) for target, copy in targets]

    def members(self, message: Message, connection_id: str) -> tuple[Destination, ...]:
        """Return the destinations named for a message, creating the connection's own temporary ones.

        :raises InvalidDestination: there is no destination, there are too many, or a temporary one does not
            exist
        """
        if message.destination is None:
            raise InvalidDestination("a message needs a destination")
        members = members_of(message.destination)
        self._temporary.use(members, connection_id)
        return members


def members_of(destination: Destination) -> tuple[Destination, ...]:
    """Return the members of a composite destination, or the destination itself.

    :raises InvalidDestination: there are too many
    """
    members = destination.members
    if len(members) > _MOST_MEMBERS:
        raise InvalidDestination(
            f"a composite of {len(members)} destinations is too long: use several of at most {_MOST_MEMBERS}"
        )
    return members


def addressed(message: Message, member: Destination) -> Message:
    """Return the message for one member of a composite destination."""
    if message.destination == member:
        return message
    return message.replace(
        destination=member, original_destination=message.original_destination or message.destination
    )
