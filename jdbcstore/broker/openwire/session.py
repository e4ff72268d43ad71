"""One OpenWire client's session: the commands that it sends, and the replies to them.

The login, new consumers and the deletion of a durable subscription hold up the frames behind them. Sends,
acknowledgements and commits do not: each is answered when it is durable.
"""

from __future__ import annotations

import itertools
import logging
from asyncio import Future
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from struct import Struct
from typing import Any

from jdbcstore.broker.api import ProducerInfo, Subscription, SubscriptionRequest
from jdbcstore.broker.openwire.acknowledgements import (
    MESSAGE_ACK,
    Acknowledgement,
    AcknowledgementReader,
)
from jdbcstore.broker.openwire.advisories import Advisories, is_advisory, is_of_temporary
from jdbcstore.broker.openwire.commands import (
    FIRST_MESSAGE,
    LAST_MESSAGE,
    NEWEST,
    Command,
    Type,
    codec_version,
    read_command,
    write_command,
)
from jdbcstore.broker.openwire.consumers import AckType, OpenWireConsumer, covers_more
from jdbcstore.broker.openwire.errors import throwable
from jdbcstore.broker.openwire.frames import FrameReader, WireFormat, agree, wire_format_info
from jdbcstore.broker.openwire.transactions import Transactions
from jdbcstore.broker.security import Principal
from jdbcstore.broker.transport.connection import LONGEST_NAME, ClientConnection, Connections
from jdbcstore.broker.transport.service import Service
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import (
    CorruptMessage,
    InvalidDestination,
    ProtocolError,
    TransactionError,
)
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    ProducerId,
    SessionId,
    TransactionId,
    XATransactionId,
)
from jdbcstore.message.message import Message
from jdbcstore.message.openwire import decode
from jdbcstore.message.openwire._passing_cy import with_broker_in_time

_BEFORE_LOGIN = 32 * 1024
"""The most bytes of a frame of a client that has not logged in."""
_MOST_PRODUCERS = 10_000
_MESSAGE_SIZE = 1024
"""Bytes that ActiveMQ counts for a message beside its content, in a producer's window."""
_NOT_OPEN = "the connection is not open; begin with CONNECTION_INFO"
_XA_OK, _XA_RDONLY = 0, 3
_ADD, _REMOVE = 0, 1
_i32 = Struct(">i").pack
_RESPONSE = write_command(Type.RESPONSE)[:-4]
"""A response without the id of its command at the end."""

Receipt = int | bytes | None
"""The id of a command that asks for a response, or another frame to answer with."""


