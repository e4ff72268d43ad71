"""One STOMP client's session: the commands it sends, and the replies to them.

CONNECT, SUBSCRIBE and the deletion of a durable subscription hold up the frames behind them. Sends,
acknowledgements and commits do not: each RECEIPT is written when its own command is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from jdbcstore.broker.api import Subscription
from jdbcstore.broker.security import Principal
from jdbcstore.broker.stomp.frames import Frame, Limits, Version, encode, escape, required
from jdbcstore.broker.stomp.messages import DestinationNames, MessageFrames, to_message
from jdbcstore.broker.stomp.reader import FrameReader
from jdbcstore.broker.stomp.subscriptions import AckMode, StompConsumer, Subscriptions, subscription_request
from jdbcstore.broker.stomp.transactions import Transactions
from jdbcstore.broker.transport.connection import LONGEST_NAME, ClientConnection, Connections
from jdbcstore.broker.transport.service import Service
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import ProtocolError
from jdbcstore.message.ids import MessageId, ProducerId

_EOL = b"\n"
"""Written after each frame, as by ActiveMQ: some clients wait for it."""
_BEFORE_LOGIN = Limits(head=32 * 1024, headers=100, body=1024)
"""The limits of a client that has not logged in, which may only send CONNECT."""
_SHORTEST_BEAT_MS = 100


@dataclass(frozen=True, slots=True)
class HeartBeats:
    """The agreed intervals between heart-beats, in milliseconds; 0 is none."""

    from_client: int = 0
    from_broker: int = 0

    @classmethod
    def parse(cls, text: str | None) -> HeartBeats:
        """The intervals that a client asks for, each at least 100 ms.

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


