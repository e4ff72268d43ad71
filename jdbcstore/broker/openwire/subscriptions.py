"""The open consumers of one OpenWire connection: their beginning, acknowledgements and end."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Iterator

from jdbcstore.broker.api import SubscriptionRequest
from jdbcstore.broker.openwire.acknowledgements import Acknowledgement, AcknowledgementReader
from jdbcstore.broker.openwire.advisories import Advisories, is_advisory, is_of_temporary
from jdbcstore.broker.openwire.commands import Command, Receipt, Type, response, write_command
from jdbcstore.broker.openwire.consumers import AckType, OpenWireConsumer, covers_more
from jdbcstore.broker.openwire.errors import FromEarlierConnection
from jdbcstore.broker.openwire.frames import OpenWireFrameReader, WireFormat
from jdbcstore.broker.openwire.producers import is_of
from jdbcstore.broker.openwire.transactions import OpenWireTransactions
from jdbcstore.broker.transport.connection import LONGEST_NAME, ClientConnection
from jdbcstore.broker.transport.consumers import subscribe
from jdbcstore.errors import InvalidDestination, ProtocolError, TransactionError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ConsumerId, LocalTransactionId, SessionId, TransactionId

_QUEUE_PREFETCHES = {False: (1000,), True: (500,)}
"""Default prefetches of clients, for consumers and for browsers."""
_TOPIC_PREFETCHES = {False: (32766,), True: (100, 1000)}
"""The same for subscribers of topics, and for durable ones."""
_ACK_TYPES = {int(kind): kind for kind in AckType}
_RANGES = (AckType.STANDARD, AckType.POISON)
_FINAL = (AckType.STANDARD, AckType.INDIVIDUAL, AckType.UNMATCHED)
"""Acknowledgements that a transaction may contain."""


class OpenWireConsumers:
    """The consumers of a client's connection, in the order of their beginning.

    :param numbers: the numbers of the dispatches on this socket
    :param reconnects: whether the client continues after a failover
    """

    def __init__(
        self,
        *,
        connection: ClientConnection,
        reader: OpenWireFrameReader,
        wire_format: WireFormat,
        numbers: Iterator[int],
        advisories: Advisories,
        transactions: OpenWireTransactions,
        reconnects: bool,
    ) -> None:
        self._connection = connection
        self._service = connection.service
        self._output = connection.output
        self._replies = connection.replies
        self._access = connection.access
        self._reader = reader
        self._format = wire_format
        self._numbers = numbers
        self._advisories = advisories
        self._transactions = transactions
        self._reconnects = reconnects
        self._acknowledgements = AcknowledgementReader(wire_format.version)
        self._consumers: dict[ConsumerId, OpenWireConsumer] = {}
        self._acknowledging: Future[None] | None = None
        """The last acknowledgement that is being stored."""

    def pause(self) -> None:
        """Pause deliveries, because the client does not read its socket."""
        for consumer in self._consumers.values():
            consumer.subscription.pause()

    def resume(self) -> None:
        """Resume deliveries."""
        for consumer in [*self._consumers.values()]:
            consumer.subscription.resume()

    def release(self) -> None:
        """Return unacknowledged deliveries, because the connection has ended."""
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            consumer.close(has_left=self._connection.has_left)

    # Subscribing.

    def add(self, command: Command, receipt: Receipt) -> None:
        """Begin the consumer of a CONSUMER_INFO.

        :raises StoreError: it is not allowed, or not possible
        """
        consumer_id: ConsumerId = command["consumer_id"]
        destination: Destination = command["destination"]
        if consumer_id in self._consumers or consumer_id in self._advisories:
            self._answer(receipt)  # a client that has reconnected repeats itself
            return
        most = self._connection.config.max_subscriptions
        if len(self._consumers) + len(self._advisories) >= most:
            raise ProtocolError(f"the connection has {most} consumers, the maximum; close some")
        if is_advisory(destination):
            if not is_of_temporary(destination):
                self._access.check_may_read(destination)
            self._answer(receipt)
            self._advisories.add(consumer_id, destination)
            return
        if command["browser"] and self._acknowledging is not None and not self._acknowledging.done():
            # A browser does not show messages that the client has already acknowledged.
            self._replies.wait_for(self._acknowledging, lambda _: self.add(command, receipt), receipt)
            return
        request = self._request(command, destination)
        self._access.check_may_read(destination)
        consumer = OpenWireConsumer(
            consumer_id=consumer_id,
            request=request,
            wire_format=self._format,
            numbers=self._numbers,
            now_ms=self._service.clock.now_ms,
            replies=self._replies,
            large=self._service.broker.large,
            on_end=self._ended,
        )
        subscribe(self._service.broker, self._replies, consumer, self._subscribed, receipt)

    def _request(self, command: Command, destination: Destination) -> SubscriptionRequest:
        name, browser, client_id = command["subscription_name"], command["browser"], self._access.client_id
        if name is not None and not destination.is_topic:
            raise InvalidDestination(f"{destination} is a queue: only topics have durable subscriptions")
        if name is not None and client_id is None:
            raise ProtocolError(
                "a durable subscription needs a client id; set the client id of the connection"
            )
        if browser and destination.is_topic:
            raise InvalidDestination(f"only queues can be browsed, and {destination} is a topic")
        defaults = _TOPIC_PREFETCHES if destination.is_topic else _QUEUE_PREFETCHES
        return SubscriptionRequest(
            destination=destination,
            connection_id=self._connection.connection_id,
            prefetch=max(command["prefetch"], 0),
            prefetch_is_default=command["prefetch"] in defaults[(name is not None) or browser],
            selector=command["selector"] or None,
            browser=browser,
            client_id=None if name is None else client_id,
            subscription_name=name,
            retroactive=command["retroactive"],
            no_local=command["no_local"],
            exclusive=command["exclusive"],
            priority=command["priority"],
            consumer_id=command["consumer_id"],
            client=self._connection.described,
        )

    def _subscribed(self, consumer: OpenWireConsumer, receipt: Receipt) -> None:
        self._consumers[consumer.consumer_id] = consumer
        if consumer.request.prefetch and not consumer.subscription.prefetch:  # the client must pull
            self._write_control(consumer, prefetch=0)
        self._log(consumer, "subscribes to")
        self._answer(receipt)

    def _ended(self, consumer: OpenWireConsumer, error: Exception) -> None:
        self._consumers.pop(consumer.consumer_id, None)
        self._write_control(consumer, close=True)
        self._connection.fail(error)

    def _write_control(self, consumer: OpenWireConsumer, **values: int) -> None:
        version, consumer_id = self._format.version, consumer.consumer_id
        self._output.write(write_command(Type.CONSUMER_CONTROL, version, consumer_id=consumer_id, **values))

    def control(self, command: Command, receipt: Receipt) -> None:
        """Change the prefetch of a consumer, or close it."""
        consumer = self._consumers.get(command["consumer_id"])
        if consumer is not None and command["close"]:
            self._close(consumer, None)
        elif consumer is not None:
            consumer.subscription.change_prefetch(command["prefetch"])
        self._answer(receipt)

    def pull(self, command: Command, receipt: Receipt) -> None:
        """Deliver one message to a consumer without a prefetch."""
        consumer = self._consumers.get(command["consumer_id"])
        self._answer(receipt)
        if consumer is not None:
            consumer.pull(command["timeout"])

    # Acknowledging.

    def acknowledge(self, frame: bytes) -> None:
        """Carry out an acknowledgement, and the following ones like it.

        :raises ProtocolError: it is damaged; the rest of the input is ignored
        """
        acknowledgement = self._acknowledgements.read(frame)
        name = acknowledgement.transaction_id
        receipt = acknowledgement.command_id if acknowledgement.response_required else None
        try:
            done = self._acknowledge(acknowledgement, name, frame)
        except Exception as error:
            if name is not None:
                self._transactions.fail(name, error)
            # Otherwise the client could commit on the next connection before this commit is on its way.
            awaits_end = isinstance(error, FromEarlierConnection) and isinstance(name, LocalTransactionId)
            if receipt is not None or not awaits_end:
                self._connection.fail(error, receipt)
            return
        if done is None:
            self._answer(receipt)
        elif done is not self._acknowledging or receipt is not None:
            self._acknowledging = done
            self._replies.track(done, response(receipt), receipt, fatal=True)

    def _acknowledge(
        self, sent: Acknowledgement, name: TransactionId | None, frame: bytes
    ) -> Future[None] | None:
        """Return the future of the write, which several acknowledgements may share."""
        kind, consumer, last = _ACK_TYPES.get(sent.ack_type), self._consumers.get(sent.consumer_id), sent.last
        if kind is None:
            raise ProtocolError(f"{sent.ack_type} is not a type of acknowledgement")
        if last is None:
            raise ProtocolError("an acknowledgement needs the id of its last message")
        covered = {}
        if consumer is not None:
            covered = consumer.covered(kind, sent.first, last, sent.destination)
        if consumer is None or not covered or (self._reconnects and covers_more(covered, sent.message_count)):
            self._check_unmatched(kind, consumer, sent)
            return None
        if kind in _FINAL and name is not None:
            self._transactions.acknowledge(name, consumer, covered)
            return None
        is_single = kind is AckType.INDIVIDUAL or (kind is AckType.STANDARD and sent.first is not None)
        if is_single and not sent.response_required:
            covered.update(self._acknowledgements.read_like(frame, self._reader, consumer.pending))
        text = None if sent.cause is None else sent.cause.text
        return consumer.carry_out(kind, covered, is_transacted=name is not None, cause=text)

    def _check_unmatched(
        self, kind: AckType, consumer: OpenWireConsumer | None, sent: Acknowledgement
    ) -> None:
        """Ignore an acknowledgement of an earlier connection, whose messages are delivered again, or of an
        advisory.

        :raises StoreError: it may not be ignored
        """
        is_transacted = sent.transaction_id is not None and kind in _FINAL
        if is_transacted and sent.consumer_id in self._advisories:
            return
        if consumer is None or not self._reconnects:
            if is_transacted:
                unmatched = f"Unmatched acknowledge: {sent.last} is not pending with this consumer"
                raise TransactionError(unmatched)
            return
        # After a failover a client redelivers messages of earlier connections to itself, mixed with messages
        # of this connection. When it rejects all of these, it does not name them. If they stayed pending, the
        # next range that covers one of them would acknowledge it unconsumed. When it cannot commit them, it
        # redelivers them to itself forever. It forgets them when it reconnects.
        if is_transacted and consumer.has_paused():
            raise TransactionError(f"{sent.last} belongs to an earlier connection, which lost the delivery")
        ends = [message_id for message_id in (sent.first, sent.last) if message_id is not None]
        if is_transacted or (kind in _RANGES and any(map(consumer.has, ends))):
            raise FromEarlierConnection

    # The end.

    def remove(self, consumer_id: ConsumerId, last_seen: int) -> None:
        """Close a consumer; do nothing if it is unknown.

        :param last_seen: the number of the last delivery that the client has looked at; -2 if unknown
        """
        self._advisories.remove(consumer_id)
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            self._close(consumer, last_seen if last_seen >= -1 else None)

    def remove_of(self, session: SessionId, last_seen: int) -> None:
        """Close the consumers of a JMS session."""
        for consumer_id in [*self._consumers]:
            if is_of(consumer_id, session):
                self.remove(consumer_id, last_seen)

    def remove_all(self, last_seen: int) -> None:
        """Close all consumers, because the client ends its connection."""
        for consumer_id in [*self._consumers]:
            self.remove(consumer_id, last_seen)

    def _close(self, consumer: OpenWireConsumer, last_seen: int | None) -> None:
        del self._consumers[consumer.consumer_id]
        consumer.close(last_seen, has_left=True)
        self._log(consumer, "unsubscribes from")

    def _answer(self, receipt: Receipt) -> None:
        answer = response(receipt)
        if answer is not None:
            self._output.write(answer)

    def _log(self, consumer: OpenWireConsumer, does: str) -> None:
        request = consumer.request
        self._connection.log(
            *(self._service.subscribing, logging.INFO, "%s %s, prefetch %s%s"),
            *(does, request.destination, consumer.subscription.prefetch, consumer.describe()),
            destination=str(request.destination),
            subscription=(request.subscription_name or str(consumer.consumer_id))[:LONGEST_NAME],
        )