class Session(ClientConnection):
    """The connection of an OpenWire client. As in ActiveMQ it goes on after errors that are not fatal."""

    protocol = "OpenWire"
    heart_beat = write_command(Type.KEEP_ALIVE_INFO)
    # As in ActiveMQ: a JMS client gives its listener the end of the connection for the reason otherwise.
    refusal_delay = 2.0
    reader: FrameReader

    def __init__(self, service: Service, config: ConnectorConfig, connections: Connections) -> None:
        super().__init__(service, config, connections)
        self.reader = FrameReader(_BEFORE_LOGIN)
        self._format: WireFormat | None = None
        self._version = NEWEST
        self._codec = codec_version(NEWEST)
        self._consumers: dict[ConsumerId, OpenWireConsumer] = {}
        self._windows: dict[ProducerId, bytes] = {}
        """Of each producer, a ProducerAck without the size at its end; empty if it does not wait for one."""
        self._stored: dict[ProducerId, int] = {}
        """Of producers that may repeat what they sent before they reconnected, the last stored number."""
        self._acknowledging: Future[None] | None = None
        """The acknowledgement that is being stored, the last one if there are several."""
        self._reconnects = False
        self._is_open = False
        """Whether the client has logged in, and its connection has not ended."""
        self._is_released = False
        self._numbers: Iterator[int] = itertools.count(1)
        self._transactions = Transactions(self._broker, self.connection_id)
        self._advisories = Advisories(self, self._broker.directory, NEWEST, self._service.name)
        self._acknowledgements = AcknowledgementReader(NEWEST)

    def connection_made(self, transport: Any) -> None:
        # First of all: a client that is refused has to understand why.
        offer = wire_format_info(self._config.max_frame_size, self._inactivity_ms, self._service.server)
        transport.write(offer)
        super().connection_made(transport)

    def handle(self, frame: bytes) -> None:
        """Execute a command; an error is sent to the client."""
        kind = frame[4]
        if self._format is None:
            self._negotiate(frame)
            return
        if FIRST_MESSAGE <= kind <= LAST_MESSAGE:
            self._take_message(frame)
            return
        if kind == MESSAGE_ACK:
            self._take_acknowledgement(frame)
            return
        command = read_command(frame, self._version)
        receipt = command.command_id if command.response_required else None
        try:
            execute = _COMMANDS.get(command.type)
            if execute is None:
                raise ProtocolError(f"{command.type.name} is not a command for this broker", fatal=True)
            if not (self._is_open or self._is_allowed_before(command)):
                raise ProtocolError(_NOT_OPEN, fatal=self._principal is None)
            execute(self, command, receipt)
        except Exception as error:
            self.fail(error, receipt)

    def _is_allowed_before(self, command: Command) -> bool:
        """Whether a client may send this while its connection is not open."""
        if command.type is Type.REMOVE_INFO and self._principal is not None:
            return isinstance(command["object_id"], ConnectionId)  # it has ended its connection already
        return command.type in _BEFORE

    # Events of the network.

    def pause_writing(self) -> None:
        super().pause_writing()
        for consumer in self._consumers.values():
            consumer.subscription.pause()

    def resume_writing(self) -> None:
        for consumer in [*self._consumers.values()]:
            consumer.subscription.resume()
        super().resume_writing()

    @property
    def _inactivity_ms(self) -> int:
        return int(self._config.max_inactivity_duration * 1000)

    def superseded(self) -> None:
        """The client is back on another connection: return all to the broker, and close."""
        self.end_reason = "the client has reconnected"
        self.ended = self._failed = True
        self._release()
        self.abort()

    def _release(self) -> None:
        if self._is_released:
            return  # what has its ids now is another connection's
        self._is_released = True
        self._service.forget(self.connection_id, self)
        self._advisories.close_watch()
        self._transactions.rollback_all()
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            consumer.close()
        super()._release()

    # Replies.

    def _receipt(self, receipt: int | bytes) -> bytes:
        if isinstance(receipt, bytes):
            return receipt
        return _RESPONSE + _i32(receipt)

    def _error(self, error: BaseException, text: str, receipt: Receipt) -> bytes:
        exception = throwable(error, text)
        if isinstance(receipt, int):
            return write_command(
                Type.EXCEPTION_RESPONSE, self._version, correlation_id=receipt, error=exception
            )
        return write_command(Type.CONNECTION_ERROR, self._version, error=exception)

    # The beginning.

    def _negotiate(self, frame: bytes) -> None:
        agreed = self._format = agree(frame, self._config.max_frame_size, self._inactivity_ms)
        self._version = agreed.version
        self._codec = codec_version(agreed.version)
        self._advisories = self._make_advisories()
        self._acknowledgements = AcknowledgementReader(agreed.version)
        self.write(
            write_command(
                *(Type.BROKER_INFO, self._version),
                broker_id=BrokerId(self._service.name),
                broker_name=self._service.name,
                broker_url=self._config.uri,
            )
        )

    def _make_advisories(self) -> Advisories:
        host, port = self._transport.get_extra_info("sockname", ("localhost", 0))[:2]
        host = f"[{host}]" if ":" in host else host
        url = f"{'ssl' if self._config.is_tls else 'tcp'}://{host}:{port}"
        return Advisories(self, self._broker.directory, self._version, self._service.name, url)

    def _connect(self, command: Command, receipt: Receipt) -> None:
        if self._is_open:
            raise ProtocolError("the connection is open already; use another one")
        connection_id = command["connection_id"].value
        if not connection_id:
            raise ProtocolError("the connection id is empty", fatal=True)
        then = partial(self._connected, command, connection_id, receipt)
        self._authenticate(command["user"], command["password"], then, receipt)

    def _connected(
        self, command: Command, connection_id: str, receipt: Receipt, principal: Principal
    ) -> None:
        self._service.supersede(connection_id, self, principal)
        self._is_released = False
        self._transactions = Transactions(self._broker, connection_id)
        client_id, agreed, config = command["client_id"], self._format, self._config
        self._logged_in(principal, command["user"], client_id or None)
        self._is_open = True
        assert agreed is not None  # noqa: S101 - the first frame has made it
        self._reconnects = command["failover_reconnect"]
        self.reader.limit = config.max_frame_size
        self._answer(receipt)
        if command["manageable"]:
            addresses = self._service.advertised(config.is_tls) or None
            self.write(write_command(Type.CONNECTION_CONTROL, self._version, connected_brokers=addresses))
        if config.use_inactivity_monitor:
            seconds = agreed.inactivity_ms / 1000
            self._start_heart_beats(seconds / 2, seconds / 3, agreed.first_delay_ms / 1000)
        text = "is logged in as %r, OpenWire %s with %s, client id %r"
        values = (principal.name, agreed.version, agreed.provider[:LONGEST_NAME], client_id)
        self._log(self._service.logins, logging.INFO, text, *values, user=principal.name)

    def _keep_alive(self, command: Command, receipt: Receipt) -> None:  # noqa: ARG002
        if receipt is not None:
            self.write(self.heart_beat)

    def _shutdown(self, command: Command, receipt: Receipt) -> None:  # noqa: ARG002
        self.end_reason = "ShutdownInfo"
        self.finish(b"" if receipt is None else self._receipt(receipt))

    def _do_nothing(self, command: Command, receipt: Receipt) -> None:  # noqa: ARG002
        self._answer(receipt)

    # Producing.

    def _add_producer(self, command: Command, receipt: Receipt) -> None:
        producer_id: ProducerId = command["producer_id"]
        if len(self._windows) >= _MOST_PRODUCERS:
            raise ProtocolError(f"the connection has {_MOST_PRODUCERS} producers, the maximum; close some")
        destination = command["destination"]
        if destination is not None and destination not in self._writable:
            self._check_may_write(destination)
        self._windows[producer_id] = b""
        if command["window"] > 0:
            ack = write_command(Type.PRODUCER_ACK, self._version, producer_id=producer_id)
            self._windows[producer_id] = ack[:-4]
        if destination is not None:
            mine = self.connection_id
            self._broker.directory.add(
                ProducerInfo(connection_id=mine, producer_id=producer_id, destination=destination)
            )
        if not self._reconnects:
            self._answer(receipt)
            return

        def found(last: int | None) -> None:
            if last is not None:
                self._stored[producer_id] = last
            self._answer(receipt)

        self._wait_for(self._broker.last_producer_sequence(producer_id), found, receipt)

    def _take_message(self, frame: bytes) -> None:
        if not self._is_open:
            raise ProtocolError(_NOT_OPEN, fatal=self._principal is None)
        try:
            now_ms, codec = self._service.clock.now_ms(), self._codec
            message = decode(with_broker_in_time(frame, now_ms, codec), version=codec)
        except CorruptMessage as error:
            raise ProtocolError(f"a message is damaged: {error}", fatal=True) from error
        receipt: Receipt = message.command_id if message.response_required else None
        try:
            self._send(message, receipt, len(frame))
        except Exception as error:
            if message.transaction_id is not None:
                self._transactions.fail(message.transaction_id, error)
            self.fail(error, receipt)

    def _send(self, message: Message, receipt: Receipt, size: int) -> None:
        destination, message_id, producer_id = message.destination, message.message_id, message.producer_id
        if destination is None:
            raise InvalidDestination("a message needs a destination to be sent to")
        if message_id is None or message_id.producer_id is None:
            raise ProtocolError("a message needs a message id")
        if destination not in self._writable:
            self._check_may_write(destination)
        if message.user_id != self._user_id:
            message = message.replace(user_id=self._user_id)
        self._sent += 1
        if receipt is None and producer_id is not None and (head := self._windows.get(producer_id)):
            receipt = head + _i32(_counted(message))
        if self._stored and message_id.producer_sequence <= self._stored.get(message_id.producer_id, -1):
            self._answer(receipt)  # it was stored before the client reconnected
            return
        name = message.transaction_id
        if name is None:
            done = self._broker.send(message, self.connection_id)
        else:
            done = self._transactions.send(name, message)
        self._track(done, receipt, size)

    # Consuming.

    def _add_consumer(self, command: Command, receipt: Receipt) -> None:
        consumer_id: ConsumerId = command["consumer_id"]
        destination: Destination = command["destination"]
        if consumer_id in self._consumers or consumer_id in self._advisories:
            self._answer(receipt)  # a client that has reconnected repeats itself
            return
        if len(self._consumers) + len(self._advisories) >= self._config.max_subscriptions:
            raise ProtocolError(
                f"the connection has {self._config.max_subscriptions} consumers, the maximum; close some"
            )
        if is_advisory(destination):
            if not is_of_temporary(destination):
                self._check_may_read(destination)
            self._answer(receipt)
            self._advisories.add(consumer_id, destination)
            return
        if command["browser"] and self._acknowledging is not None and not self._acknowledging.done():
            # What the client has acknowledged before is not shown to it.
            again = partial(self._browse_after, command, receipt)
            self._wait_for(self._acknowledging, again, receipt)
            return
        request = self._request(command, destination)
        self._check_may_read(destination)
        assert self._format is not None  # noqa: S101 - the first frame has made it
        consumer = OpenWireConsumer(
            *(self, consumer_id, request, self._version, self._format.max_frame_size),
            self._numbers,
            self._consumer_ended,
            self._service.clock.now_ms,
        )
        self._subscribing = self._broker.subscribe(request, consumer)
        self._wait_for(self._subscribing, partial(self._subscribed, consumer, receipt), receipt)

    def _browse_after(self, command: Command, receipt: Receipt, acknowledged: None) -> None:  # noqa: ARG002
        self._add_consumer(command, receipt)

    def _request(self, command: Command, destination: Destination) -> SubscriptionRequest:
        name, browser = command["subscription_name"], command["browser"]
        if name is not None and not destination.is_topic:
            raise InvalidDestination(f"{destination} is a queue: only topics have durable subscriptions")
        if name is not None and self._client_id is None:
            raise ProtocolError("a durable subscription belongs to a client id; set that of the connection")
        if browser and destination.is_topic:
            raise InvalidDestination(f"only queues can be browsed, and {destination} is a topic")
        defaults = _TOPIC_PREFETCHES if destination.is_topic else _QUEUE_PREFETCHES
        return SubscriptionRequest(
            destination=destination,
            connection_id=self.connection_id,
            prefetch=max(command["prefetch"], 0),
            prefetch_is_default=command["prefetch"] in defaults[(name is not None) or browser],
            selector=command["selector"] or None,
            browser=browser,
            client_id=None if name is None else self._client_id,
            subscription_name=name,
            retroactive=command["retroactive"],
            no_local=command["no_local"],
            exclusive=command["exclusive"],
            priority=command["priority"],
            consumer_id=command["consumer_id"],
        )

    def _subscribed(self, consumer: OpenWireConsumer, receipt: Receipt, subscription: Subscription) -> None:
        self._subscribing = None
        consumer.open(subscription)
        self._consumers[consumer.consumer_id] = consumer
        if consumer.request.prefetch and not subscription.prefetch:  # the client has to pull
            control = {"consumer_id": consumer.consumer_id, "prefetch": 0}
            self.write(write_command(Type.CONSUMER_CONTROL, self._version, **control))
        self._log_consumer(consumer, "subscribes to")
        self._answer(receipt)

    def _consumer_ended(self, consumer: OpenWireConsumer, error: Exception) -> None:
        self._consumers.pop(consumer.consumer_id, None)
        control = {"consumer_id": consumer.consumer_id, "close": True}
        self.write(write_command(Type.CONSUMER_CONTROL, self._version, **control))
        self.fail(error)

    def _control_consumer(self, command: Command, receipt: Receipt) -> None:
        consumer = self._consumers.get(command["consumer_id"])
        if consumer is not None and command["close"]:
            self._close(consumer, None)
        elif consumer is not None:
            consumer.subscription.change_prefetch(command["prefetch"])
        self._answer(receipt)

    def _pull(self, command: Command, receipt: Receipt) -> None:
        consumer = self._consumers.get(command["consumer_id"])
        self._answer(receipt)
        if consumer is not None:
            consumer.pull(command["timeout"])

    def _take_acknowledgement(self, frame: bytes) -> None:
        if self._principal is None:
            raise ProtocolError(_NOT_OPEN, fatal=True)
        acknowledgement = self._acknowledgements.read(frame)
        name = acknowledgement.transaction_id
        receipt = acknowledgement.command_id if acknowledgement.response_required else None
        try:
            done = self._acknowledge(acknowledgement, name, frame)
        except Exception as error:
            if name is not None:
                self._transactions.fail(name, error)
            self.fail(error, receipt)
            return
        if done is None:
            self._answer(receipt)
        elif done is not self._acknowledging or receipt is not None:
            self._acknowledging = done
            self._track(done, receipt, fatal=True)

    def _acknowledge(
        self, sent: Acknowledgement, name: TransactionId | None, frame: bytes
    ) -> Future[None] | None:
        """Carry it out, with those like it that come next.

        Returns the future of what has to be written, which several may have in common.
        """
        kind, consumer, last = _ACK_TYPES.get(sent.ack_type), self._consumers.get(sent.consumer_id), sent.last
        if kind is None:
            raise ProtocolError(f"{sent.ack_type} is not a type of acknowledgement")
        if last is None:
            raise ProtocolError("an acknowledgement needs the id of its last message")
        found = {}
        if consumer is not None:
            found = consumer.covered(kind, sent.first, last, sent.destination)
        if consumer is None or not found or (self._reconnects and covers_more(found, sent.message_count)):
            self._check_unmatched(kind, consumer, sent)
            return None
        if kind in _FINAL and name is not None:
            self._transactions.acknowledge(name, consumer, found)
            return None
        is_single = kind is AckType.INDIVIDUAL or (kind is AckType.STANDARD and sent.first is not None)
        if is_single and not sent.response_required:
            found.update(self._acknowledgements.read_like(frame, self.reader, consumer.pending))
        text = None if sent.cause is None else sent.cause.text
        return consumer.carry_out(kind, found, is_transacted=name is not None, cause=text)

    def _check_unmatched(
        self, kind: AckType, consumer: OpenWireConsumer | None, sent: Acknowledgement
    ) -> None:
        """One of an earlier connection may be ignored, as its messages are delivered again; or an advisory's.

        :raises StoreError: it may not be
        """
        is_transacted = sent.transaction_id is not None and kind in _FINAL
        if is_transacted and sent.consumer_id in self._advisories:
            return
        if consumer is None or not self._reconnects:
            if is_transacted:
                unmatched = f"Unmatched acknowledge: {sent.last} is not pending with this consumer"
                raise TransactionError(unmatched)
            return
        # After a failover a client redelivers to itself what earlier connections have brought, before, beside
        # and between what this one brings. When it rejects all of these, it does not say which they are. If
        # they stayed pending, the next range that covers one of them would acknowledge it unconsumed. When it
        # cannot commit them, it redelivers them to itself for ever. It forgets them when it reconnects.
        ends = [one for one in (sent.first, sent.last) if one is not None]
        if is_transacted or (kind in _RANGES and any(map(consumer.has, ends))):
            refused = "an acknowledgement has messages of an earlier connection; reconnect to get all again"
            raise ProtocolError(refused, fatal=True)

    def _unsubscribe(self, command: Command, receipt: Receipt) -> None:
        name = command["subscription_name"]
        if self._client_id is None:
            raise ProtocolError("a durable subscription belongs to a client id; set that of the connection")
        done = self._broker.unsubscribe(self._client_id, name)
        self._wait_for(done, lambda _: self._answer(receipt), receipt)

    # The end of producers, consumers and sessions.

    def _remove(self, command: Command, receipt: Receipt) -> None:
        object_id, last_seen = command["object_id"], command["last_delivered"]
        match object_id:
            case ProducerId():
                self._remove_producer(object_id)
            case ConsumerId():
                self._advisories.remove(object_id)
                self._close_all([self._consumers.get(object_id)], last_seen)
            case SessionId():
                mine = [one for one in self._consumers.values() if _is_of(one.consumer_id, object_id)]
                self._close_all(mine, last_seen)
                for producer_id in [one for one in self._windows if _is_of(one, object_id)]:
                    self._remove_producer(producer_id)
            case ConnectionId() if object_id.value == self.connection_id:
                self._close_all([*self._consumers.values()], last_seen)
                self._log_out()
        self._answer(receipt)

    def _log_out(self) -> None:
        """Everything of the client's connection ends but the socket, on which it may open another one."""
        self._release()
        self._is_open = False
        self._windows.clear()
        self._stored.clear()
        self._writable.clear()
        self._transactions = Transactions(self._broker, self.connection_id)
        self._advisories = self._make_advisories()

    def _remove_producer(self, producer_id: ProducerId) -> None:
        self._windows.pop(producer_id, None)
        self._stored.pop(producer_id, None)
        self._broker.directory.remove_producer(self.connection_id, producer_id)

    def _close_all(self, consumers: Sequence[OpenWireConsumer | None], last_seen: int) -> None:
        for consumer in consumers:
            if consumer is not None:
                # -2: the client does not know.
                self._close(consumer, last_seen if last_seen >= -1 else None)

    def _close(self, consumer: OpenWireConsumer, last_seen: int | None) -> None:
        del self._consumers[consumer.consumer_id]
        consumer.close(last_seen)
        self._log_consumer(consumer, "unsubscribes from")

    # Destinations.

    def _change_destination(self, command: Command, receipt: Receipt) -> None:
        destination, operation = command["destination"], command["operation"]
        if operation not in (_ADD, _REMOVE):
            raise ProtocolError(f"{operation} is not an operation on destinations")
        if destination.is_temporary and operation == _ADD:
            self._check_may_write(destination)
            self._broker.create_temporary(destination, self.connection_id)
        elif destination.is_temporary:
            self._writable.discard(destination)
            self._broker.delete_temporary(destination, self.connection_id)
        elif operation == _ADD:
            self._check_may_write(destination)  # it is created when it is used
        else:
            self._check_may_delete(destination)
            self._writable.discard(destination)
            deleted = self._broker.delete_destination(destination)
            self._track(deleted, receipt)
            return
        self._answer(receipt)

    # Transactions.

    def _transact(self, command: Command, receipt: Receipt) -> None:
        operation, name = command["operation"], command["transaction_id"]
        execute = _OPERATIONS.get(operation)
        if execute is None:
            raise ProtocolError(f"{operation} is not an operation on transactions")
        if name is None and execute is not Session._recover:
            raise ProtocolError("a transaction needs an id")
        execute(self, name, receipt)

    def _begin(self, name: TransactionId, receipt: Receipt) -> None:
        self._transactions.begin(name)
        self._answer(receipt)

    def _prepare(self, name: TransactionId, receipt: Receipt) -> None:
        if not isinstance(name, XATransactionId):
            raise TransactionError(f"{name} is a local transaction, which cannot be prepared")

        def prepared(is_work: bool) -> None:
            result = _XA_OK if is_work else _XA_RDONLY
            self._write_result(Type.INTEGER_RESPONSE, receipt, result=result)

        self._wait_for(self._transactions.prepare(name), prepared, receipt)

    def _commit(self, name: TransactionId, receipt: Receipt) -> None:
        self._track(self._transactions.commit(name), receipt)

    def _rollback(self, name: TransactionId, receipt: Receipt) -> None:
        self._track(self._transactions.rollback(name), receipt)

    def _recover(self, name: TransactionId | None, receipt: Receipt) -> None:  # noqa: ARG002
        def found(ids: list[XATransactionId]) -> None:
            self._write_result(Type.DATA_ARRAY_RESPONSE, receipt, data=ids)

        self._wait_for(self._transactions.prepared(), found, receipt)

    def _end_work(self, name: TransactionId, receipt: Receipt) -> None:  # noqa: ARG002
        self._answer(receipt)

    def _write_result(self, kind: Type, receipt: Receipt, **values: Any) -> None:
        if receipt is not None:
            self.write(write_command(kind, self._version, correlation_id=receipt, **values))

    def _log_consumer(self, consumer: OpenWireConsumer, does: str) -> None:
        request, how = consumer.request, ""
        name = (request.subscription_name or "")[:LONGEST_NAME]
        if name:
            how += f", durable as {name}"
        if request.selector is not None:
            how += ", with a selector"
        if request.browser:
            how += ", as a browser"
        self._log(
            *(self._service.subscribing, logging.INFO, "%s %s, prefetch %s%s"),
            *(does, request.destination, consumer.subscription.prefetch, how),
            destination=str(request.destination),
            subscription=name or str(consumer.consumer_id)[:LONGEST_NAME],
        )