class Session(ClientConnection):
    """The connection of a STOMP client. As in ActiveMQ it goes on after an error, unless that is fatal."""

    protocol = "STOMP"
    heart_beat = b"\n"
    reader: FrameReader

    def __init__(self, service: Service, config: ConnectorConfig, connections: Connections) -> None:
        super().__init__(service, config, connections)
        self.reader = FrameReader(_BEFORE_LOGIN)
        self.version = Version.V1_0
        self._names = DestinationNames(self.connection_id)
        self._frames = MessageFrames(self._names, self.version)
        self._producer = ProducerId(self.connection_id, -1, 1)
        self._subscriptions = Subscriptions(self.connection_id, config.max_subscriptions)
        self._written: list[StompConsumer] = []
        """Consumers with deliveries that are acknowledged when the output is flushed."""
        self._transactions = Transactions(self._broker, self.connection_id)

    def handle(self, frame: Frame) -> None:
        """Execute a command; an error is sent to the client."""
        receipt, transaction = frame.headers.get("receipt"), frame.headers.get("transaction")
        command = None
        try:
            command = _COMMANDS.get(frame.command) or _find_command(frame.command)
            if self._principal is None and command is not Session._connect:
                raise ProtocolError("Not connected. Begin with CONNECT", fatal=True)
            command(self, frame, receipt)
        except Exception as error:
            if transaction is not None and command in _TRANSACTED:
                self._transactions.fail(transaction, error)
            self.fail(error, receipt)

    # Events of the network.

    def pause_writing(self) -> None:
        super().pause_writing()
        for consumer in self._subscriptions:
            consumer.subscription.pause()

    def resume_writing(self) -> None:
        for consumer in [*self._subscriptions]:
            consumer.subscription.resume()
        super().resume_writing()

    def flush(self) -> None:
        super().flush()
        if self._written:
            written = [*self._written]
            self._written.clear()
            for consumer in written:
                done = consumer.flushed()
                if done is not None:
                    self._track(done, None, fatal=True)

    def _release(self) -> None:
        self._transactions.rollback_all()
        for consumer in self._subscriptions.remove_all():
            consumer.close()
        super()._release()

    # Replies.

    def _receipt(self, receipt: str) -> bytes:
        return f"RECEIPT\nreceipt-id:{escape(receipt, self.version)}\n\n\0".encode() + _EOL

    def _error(self, error: BaseException, text: str, receipt: str | None) -> bytes:  # noqa: ARG002
        headers = [("message", text.partition("\n")[0]), ("content-type", "text/plain")]
        if receipt is not None:
            headers.append(("receipt-id", receipt))
        body = text.encode(errors="replace").replace(b"\0", b"?")
        return encode("ERROR", headers, self.version, body) + _EOL

    # Commands.

    def _connect(self, frame: Frame, receipt: str | None) -> None:
        if self._principal is not None:
            raise ProtocolError("Already connected.")
        headers = frame.headers
        self.version = _choose_version(headers)
        _check_host(headers, self._config.virtual_hosts)
        heart_beats = HeartBeats.parse(headers.get("heart-beat"))
        then = partial(self._connected, headers, heart_beats)
        self._authenticate(headers.get("login"), headers.get("passcode"), then, receipt)

    def _connected(self, headers: dict[str, str], heart_beats: HeartBeats, principal: Principal) -> None:
        client_id, config = headers.get("client-id"), self._config
        self._logged_in(principal, headers.get("login"), client_id)
        self._frames = MessageFrames(self._names, self.version)
        self.reader.version = self.version
        self.reader.limits = Limits(
            line=config.max_header_length, headers=config.max_headers, body=config.max_frame_size
        )
        answer = [
            ("version", self.version.value),
            ("session", client_id or self.connection_id),
            ("heart-beat", str(heart_beats)),
            ("server", self._service.server),
        ]
        request = headers.get("request-id", headers.get("receipt"))
        if request is not None:  # ActiveMQ's reply from before the specification
            answer += [("response-id", request), ("receipt-id", request)]
        self.write(encode("CONNECTED", answer, self.version) + _EOL)
        self._start_heart_beats(heart_beats.from_client / 1000, heart_beats.from_broker / 1000)
        text = "is logged in as %r, STOMP %s, client-id %r"
        values = (principal.name, self.version, client_id)
        self._log(self._service.logins, logging.INFO, text, *values, user=principal.name)

    def _send(self, frame: Frame, receipt: str | None) -> None:
        headers = frame.headers
        destination = self._names.destination(required(headers, "destination", "SEND"))
        del headers["destination"]
        if destination not in self._writable:
            self._check_may_write(destination)
        headers.pop("receipt", None)
        name = headers.pop("transaction", None)
        self._sent += 1
        message_id = MessageId(self._producer, self._sent)
        message = to_message(
            frame, destination, message_id, self._service.clock.now_ms(), self._names, self._user_id
        )
        if name is None:
            done = self._broker.send(message, self.connection_id)
        else:
            done = self._transactions.send(name, message)
        self._track(done, receipt, len(frame.body))

    def _subscribe(self, frame: Frame, receipt: str | None) -> None:
        headers = frame.headers
        required(headers, "destination", "SUBSCRIBE")
        subscription_id = headers.get("id")
        if subscription_id is None and self.version is not Version.V1_0:
            raise ProtocolError("SUBSCRIBE needs the header id; add it")
        prefix = self._subscriptions.next_prefix()
        request = subscription_request(
            headers, self._names, self.version, self.connection_id, self._client_id
        )
        self._check_may_read(request.destination)
        mode = AckMode(headers.get("ack", AckMode.AUTO))
        consumer = StompConsumer(
            *(self, request, mode, subscription_id, self._frames, self.version, prefix),
            self._written.append,
            self._subscription_ended,
        )
        self._subscribing = self._broker.subscribe(request, consumer)
        self._wait_for(self._subscribing, partial(self._subscribed, consumer, receipt), receipt)

    def _subscribed(self, consumer: StompConsumer, receipt: str | None, subscription: Subscription) -> None:
        self._subscribing = None
        consumer.open(subscription)
        self._subscriptions.add(consumer)
        self._log_subscription(consumer, "subscribes to")
        self._answer(receipt)

    def _subscription_ended(self, consumer: StompConsumer, error: Exception) -> None:
        self._subscriptions.remove(consumer)
        self.fail(error)

    def _unsubscribe(self, frame: Frame, receipt: str | None) -> None:
        headers = frame.headers
        consumer = self._subscription_named(headers)
        name = headers.get("activemq.subscriptionName")
        if name is not None:
            if self._client_id is None:
                raise ProtocolError("a durable subscription belongs to a client id; set client-id in CONNECT")
            done = self._broker.unsubscribe(self._client_id, name)
            self._wait_for(done, lambda _: self._unsubscribed(name, receipt), receipt)
            return
        if consumer is None:
            raise ProtocolError("No subscription matched. UNSUBSCRIBE with the id of one")
        self.flush()  # acknowledges what has been written to it
        consumer.close()
        self._subscriptions.remove(consumer)
        self._log_subscription(consumer, "unsubscribes from")
        self._answer(receipt)

    def _subscription_named(self, headers: dict[str, str]) -> StompConsumer | None:
        subscription_id = headers.get("id")
        if subscription_id is not None:
            return self._subscriptions.with_id(subscription_id)
        if self.version is not Version.V1_0:
            raise ProtocolError("UNSUBSCRIBE needs the header id, that of the subscription; add it")
        destination = self._names.destination(required(headers, "destination", "UNSUBSCRIBE without an id"))
        return self._subscriptions.of(destination)

    def _unsubscribed(self, name: str, receipt: str | None) -> None:
        short, text = name[:LONGEST_NAME], "deletes the durable subscription %s of %s"
        values = (short, self._client_id)
        self._log(self._service.subscribing, logging.INFO, text, *values, subscription=short)
        self._answer(receipt)

    def _ack(self, frame: Frame, receipt: str | None) -> None:
        name = frame.headers.get("transaction")
        if name is not None:
            self._transactions.check(name)
        consumer, key = self._subscriptions.acknowledged(frame, self.version, name)
        acked = consumer.take(key)
        if name is not None:
            self._transactions.acknowledge(name, consumer, acked)
            self._answer(receipt)
            return
        done = consumer.subscription.acknowledge([delivery for _, delivery in acked])
        self._track(done, receipt, fatal=True)

    def _nack(self, frame: Frame, receipt: str | None) -> None:
        if self.version is Version.V1_0:
            raise ProtocolError("NACK needs STOMP 1.1 or 1.2; accept one of these in CONNECT")
        if "transaction" in frame.headers:
            raise ProtocolError("a NACK cannot be transacted; send it without a transaction")
        consumer, key = self._subscriptions.acknowledged(frame, self.version)
        done = consumer.subscription.reject([consumer.take_one(key)])
        self._track(done, receipt, fatal=True)

    def _begin(self, frame: Frame, receipt: str | None) -> None:
        self._transactions.begin(required(frame.headers, "transaction", "BEGIN"))
        self._answer(receipt)

    def _commit(self, frame: Frame, receipt: str | None) -> None:
        done = self._transactions.commit(required(frame.headers, "transaction", "COMMIT"))
        self._track(done, receipt, fatal=True)

    def _abort(self, frame: Frame, receipt: str | None) -> None:
        self._transactions.rollback(required(frame.headers, "transaction", "ABORT"))
        self._answer(receipt)

    def _disconnect(self, frame: Frame, receipt: str | None) -> None:  # noqa: ARG002
        self.end_reason = "DISCONNECT"
        self.finish(b"" if receipt is None else self._receipt(receipt))

    def _log_subscription(self, consumer: StompConsumer, does: str) -> None:
        request, how = consumer.request, ""
        if request.subscription_name is not None:
            how += f", durable as {request.subscription_name[:LONGEST_NAME]}"
        if request.selector is not None:
            how += ", with a selector"
        if request.browser:
            how += ", as a browser"
        self._log(
            *(self._service.subscribing, logging.INFO, "%s %s, ack %s%s"),
            *(does, request.destination, consumer.mode.value, how),
            destination=str(request.destination),
            subscription=(request.subscription_name or consumer.subscription_id or "")[:LONGEST_NAME],
        )


