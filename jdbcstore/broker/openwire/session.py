"""One OpenWire client's session: its commands and the replies.

The login, new consumers and the deletion of a durable subscription delay the frames behind them. Sends,
acknowledgements and commits do not: each is answered when it is durable.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from jdbcstore.broker.openwire.acknowledgements import MESSAGE_ACK
from jdbcstore.broker.openwire.advisories import Advisories
from jdbcstore.broker.openwire.commands import (
    FIRST_MESSAGE,
    LAST_MESSAGE,
    NEWEST,
    Command,
    Receipt,
    Type,
    codec_version,
    read_command,
    response,
    write_command,
)
from jdbcstore.broker.openwire.errors import FromEarlierConnection, throwable
from jdbcstore.broker.openwire.frames import OpenWireFrameReader, WireFormat, agree, wire_format_info
from jdbcstore.broker.openwire.producers import Producers, acknowledgement
from jdbcstore.broker.openwire.receiving import MessageReceiver
from jdbcstore.broker.openwire.subscriptions import OpenWireConsumers
from jdbcstore.broker.openwire.transactions import OpenWireTransactions
from jdbcstore.broker.security import Principal
from jdbcstore.broker.transport.connection import LONGEST_NAME, ClientConnection
from jdbcstore.errors import CorruptMessage, InvalidDestination, ProtocolError, TransactionError
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
from jdbcstore.message.openwire.pieces import LargeBody

_BEFORE_LOGIN = 32 * 1024
"""The most bytes of a frame before the login."""
_NOT_OPEN = "the connection is not open; begin with CONNECTION_INFO"
_XA_OK, _XA_RDONLY = 0, 3
_ADD, _REMOVE = 0, 1


class OpenWireSession:
    """The commands of one OpenWire client. As in ActiveMQ it continues after errors that are not fatal."""

    heart_beat: ClassVar[bytes] = write_command(Type.KEEP_ALIVE_INFO)
    # As in ActiveMQ, because a JMS client would otherwise report the end of the connection as the reason.
    refusal_delay: ClassVar[float] = 2.0

    def __init__(self, connection: ClientConnection) -> None:
        self.reader = OpenWireFrameReader(_BEFORE_LOGIN)
        self.sent = 0
        """The number of messages from the client."""
        self._connection = connection
        self._service = connection.service
        self._broker = connection.service.broker
        self._config = connection.config
        self._output = connection.output
        self._replies = connection.replies
        self._access = connection.access
        self._format = WireFormat(NEWEST, 0, 0, connection.config.max_frame_size, "?")
        self._is_agreed = False
        """Whether the client has sent its wire format."""
        self._codec = codec_version(NEWEST)
        self._is_open = False
        """Whether the client has logged in, and its connection has not ended."""
        self._reconnects = False
        self._numbers = itertools.count(1)
        self._producers = Producers(self._broker.directory)
        self._receiver: MessageReceiver | None = None
        if self._broker.large is not None:
            self._receiver = MessageReceiver(
                self._broker.large,
                self._replies,
                check=self._check_may_send,
                then=self._received,
                refuse=self._refuse,
            )
        self._reset()

    def _reset(self) -> None:
        """Begin without consumers, transactions and advisories."""
        connection, url = self._connection, ""
        if connection.local_address is not None:
            host, port = connection.local_address
            host = f"[{host}]" if ":" in host else host
            url = f"{'ssl' if self._config.is_tls else 'tcp'}://{host}:{port}"
        self._advisories = Advisories(
            output=self._output,
            directory=self._broker.directory,
            connection_id=connection.connection_id,
            version=self._format.version,
            broker_name=self._service.name,
            url=url,
        )
        self._open(reconnects=False)

    def _open(self, *, reconnects: bool) -> None:
        """Begin without consumers and transactions.

        :param reconnects: whether the client continues after a failover
        """
        self._reconnects = reconnects
        self._transactions = OpenWireTransactions(self._broker, self._connection.connection_id)
        self._consumers = OpenWireConsumers(
            connection=self._connection,
            reader=self.reader,
            wire_format=self._format,
            numbers=self._numbers,
            advisories=self._advisories,
            transactions=self._transactions,
            reconnects=reconnects,
        )

    def greeting(self) -> bytes:
        """Return the broker's offer, which comes first so that a rejected client understands the reason."""
        return wire_format_info(self._config.max_frame_size, self._inactivity_ms, self._service.server)

    def handle(self, frame: bytes) -> None:
        """Execute a command; an error is sent to the client."""
        if type(frame) is not bytes:
            self._receive(frame)
            return
        kind = frame[4]
        if not self._is_agreed:
            self._negotiate(frame)
            return
        if FIRST_MESSAGE <= kind <= LAST_MESSAGE:
            self._receive_message(frame)
            return
        if kind == MESSAGE_ACK:
            if self._access.principal is None:
                raise ProtocolError(_NOT_OPEN, fatal=True)
            self._consumers.acknowledge(frame)
            return
        command = read_command(frame, self._format.version)
        receipt = command.command_id if command.response_required else None
        try:
            execute = _COMMANDS.get(command.type)
            if execute is None:
                raise ProtocolError(f"{command.type.name} is not a command for this broker", fatal=True)
            if not (self._is_open or self._is_allowed_before(command)):
                raise ProtocolError(_NOT_OPEN, fatal=self._access.principal is None)
            execute(self, command, receipt)
        except Exception as error:
            self._connection.fail(error, receipt)

    def _is_allowed_before(self, command: Command) -> bool:
        """Return whether a client may send this command before its connection is open."""
        if command.type is Type.REMOVE_INFO and self._access.principal is not None:
            return isinstance(command["object_id"], ConnectionId)  # it has already ended its connection
        return command.type in _BEFORE

    def pause(self) -> None:
        """Pause deliveries, because the client does not read its socket."""
        self._consumers.pause()

    def resume(self) -> None:
        """Resume deliveries."""
        self._consumers.resume()

    def release(self) -> None:
        """Roll back open transactions, and return unacknowledged deliveries."""
        self._advisories.close_watch()
        if self._receiver is not None:
            self._receiver.end()
        self._transactions.rollback_all()
        self._consumers.release()

    # Replies.

    def error_frame(self, error: BaseException, text: str, receipt: Receipt) -> bytes:
        """Return the exception for a command, or for the connection."""
        exception, version = throwable(error, text), self._format.version
        if receipt is not None:
            return write_command(Type.EXCEPTION_RESPONSE, version, correlation_id=receipt, error=exception)
        return write_command(Type.CONNECTION_ERROR, version, error=exception)

    def _answer(self, receipt: Receipt) -> None:
        answer = response(receipt)
        if answer is not None:
            self._output.write(answer)

    # The beginning.

    @property
    def _inactivity_ms(self) -> int:
        return int(self._config.max_inactivity_duration * 1000)

    def _negotiate(self, frame: bytes) -> None:
        self._format = agree(frame, self._config.max_frame_size, self._inactivity_ms)
        self._is_agreed = True
        self._codec = codec_version(self._format.version)
        self._reset()
        self._output.write(
            write_command(
                *(Type.BROKER_INFO, self._format.version),
                broker_id=BrokerId(self._service.name),
                broker_name=self._service.name,
                broker_url=self._config.uri,
            )
        )

    def _connect(self, command: Command, receipt: Receipt) -> None:
        if self._is_open:
            raise ProtocolError("the connection is already open; use another one")
        connection_id = command["connection_id"].value
        if not connection_id:
            raise ProtocolError("the connection id is empty", fatal=True)
        then = partial(self._connected, command, connection_id, receipt)
        self._connection.authenticate(command["user"], command["password"], then, receipt)

    def _connected(
        self, command: Command, connection_id: str, receipt: Receipt, principal: Principal
    ) -> None:
        connection, client_id = self._connection, command["client_id"]
        agreed, config = self._format, self._config
        connection.adopt_id(connection_id, principal)
        self._open(reconnects=command["failover_reconnect"])
        connection.logged_in(principal, command["user"], client_id or None)
        self._is_open = True
        large = 0 if self._receiver is None else config.min_large_message_size
        self.reader.allow(config.max_frame_size, large, self._codec)
        self._answer(receipt)
        if command["manageable"]:
            addresses = self._service.config.advertised(is_tls=config.is_tls) or None
            self._output.write(
                write_command(Type.CONNECTION_CONTROL, agreed.version, connected_brokers=addresses)
            )
        if config.use_inactivity_monitor:
            seconds = agreed.inactivity_ms / 1000
            connection.deadlines.start_heart_beats(seconds / 2, seconds / 3, agreed.first_delay_ms / 1000)
        text = "is logged in as %r, OpenWire %s with %s, client id %r"
        values = (principal.name, agreed.version, agreed.provider[:LONGEST_NAME], client_id)
        connection.log(self._service.logins, logging.INFO, text, *values, user=principal.name)

    def _keep_alive(self, command: Command, receipt: Receipt) -> None:  # noqa: ARG002
        if receipt is not None:
            self._output.write(self.heart_beat)

    def _shutdown(self, command: Command, receipt: Receipt) -> None:  # noqa: ARG002
        self._connection.finish(response(receipt) or b"", reason="ShutdownInfo", by_client=True)

    def _do_nothing(self, command: Command, receipt: Receipt) -> None:  # noqa: ARG002
        self._answer(receipt)

    # Producing.

    def _add_producer(self, command: Command, receipt: Receipt) -> None:
        producer_id: ProducerId = command["producer_id"]
        destination = command["destination"]
        if destination is not None and destination not in self._access.writable:
            self._access.check_may_write(destination)
        self._producers.add(command, self._format.version, self._connection.connection_id)
        if not self._reconnects:
            self._answer(receipt)
            return

        def found(last: int | None) -> None:
            if last is not None:
                self._producers.stored[producer_id] = last
            self._answer(receipt)

        self._replies.wait_for(self._broker.last_producer_sequence(producer_id), found, receipt)

    def _receive_message(self, frame: bytes) -> None:
        if not self._is_open:
            raise ProtocolError(_NOT_OPEN, fatal=self._access.principal is None)
        try:
            now_ms, codec = self._service.clock.now_ms(), self._codec
            message = decode(with_broker_in_time(frame, now_ms, codec), version=codec)
        except CorruptMessage as error:
            raise ProtocolError(f"a message is damaged: {error}", fatal=True) from error
        self._send_or_fail(message, len(frame))

    def _receive(self, frame: bytes) -> None:
        """Receive the head of a large message, a part of its content, or its tail."""
        if not self._is_open:
            raise ProtocolError(_NOT_OPEN, fatal=True)
        assert self._receiver is not None  # noqa: S101 - else no message is large
        try:
            self._receiver.receive(frame, self._service.clock.now_ms(), self._codec)
        except Exception as error:
            self._connection.fail(error, fatal=True)

    def _received(self, message: Message, body: LargeBody) -> None:
        self._send_or_fail(message, 0, body.size)

    def _send_or_fail(self, message: Message, size: int, stored: int = 0) -> None:
        receipt = message.command_id if message.response_required else None
        try:
            self._send(message, receipt, size, stored)
        except Exception as error:
            self._refuse(message, error)

    def _refuse(self, message: Message, error: Exception) -> None:
        if message.transaction_id is not None:
            self._transactions.fail(message.transaction_id, error)
        self._connection.fail(error, message.command_id if message.response_required else None)

    def _check_may_send(self, destination: Destination | None) -> None:
        if destination is None:
            raise InvalidDestination("a message needs a destination")
        self._access.check_may_write(destination)

    def _send(self, message: Message, receipt: Receipt, size: int, stored: int) -> None:
        message_id, producers = message.message_id, self._producers
        if message.destination not in self._access.writable:
            self._check_may_send(message.destination)
        if message_id is None or message_id.producer_id is None:
            raise ProtocolError("a message needs a message id")
        if message.user_id != self._access.user_id:
            message = message.replace(user_id=self._access.user_id)
        self.sent += 1
        answer = response(receipt)
        producer_id = message.producer_id
        if answer is None and producer_id is not None and (head := producers.windows.get(producer_id)):
            answer = acknowledgement(head, message)
        # A message that a client repeats after a reconnect may already be stored.
        if producers.stored and message_id.producer_sequence <= producers.stored.get(
            message_id.producer_id, -1
        ):
            if answer is not None:
                self._output.write(answer)
            return
        name = message.transaction_id
        if name is None:
            self._connection.send(message, answer, receipt, size, stored)
        else:
            done = self._transactions.send(name, message)
            self._replies.track(done, answer, receipt, size, stored=stored)

    # The end of producers, consumers and sessions.

    def _remove(self, command: Command, receipt: Receipt) -> None:
        object_id, last_seen = command["object_id"], command["last_delivered"]
        connection_id = self._connection.connection_id
        match object_id:
            case ProducerId():
                self._producers.remove(object_id, connection_id)
            case ConsumerId():
                self._consumers.remove(object_id, last_seen)
            case SessionId():
                self._consumers.remove_of(object_id, last_seen)
                self._producers.remove_of(object_id, connection_id)
            case ConnectionId() if object_id.value == connection_id:
                self._consumers.remove_all(last_seen)
                self._log_out()
        self._answer(receipt)

    def _log_out(self) -> None:
        """End the client's connection, but keep the socket, on which it may open another one."""
        self._connection.release()
        self._is_open = False
        self._producers.clear()
        self._access.forget_writable()
        self._reset()

    def _unsubscribe(self, command: Command, receipt: Receipt) -> None:
        client_id = self._access.client_id
        if client_id is None:
            raise ProtocolError(
                "a durable subscription needs a client id; set the client id of the connection"
            )
        if command["client_id"] not in (None, client_id):
            raise InvalidDestination(
                f"the subscription belongs to the client id {command['client_id']!r}; only a connection "
                "with that id or an administrator may remove it"
            )
        done = self._broker.unsubscribe(client_id, command["subscription_name"])
        self._replies.wait_for(done, lambda _: self._answer(receipt), receipt)

    # Destinations.

    def _change_destination(self, command: Command, receipt: Receipt) -> None:
        destination, operation, access = command["destination"], command["operation"], self._access
        if operation not in (_ADD, _REMOVE):
            raise ProtocolError(f"{operation} is not an operation on destinations")
        if destination.is_temporary and operation == _ADD:
            access.check_may_write(destination)
            self._broker.create_temporary(destination, self._connection.connection_id)
        elif destination.is_temporary:
            access.writable.discard(destination)
            self._broker.delete_temporary(destination, self._connection.connection_id)
        elif operation == _ADD:
            access.check_may_write(destination)  # it is created at its first use
        else:
            access.check_may_delete(destination)
            access.writable.discard(destination)
            deleted = self._broker.delete_destination(destination)
            self._replies.track(deleted, response(receipt), receipt)
            return
        self._answer(receipt)

    # Transactions.

    def _transact(self, command: Command, receipt: Receipt) -> None:
        operation, name = command["operation"], command["transaction_id"]
        execute = _OPERATIONS.get(operation)
        if execute is None:
            raise ProtocolError(f"{operation} is not an operation on transactions")
        if name is None and execute is not OpenWireSession._recover:
            raise ProtocolError("a transaction needs an id")
        try:
            execute(self, name, receipt)
        except FromEarlierConnection as error:
            self._connection.fail(error)  # no answer: the outcome is unknown to the client

    def _begin(self, name: TransactionId, receipt: Receipt) -> None:
        self._transactions.begin(name)
        self._answer(receipt)

    def _prepare(self, name: TransactionId, receipt: Receipt) -> None:
        if not isinstance(name, XATransactionId):
            raise TransactionError(f"{name} is a local transaction, which cannot be prepared")

        def prepared(is_work: bool) -> None:
            result = _XA_OK if is_work else _XA_RDONLY
            self._write_result(Type.INTEGER_RESPONSE, receipt, result=result)

        self._replies.wait_for(self._transactions.prepare(name), prepared, receipt)

    def _commit(self, name: TransactionId, receipt: Receipt) -> None:
        self._replies.track(self._transactions.commit(name), response(receipt), receipt)

    def _rollback(self, name: TransactionId, receipt: Receipt) -> None:
        self._replies.track(self._transactions.rollback(name), response(receipt), receipt)

    def _recover(self, name: TransactionId | None, receipt: Receipt) -> None:  # noqa: ARG002
        def found(ids: list[XATransactionId]) -> None:
            self._write_result(Type.DATA_ARRAY_RESPONSE, receipt, data=ids)

        self._replies.wait_for(self._broker.prepared(), found, receipt)

    def _end_work(self, name: TransactionId, receipt: Receipt) -> None:  # noqa: ARG002
        self._answer(receipt)

    def _write_result(self, kind: Type, receipt: Receipt, **values: Any) -> None:
        if receipt is not None:
            self._output.write(write_command(kind, self._format.version, correlation_id=receipt, **values))