_QUEUE_PREFETCHES = {False: (1000,), True: (500,)}
"""What clients send if nobody has chosen a prefetch, for consumers and for browsers."""
_TOPIC_PREFETCHES = {False: (32766,), True: (100, 1000)}
"""The same for subscribers of topics, and durable ones."""

_ACK_TYPES = {int(kind): kind for kind in AckType}
_RANGES = (AckType.STANDARD, AckType.POISON)
_FINAL = (AckType.STANDARD, AckType.INDIVIDUAL, AckType.UNMATCHED)
"""Acknowledgements that a transaction may contain."""

_BEFORE = (Type.CONNECTION_INFO, Type.CONNECTION_CONTROL, Type.KEEP_ALIVE_INFO, Type.SHUTDOWN_INFO)
"""Commands of a client that has not logged in; a ``failover:`` client begins with a ConnectionControl."""

_COMMANDS: dict[Type, Callable[[Session, Command, Receipt], None]] = {
    Type.CONNECTION_INFO: Session._connect,
    Type.SESSION_INFO: Session._do_nothing,
    Type.PRODUCER_INFO: Session._add_producer,
    Type.CONSUMER_INFO: Session._add_consumer,
    Type.REMOVE_INFO: Session._remove,
    Type.MESSAGE_PULL: Session._pull,
    Type.TRANSACTION_INFO: Session._transact,
    Type.DESTINATION_INFO: Session._change_destination,
    Type.REMOVE_SUBSCRIPTION_INFO: Session._unsubscribe,
    Type.CONSUMER_CONTROL: Session._control_consumer,
    Type.CONNECTION_CONTROL: Session._do_nothing,
    Type.FLUSH_COMMAND: Session._do_nothing,
    Type.KEEP_ALIVE_INFO: Session._keep_alive,
    Type.SHUTDOWN_INFO: Session._shutdown,
}

_OPERATIONS: dict[int, Callable[[Session, Any, Receipt], None]] = {
    0: Session._begin,
    1: Session._prepare,
    2: Session._commit,
    3: Session._commit,
    4: Session._rollback,
    5: Session._recover,
    6: Session._rollback,
    7: Session._end_work,
}
"""Begin, prepare, commit in one phase or two, roll back, recover, forget, end. As in ActiveMQ, to forget a
branch is to roll it back."""


def _is_of(one: ConsumerId | ProducerId, session: SessionId) -> bool:
    return one.session_id == session.value and one.connection_id == session.connection_id


def _counted(message: Message) -> int:
    """The size of a message as ActiveMQ's producers count it in their windows."""
    properties = message._source.marshalled_properties if message._source is not None else None
    return _MESSAGE_SIZE + message.body_size + len(properties or b"")