_COMMANDS: dict[str, Callable[[Session, Frame, str | None], None]] = {
    "CONNECT": Session._connect,
    "STOMP": Session._connect,
    "SEND": Session._send,
    "SUBSCRIBE": Session._subscribe,
    "UNSUBSCRIBE": Session._unsubscribe,
    "ACK": Session._ack,
    "NACK": Session._nack,
    "BEGIN": Session._begin,
    "COMMIT": Session._commit,
    "ABORT": Session._abort,
    "DISCONNECT": Session._disconnect,
}

_TRANSACTED = (Session._send, Session._ack)
"""Commands that may be part of a transaction: if one is refused, the transaction cannot be committed."""


def _find_command(text: str) -> Callable[[Session, Frame, str | None], None]:
    """As in ActiveMQ, a command only has to begin with its name, and two names have a short form."""
    for name in (*_COMMANDS, "UNSUB", "SUB"):
        if text.startswith(name):
            return _COMMANDS.get(name) or _COMMANDS[f"{name}SCRIBE"]
    raise ProtocolError(f"Unknown STOMP action: {text[:20]}", fatal=True)


def _choose_version(headers: Mapping[str, str]) -> Version:
    """The highest version that client and broker support."""
    accepted = headers.get("accept-version", "1.0").split(",")
    known = [version for version in Version if version.value in (text.strip() for text in accepted)]
    if not known:
        raise ProtocolError(
            f"Invalid Protocol version [{','.join(accepted)[:40]}]; accept 1.0, 1.1 or 1.2", fatal=True
        )
    return max(known)


def _check_host(headers: Mapping[str, str], virtual_hosts: str | None) -> None:
    """Refuse a client that asks for a host that this connector does not serve."""
    if virtual_hosts is None:
        return
    host = headers.get("host", "")
    if host not in (name.strip() for name in virtual_hosts.split(",")):
        raise ProtocolError(
            f"this broker does not serve the host {host[:80]!r}; set host in CONNECT to one that it serves",
            fatal=True,
        )