_BEFORE = (Type.CONNECTION_INFO, Type.CONNECTION_CONTROL, Type.KEEP_ALIVE_INFO, Type.SHUTDOWN_INFO)
"""Commands before the login; a ``failover:`` client begins with a ConnectionControl."""

_COMMANDS: dict[Type, Callable[[OpenWireSession, Command, Receipt], None]] = {
    Type.CONNECTION_INFO: OpenWireSession._connect,
    Type.SESSION_INFO: OpenWireSession._do_nothing,
    Type.PRODUCER_INFO: OpenWireSession._add_producer,
    Type.CONSUMER_INFO: lambda session, *sent: session._consumers.add(*sent),
    Type.REMOVE_INFO: OpenWireSession._remove,
    Type.MESSAGE_PULL: lambda session, *sent: session._consumers.pull(*sent),
    Type.TRANSACTION_INFO: OpenWireSession._transact,
    Type.DESTINATION_INFO: OpenWireSession._change_destination,
    Type.REMOVE_SUBSCRIPTION_INFO: OpenWireSession._unsubscribe,
    Type.CONSUMER_CONTROL: lambda session, *sent: session._consumers.control(*sent),
    Type.CONNECTION_CONTROL: OpenWireSession._do_nothing,
    Type.FLUSH_COMMAND: OpenWireSession._do_nothing,
    Type.KEEP_ALIVE_INFO: OpenWireSession._keep_alive,
    Type.SHUTDOWN_INFO: OpenWireSession._shutdown,
}

_OPERATIONS: dict[int, Callable[[OpenWireSession, Any, Receipt], None]] = {
    0: OpenWireSession._begin,
    1: OpenWireSession._prepare,
    2: OpenWireSession._commit,
    3: OpenWireSession._commit,
    4: OpenWireSession._rollback,
    5: OpenWireSession._recover,
    6: OpenWireSession._rollback,
    7: OpenWireSession._end_work,
}
"""Begin, prepare, commit in one phase or two, roll back, recover, forget, end. As in ActiveMQ, forgetting a
branch rolls it back."""
