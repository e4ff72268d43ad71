"""One STOMP client's session: its commands and the replies.

CONNECT, SUBSCRIBE and the deletion of a durable subscription delay the frames behind them. Sends,
acknowledgements and commits do not: each RECEIPT is written when its own command is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from jdbcstore.broker.security import Principal
from jdbcstore.broker.stomp.frames import (
    BodyPart,
    Frame,
    FrameLimits,
    Version,
    encode,
    escape,
    required,
)
from jdbcstore.broker.stomp.lane import SendHead
from jdbcstore.broker.stomp.messages import DestinationNames, MessageFrames, addressed, is_text, to_message
from jdbcstore.broker.stomp.reader import StompFrameReader
from jdbcstore.broker.stomp.receiving import BodyReceiver
from jdbcstore.broker.stomp.subscriptions import (
    AckMode,
    StompConsumer,
    StompSubscriptions,
    durable_name,
    subscription_request,
)
from jdbcstore.broker.stomp.transactions import StompTransactions
from jdbcstore.broker.store_io.outbox import PendingSend
from jdbcstore.broker.transport.connection import LONGEST_NAME, ClientConnection
from jdbcstore.broker.transport.consumers import subscribe
from jdbcstore.broker.transport.replies import Reply
from jdbcstore.errors import ProtocolError
from jdbcstore.message._successor_cy import successor
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.openwire.pieces import LargeBody

_EOL = b"\n"
"""Written after each frame, as by ActiveMQ, because some clients wait for it."""
_BEFORE_LOGIN = FrameLimits(head=32 * 1024, headers=100, body=1024)
"""The limits before the login, when a client may only send CONNECT."""
_SHORTEST_BEAT_MS = 100
_MOST_SENDABLE = 1000


@dataclass(frozen=True, slots=True)
class HeartBeats:
    """The agreed intervals between heart-beats, in milliseconds; 0 means none."""

    from_client: int = 0
    from_broker: int = 0

    @classmethod
    def parse(cls, text: str | None) -> HeartBeats:
        """Return the requested intervals of a client, each at least 100 ms.

        :raises ProtocolError: the header is not two numbers
        """
        if text is None:
            return cls()
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
            raise ProtocolError(
                f"Invalid heart-beat header: {text[:40]!r}; send two numbers of milliseconds", fatal=True
            )
        offered, wanted = (max(int(part), _SHORTEST_BEAT_MS) if int(part) else 0 for part in parts)
        return cls(offered, wanted)

    def __str__(self) -> str:
        return f"{self.from_broker},{self.from_client}"


class StompSession:
    """The commands of one STOMP client. As in ActiveMQ it continues after an error, unless that is fatal."""

    heart_beat: ClassVar[bytes] = b"\n"
    refusal_delay: ClassVar[float] = 0.0

    def __init__(self, connection: ClientConnection) -> None:
        self.reader = StompFrameReader(_BEFORE_LOGIN)
        self.sent = 0
        """The number of messages from the client."""
        self._connection = connection
        self._service = connection.service
        self._broker = connection.service.broker
        self._now_ms = connection.service.clock.now_ms
        self._output = connection.output
        self._replies = connection.replies
        self._access = connection.access
        self._version = Version.V1_0
        self._names = DestinationNames(connection.connection_id)
        self._frames = MessageFrames(self._names, self._version, self._service.max_inflated)
        self._producer = ProducerId(connection.connection_id, -1, 1)
        self._subscriptions = StompSubscriptions(
            connection.connection_id, connection.config.max_subscriptions
        )
        self._transactions = StompTransactions(self._broker, connection.connection_id)
        self._head = SendHead()
        self._receiver: BodyReceiver | None = None
        if self._broker.large is not None and not self._output.is_packed:
            self._receiver = BodyReceiver(self._broker.large, self._replies)

    def greeting(self) -> bytes:
        """Return nothing, because the client speaks first."""
        return b""

    def handle(self, frame: Frame) -> None:
        """Execute a command; an error is sent to the client."""
        if type(frame) is not Frame:
            self._receive(frame)
            return
        receipt, transaction = frame.headers.get("receipt"), frame.headers.get("transaction")
        command = None
        try:
            command = _COMMANDS.get(frame.command) or _find_command(frame.command)
            if self._access.principal is None and command is not StompSession._connect:
                raise ProtocolError("Not connected. Begin with CONNECT", fatal=True)
            command(self, frame, receipt)
        except Exception as error:
            if transaction is not None and command in _TRANSACTED:
                self._transactions.fail(transaction, error)
            self._connection.fail(error, receipt)

    def pause(self) -> None:
        """Pause deliveries, because the client does not read its socket."""
        for consumer in self._subscriptions:
            consumer.subscription.pause()

    def resume(self) -> None:
        """Resume deliveries."""
        for consumer in [*self._subscriptions]:
            consumer.subscription.resume()

    def release(self) -> None:
        """Roll back open transactions, and return unacknowledged deliveries."""
        if self._receiver is not None:
            self._receiver.ignore()
        self._transactions.rollback_all()
        for consumer in self._subscriptions.remove_all():
            consumer.close(has_left=self._connection.has_left)

    # Replies.

    def _receipt(self, receipt: str | None) -> bytes | None:
        """Return the reply to a completed command; None if the client did not request one."""
        if receipt is None:
            return None
        text = receipt if receipt.isalnum() else escape(receipt, self._version)
        return f"RECEIPT\nreceipt-id:{text}\n\n\0\n".encode()

    def _answer(self, receipt: str | None) -> None:
        answer = self._receipt(receipt)
        if answer is not None:
            self._output.write(answer)

    def error_frame(self, error: BaseException, text: str, receipt: str | None) -> bytes:  # noqa: ARG002
        """Return an ERROR."""
        headers = [("message", text.partition("\n")[0]), ("content-type", "text/plain")]
        if receipt is not None:
            headers.append(("receipt-id", receipt))
        body = text.encode(errors="replace").replace(b"\0", b"?")
        return encode("ERROR", headers, self._version, body) + _EOL

    # Commands.

    def _connect(self, frame: Frame, receipt: str | None) -> None:
        if self._access.principal is not None:
            raise ProtocolError("Already connected.")
        headers = frame.headers
        self._version = _choose_version(headers)
        _check_host(headers, self._connection.config.virtual_hosts)
        heart_beats = HeartBeats.parse(headers.get("heart-beat"))
        then = partial(self._connected, headers, heart_beats)
        self._connection.authenticate(headers.get("login"), headers.get("passcode"), then, receipt)

    def _connected(self, headers: dict[str, str], heart_beats: HeartBeats, principal: Principal) -> None:
        connection, version, client_id = self._connection, self._version, headers.get("client-id")
        config = connection.config
        connection.logged_in(principal, headers.get("login"), client_id)
        self._frames = MessageFrames(self._names, version, self._service.max_inflated)
        limits = FrameLimits(
            line=config.max_header_length,
            headers=config.max_headers,
            body=config.max_frame_size,
            large=0 if self._receiver is None else config.min_large_message_size,
        )
        self.reader.agree(version, limits)
        answer = [
            ("version", version.value),
            ("session", client_id or connection.connection_id),
            ("heart-beat", str(heart_beats)),
            ("server", self._service.server),
        ]
        request = headers.get("request-id", headers.get("receipt"))
        if request is not None:  # ActiveMQ's reply from before the specification
            answer += [("response-id", request), ("receipt-id", request)]
        self._output.write(encode("CONNECTED", answer, version) + _EOL)
        connection.deadlines.start_heart_beats(heart_beats.from_client / 1000, heart_beats.from_broker / 1000)
        text = "is logged in as %r, STOMP %s, client-id %r"
        values = (principal.name, version, client_id)
        connection.log(self._service.logins, logging.INFO, text, *values, user=principal.name)

    def _receive(self, frame: Frame) -> None:
        """Receive the head of a large SEND, or a part of its body. After an error the rest is ignored."""
        receiver = self._receiver
        assert receiver is not None  # noqa: S101 - else no frame is large
        if isinstance(frame, BodyPart):
            receiver.receive(frame.body)
            return
        headers = frame.headers
        receipt, transaction = headers.get("receipt"), headers.get("transaction")
        try:
            if headers.get("destination", "") not in self._access.named:
                self._new_sendable(headers)
            receiver.begin(receipt, partial(self._received, frame), is_text=is_text(headers))
        except Exception as error:
            receiver.ignore()
            self._failed(error, receipt, transaction)

    def _received(self, frame: Frame, body: LargeBody) -> None:
        headers = frame.headers
        receipt, transaction = headers.get("receipt"), headers.get("transaction")
        try:
            self._send(frame, receipt, body)
        except Exception as error:
            self._failed(error, receipt, transaction)

    def _failed(self, error: Exception, receipt: str | None, transaction: str | None) -> None:
        if transaction is not None:
            self._transactions.fail(transaction, error)
        self._connection.fail(error, receipt)

    def _send(self, frame: Frame, receipt: str | None, body: LargeBody | None = None) -> None:
        headers = frame.headers
        is_known = False
        if self._version is not Version.V1_0:  # in which names and values are stripped
            is_known = self._head.learn(headers, self.reader.limits)
            self._connection.read_with(self._send_known if is_known else None)
        if "destination-type" in headers:
            headers["destination"] = addressed(headers.get("destination", ""), headers["destination-type"])
        destination = self._access.named.get(headers.get("destination", "")) or self._new_sendable(headers)
        del headers["destination"]
        headers.pop("receipt", None)
        name = headers.pop("transaction", None)
        answer = None if receipt is None else self._receipt(receipt)
        self.sent += 1
        message_id = MessageId(self._producer, self.sent)
        message = to_message(
            frame, destination, message_id, self._now_ms(), self._names, self._access.user_id, body
        )
        if is_known and body is None:
            self._head.keep(message)
        stored = 0 if body is None else body.size
        if name is None:
            self._connection.send(message, answer, receipt, len(frame.body), stored)
        else:
            done = self._transactions.send(name, message)
            self._replies.track(done, answer, receipt, len(frame.body), stored=stored)

    def _send_known(self, data: bytes) -> bytes:
        """Send the messages of the first frames, whose head is known; return the remaining bytes."""
        head, replies, connection, broker = self._head, self._replies, self._connection, self._broker
        last = head.message
        if last is None or head.destination not in self._access.named:
            return data
        receiver = broker.lane_to(last, connection.connection_id)
        at, size, now_ms, most = 0, len(data), self._now_ms(), self.reader.limits.body
        while (
            at < size
            and not (replies.full or replies.ended)
            and (read := head.read(data, at, most)) is not None
        ):
            body, receipt, end = read
            length, at, self.sent = end - at, end, self.sent + 1
            message = successor(last, self._producer, self.sent, body, now_ms)
            answer = None if receipt is None else f"RECEIPT\nreceipt-id:{receipt}\n\n\0\n".encode()
            if receiver is None:
                connection.send(message, answer, receipt, length)
            else:
                reply = Reply(replies, answer, receipt, length)
                broker.outbox.add(PendingSend(message, receiver, connection.connection_id, reply, length))
        return data[at:].lstrip(b"\r\n\0") if at else data

    def _new_sendable(self, headers: dict[str, str]) -> Destination:
        """Return the destination of a SEND, after checking the authorization."""
        text = required(headers, "destination", "SEND")
        destination = self._names.destination(text)
        if destination not in self._access.writable:
            self._access.check_may_write(destination)
        if len(self._access.named) < _MOST_SENDABLE:
            self._access.named[text] = destination
        return destination

    def _subscribe(self, frame: Frame, receipt: str | None) -> None:
        headers, connection = frame.headers, self._connection
        required(headers, "destination", "SUBSCRIBE")
        subscription_id = headers.get("id")
        if subscription_id is None and self._version is not Version.V1_0:
            raise ProtocolError("SUBSCRIBE needs the header id; add it")
        prefix = self._subscriptions.next_prefix()
        request = subscription_request(
            *(headers, self._names, self._version, connection.connection_id, self._access.client_id),
            client=connection.described,
        )
        self._access.check_may_read(request.destination)
        consumer = StompConsumer(
            replies=self._replies,
            request=request,
            large=self._broker.large,
            mode=AckMode(headers.get("ack", AckMode.AUTO)),
            subscription_id=subscription_id,
            frames=self._frames,
            ack_prefix=prefix,
            on_end=self._subscription_ended,
        )
        subscribe(self._broker, self._replies, consumer, self._subscribed, receipt)

    def _subscribed(self, consumer: StompConsumer, receipt: str | None) -> None:
        self._subscriptions.add(consumer)
        self._log_subscription(consumer, "subscribes to")
        self._answer(receipt)

    def _subscription_ended(self, consumer: StompConsumer, error: Exception) -> None:
        self._subscriptions.remove(consumer)
        self._connection.fail(error)

    def _unsubscribe(self, frame: Frame, receipt: str | None) -> None:
        headers, client_id = frame.headers, self._access.client_id
        consumer = self._subscription_named(headers)
        name = durable_name(headers)
        if name is not None:
            if client_id is None:
                raise ProtocolError("a durable subscription needs a client id; set client-id in CONNECT")
            done = self._broker.unsubscribe(client_id, name)
            self._replies.wait_for(done, lambda _: self._unsubscribed(name, receipt), receipt)
            return
        if consumer is None:
            raise ProtocolError("No subscription matched. Use the id of an open subscription")
        self._output.flush()  # acknowledges messages that have been written to it
        consumer.close()
        self._subscriptions.remove(consumer)
        self._log_subscription(consumer, "unsubscribes from")
        self._answer(receipt)

    def _subscription_named(self, headers: dict[str, str]) -> StompConsumer | None:
        subscription_id = headers.get("id")
        if subscription_id is not None:
            return self._subscriptions.by_id.get(subscription_id)
        if self._version is not Version.V1_0:
            raise ProtocolError("UNSUBSCRIBE needs the header id with the id of the subscription; add it")
        destination = self._names.destination(required(headers, "destination", "UNSUBSCRIBE without an id"))
        return self._subscriptions.of(destination)

    def _unsubscribed(self, name: str, receipt: str | None) -> None:
        short, text = name[:LONGEST_NAME], "deletes the durable subscription %s of %s"
        values = (short, self._access.client_id)
        self._connection.log(self._service.subscribing, logging.INFO, text, *values, subscription=short)
        self._answer(receipt)

    def _ack(self, frame: Frame, receipt: str | None) -> None:
        name = frame.headers.get("transaction")
        if name is not None:
            self._transactions.check(name)
        consumer, key = self._subscriptions.acknowledged(frame, self._version, name)
        acked = consumer.take(key)
        if name is not None:
            self._transactions.acknowledge(name, consumer, acked)
            self._answer(receipt)
            return
        done = consumer.subscription.acknowledge([delivery for _, delivery in acked])
        self._replies.track(done, self._receipt(receipt), receipt, fatal=True)

    def _nack(self, frame: Frame, receipt: str | None) -> None:
        if self._version is Version.V1_0:
            raise ProtocolError("NACK needs STOMP 1.1 or 1.2; accept one of these in CONNECT")
        if "transaction" in frame.headers:
            raise ProtocolError("a NACK cannot be transacted; send it without a transaction")
        consumer, key = self._subscriptions.acknowledged(frame, self._version)
        done = consumer.subscription.reject([consumer.take_one(key)])
        self._replies.track(done, self._receipt(receipt), receipt, fatal=True)

    def _begin(self, frame: Frame, receipt: str | None) -> None:
        self._transactions.begin(required(frame.headers, "transaction", "BEGIN"))
        self._answer(receipt)

    def _commit(self, frame: Frame, receipt: str | None) -> None:
        done = self._transactions.commit(required(frame.headers, "transaction", "COMMIT"))
        self._replies.track(done, self._receipt(receipt), receipt, fatal=True)

    def _abort(self, frame: Frame, receipt: str | None) -> None:
        self._transactions.rollback(required(frame.headers, "transaction", "ABORT"))
        self._answer(receipt)

    def _disconnect(self, frame: Frame, receipt: str | None) -> None:  # noqa: ARG002
        self._connection.finish(self._receipt(receipt) or b"", reason="DISCONNECT", by_client=True)

    def _log_subscription(self, consumer: StompConsumer, does: str) -> None:
        request = consumer.request
        self._connection.log(
            *(self._service.subscribing, logging.INFO, "%s %s, ack %s%s"),
            *(does, request.destination, consumer.mode.value, consumer.describe()),
            destination=str(request.destination),
            subscription=(request.subscription_name or consumer.subscription_id or "")[:LONGEST_NAME],
        )


_COMMANDS: dict[str, Callable[[StompSession, Frame, str | None], None]] = {
    "CONNECT": StompSession._connect,
    "STOMP": StompSession._connect,
    "SEND": StompSession._send,
    "SUBSCRIBE": StompSession._subscribe,
    "UNSUBSCRIBE": StompSession._unsubscribe,
    "ACK": StompSession._ack,
    "NACK": StompSession._nack,
    "BEGIN": StompSession._begin,
    "COMMIT": StompSession._commit,
    "ABORT": StompSession._abort,
    "DISCONNECT": StompSession._disconnect,
}

_TRANSACTED = (StompSession._send, StompSession._ack)
"""Commands that may be part of a transaction. If one is rejected, the transaction cannot be committed."""


def _find_command(text: str) -> Callable[[StompSession, Frame, str | None], None]:
    """Return the command of a frame. As in ActiveMQ, a prefix match is enough, and two names have a short
    form."""
    for name in (*_COMMANDS, "UNSUB", "SUB"):
        if text.startswith(name):
            return _COMMANDS.get(name) or _COMMANDS[f"{name}SCRIBE"]
    raise ProtocolError(f"Unknown STOMP action: {text[:20]}", fatal=True)


def _choose_version(headers: Mapping[str, str]) -> Version:
    """Return the highest version that client and broker support."""
    accepted = headers.get("accept-version", "1.0").split(",")
    known = [version for version in Version if version.value in (text.strip() for text in accepted)]
    if not known:
        raise ProtocolError(
            f"Invalid Protocol version [{','.join(accepted)[:40]}]; accept 1.0, 1.1 or 1.2", fatal=True
        )
    return max(known)


def _check_host(headers: Mapping[str, str], virtual_hosts: str | None) -> None:
    """Reject a client that requests a host which this connector does not serve."""
    if virtual_hosts is None:
        return
    host = headers.get("host", "")
    if host not in (name.strip() for name in virtual_hosts.split(",")):
        raise ProtocolError(
            f"this broker does not serve the host {host[:80]!r}; set host in CONNECT to a host that "
            "it serves",
            fatal=True,
        )
